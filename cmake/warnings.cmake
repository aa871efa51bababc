add_library(carat_options INTERFACE)
target_compile_options(carat_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror>)
# libstdc++ 12 itself calls what it deprecates (std::stable_sort), and clang reports that at our lines.
target_compile_options(carat_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
target_include_directories(carat_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(carat_options INTERFACE CARAT_VERSION="${PROJECT_VERSION}")
if(CARAT_SANITIZE)
  target_compile_options(carat_options INTERFACE -fsanitize=${CARAT_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(carat_options INTERFACE -fsanitize=${CARAT_SANITIZE})
endif()
