find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)

# carat_layer(NAME USES layers... THIRD_PARTY targets...): the library carat_NAME from src/NAME/*.cc.
# Third-party headers stay private to a layer, so no other folder can come to depend on them.
function(carat_layer name)
  cmake_parse_arguments(arg "" "" "USES;THIRD_PARTY" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_isa\\.cc$")
  list(TRANSFORM arg_USES PREPEND carat_)
  if(sources)
    add_library(carat_${name} STATIC ${sources})
    target_link_libraries(carat_${name}
      PUBLIC carat_options ${arg_USES} Threads::Threads PRIVATE ${arg_THIRD_PARTY})
  else()
    add_library(carat_${name} INTERFACE)
    target_link_libraries(carat_${name} INTERFACE carat_options ${arg_USES} Threads::Threads)
  endif()
endfunction()
