# The CUDA backend, or its absence: without nvcc the same symbols say that CUDA is unavailable. The runtime is
# linked statically, so a binary needs nothing but the driver.
set(CARAT_CUDA_ARCHITECTURES "90a-real" CACHE STRING
  "GPU architectures, as in CMAKE_CUDA_ARCHITECTURES; also 80-real, 86-real, 89-real, 100-real, 120-real")

if(CARAT_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES ${CARAT_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 doesn't know C++20 for nvcc
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  # Draws equal those of engine/sampler, whose arithmetic isn't fused either.
  foreach(file draw.cu draw_pick.cu)
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/cuda/${file} PROPERTY COMPILE_OPTIONS --fmad=false)
  endforeach()
  find_package(CUDAToolkit REQUIRED)
  carat_layer(cuda USES engine)
  get_target_property(sources carat_cuda SOURCES)
  list(FILTER sources EXCLUDE REGEX "/no_cuda\\.cc$")
  file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)
  set_target_properties(carat_cuda PROPERTIES SOURCES "${sources};${kernels}")
  set(nvcc_flags --expt-relaxed-constexpr -lineinfo -Werror=all-warnings -Xcompiler=-Wall,-Wextra)
  target_compile_options(carat_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${nvcc_flags}>")
  target_include_directories(carat_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(carat_cuda PUBLIC CUDA::cudart_static)
else()
  add_library(carat_cuda STATIC ${PROJECT_SOURCE_DIR}/src/cuda/no_cuda.cc
    ${PROJECT_SOURCE_DIR}/src/cuda/packed_rows.cc  # plain C++, tested everywhere
    ${PROJECT_SOURCE_DIR}/src/cuda/sampling_rows.cc)
  target_link_libraries(carat_cuda PUBLIC carat_options carat_engine Threads::Threads)
endif()
