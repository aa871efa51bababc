# src/cpu/kernels_isa.cc once per instruction set of the target. -ffp-contract=off: fused multiply-adds are
# written out, so that every shape of a kernel rounds alike. Optimised also in Debug: unoptimised kernels
# are of no use to anyone, and inlining everything keeps shared inline functions out of these objects. GCC
# 12 takes the deliberately undefined operands in its own AVX-512 headers for mistakes (GCC bug 105593),
# hence the two -Wno; and for Arm it moves the scalar softcap's load of the sign bits behind the store
# unless told -fno-strict-aliasing.
function(carat_isa name number)
  add_library(carat_cpu_${name} OBJECT ${PROJECT_SOURCE_DIR}/src/cpu/kernels_isa.cc)
  target_link_libraries(carat_cpu_${name} PRIVATE carat_options)
  target_compile_definitions(carat_cpu_${name} PRIVATE CARAT_ISA=${name} CARAT_ISA_NUMBER=${number})
  target_compile_options(carat_cpu_${name} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math
    -fno-strict-aliasing $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized -Wno-maybe-uninitialized> ${ARGN})
  target_sources(carat_cpu PRIVATE $<TARGET_OBJECTS:carat_cpu_${name}>)
endfunction()

carat_isa(scalar 1)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(carat_cpu PRIVATE CARAT_HAVE_X86)
  carat_isa(avx2 2 -mavx2 -mfma -mf16c)
  carat_isa(avx512 3 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c
            -mprefer-vector-width=512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  target_compile_definitions(carat_cpu PRIVATE CARAT_HAVE_NEON)
  carat_isa(neon 4)
endif()
