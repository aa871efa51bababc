# The chat page that `carat serve` shows: src/server/page/ as one string in the program, so that nothing has
# to be found or fetched at run time.
function(carat_embed_page target)
  set(folder ${PROJECT_SOURCE_DIR}/src/server/page)
  file(READ ${folder}/page.html page)
  foreach(part page.css markdown.js page.js)
    file(READ ${folder}/${part} text)
    string(REPLACE "export function" "function" text "${text}")
    string(REPLACE "/* ${part} */" "${text}" page "${page}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${part})
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/page.html)
  set(generated ${PROJECT_BINARY_DIR}/generated/chat_page.cc)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "server/chat_page.h"

namespace carat {

std::string_view chat_page() { return R"page(@page@)page"; }

}  // namespace carat
]])
  target_sources(${target} PRIVATE ${generated})
endfunction()
