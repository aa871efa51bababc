#!/bin/sh
# Builds the kernel tests for 64-bit Arm with a cross compiler and runs them under qemu's user mode, so that
# the NEON kernels are tested on x86 machines too. Debian: g++-aarch64-linux-gnu, qemu-user, googletest.
# Exit status 77: skipped, because one of them is missing.
#
#   tests/cpu/neon_under_qemu.sh [BUILD_FOLDER]
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$source/build/neon}
compiler=${NEON_CXX:-aarch64-linux-gnu-g++}
gtest=${GTEST_SOURCE:-/usr/src/googletest/googletest}

for tool in "$compiler" qemu-aarch64; do
  if ! command -v "$tool" > /dev/null; then
    echo "skipped: $tool is not installed" >&2
    exit 77
  fi
done
if [ ! -f "$gtest/src/gtest-all.cc" ]; then
  echo "skipped: no GoogleTest sources in $gtest" >&2
  exit 77
fi

mkdir -p "$build"
cat > "$build/CMakeLists.txt" << EOF2
cmake_minimum_required(VERSION 3.25)
project(carat_neon CXX)
set(PROJECT_SOURCE_DIR $source)
set(CMAKE_CXX_STANDARD 20)
list(APPEND CMAKE_MODULE_PATH $source/cmake)
include(warnings)
add_library(carat_cpu STATIC $source/src/cpu/isa.cc $source/src/cpu/kernels.cc $source/src/model/formats.cc
            $source/src/model/weights.cc)
target_link_libraries(carat_cpu PUBLIC carat_options)
include(isa)
file(GLOB tests $source/tests/cpu/kernels_*_test.cc)
add_executable(test_kernels \${tests} $gtest/src/gtest-all.cc $gtest/src/gtest_main.cc)
target_include_directories(test_kernels SYSTEM PRIVATE $gtest $gtest/include)
set_source_files_properties($gtest/src/gtest-all.cc PROPERTIES COMPILE_OPTIONS -w)
target_link_libraries(test_kernels PRIVATE carat_cpu -static)
EOF2
cmake -S "$build" -B "$build/build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=RelWithDebInfo > "$build/configure.log"
cmake --build "$build/build" > "$build/build.log" 2>&1 || { tail -40 "$build/build.log" >&2; exit 1; }
exec qemu-aarch64 "$build/build/test_kernels" --gtest_brief=1
