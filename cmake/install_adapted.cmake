# Installs the files that say where others are, with what is true where they come to lie. Run by `cmake
# --install`, which alone knows the prefix; see package.cmake, which sets source, work and the folders.

foreach(folder program_folder document_folder data_folder)  # which may lie outside the prefix
  cmake_path(ABSOLUTE_PATH ${folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
endforeach()

# Words stay, links to what isn't installed go: sources, tools, tests.
file(GLOB left_behind RELATIVE ${source} ${source}/* ${source}/.*)
list(REMOVE_ITEM left_behind docs README.md CHANGELOG.md LICENSE)
list(FILTER left_behind INCLUDE REGEX "^[A-Za-z0-9_.-]+$")
list(JOIN left_behind "|" names)
string(REPLACE "." "[.]" names "${names}")
file(GLOB_RECURSE documents RELATIVE ${source} ${source}/docs/*.md)
file(REMOVE_RECURSE ${work})
foreach(document README.md CHANGELOG.md models/demo/README.md ${documents})
  file(READ ${source}/${document} text)
  string(REGEX REPLACE "\\[([^]]*)\\]\\(([.][.]/)*(${names})([/#][^)]*)?\\)" "\\1" text "${text}")
  file(WRITE ${work}/${document} "${text}")
endforeach()
file(INSTALL ${work}/README.md ${work}/CHANGELOG.md ${work}/docs
  DESTINATION ${document_folder})
file(INSTALL ${work}/models/demo/README.md DESTINATION ${data_folder}/models/demo)

file(READ ${source}/deploy/systemd/carat.service unit)
if(NOT program_folder MATCHES "/_CPack_Packages/")  # where a .tar.gz is put together; who unpacks it chooses
  string(REPLACE "/usr/bin/carat" "${program_folder}/carat" unit "${unit}")
endif()
file(WRITE ${work}/carat.service "${unit}")
file(INSTALL ${work}/carat.service DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
