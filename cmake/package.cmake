# `cmake --install`: the library (library.cmake), the program, the demo model where the program finds it
# (../share/carat/models/demo), the documents. `cpack` makes a .tar.gz and a .deb of the same.
include(GNUInstallDirs)
set(carat_data ${CMAKE_INSTALL_DATADIR}/carat)
install(DIRECTORY models/demo DESTINATION ${carat_data}/models)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES deploy/systemd/carat.service DESTINATION lib/systemd/system)

set(CPACK_PACKAGE_NAME carat)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Inference engine for Gemma 4")
set(CPACK_PACKAGE_CONTACT "The Carat authors")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
