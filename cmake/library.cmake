# What others link: every layer below the program in one library, carat::carat, with the headers of
# include/carat. An archive, or with -DBUILD_SHARED_LIBS=ON a shared object, for bindings. `cmake --install`
# brings it with a package for find_package(carat).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(carat_objects)
foreach(layer base io text chat model engine ref cpu cuda api)
  list(APPEND carat_objects $<TARGET_OBJECTS:carat_${layer}>)
endforeach()
get_target_property(carat_kernels carat_cpu SOURCES)  # the objects per instruction set; see isa.cmake
list(FILTER carat_kernels INCLUDE REGEX "TARGET_OBJECTS")

add_library(carat_library ${carat_objects} ${carat_kernels})
add_library(carat::carat ALIAS carat_library)
set_target_properties(carat_library PROPERTIES
  OUTPUT_NAME carat EXPORT_NAME carat LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION 0)
target_include_directories(carat_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(carat_library INTERFACE cxx_std_20)
target_link_libraries(carat_library PUBLIC Threads::Threads)
if(CARAT_CUDA)
  target_link_libraries(carat_library PUBLIC CUDA::cudart_static)
endif()
if(CARAT_SANITIZE)
  target_link_options(carat_library INTERFACE -fsanitize=${CARAT_SANITIZE})
endif()

set(carat_package ${CMAKE_INSTALL_LIBDIR}/cmake/carat)
install(TARGETS carat_library EXPORT carat)
install(DIRECTORY include/carat TYPE INCLUDE)
install(EXPORT carat NAMESPACE carat:: FILE carat-targets.cmake DESTINATION ${carat_package})
configure_package_config_file(cmake/carat-config.cmake.in carat-config.cmake
  INSTALL_DESTINATION ${carat_package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(carat-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/carat-config.cmake ${PROJECT_BINARY_DIR}/carat-config-version.cmake
  DESTINATION ${carat_package})
