#!/bin/sh
# Installs with apt what a build needs and this machine lacks; does nothing, quickly, when all is there.
#
#   tools/install_dependencies.sh program   compiler, CMake, Ninja and the header-only libraries
#   tools/install_dependencies.sh test      the same and GoogleTest
#   tools/install_dependencies.sh ci        the same, clang 19 (format, sanitizers, fuzzing), Python,
#                                           ccache and what the NEON kernels are tested with elsewhere
#
# Without root and without passwordless sudo it prints the command to run and exits with 1. All output goes to
# stderr.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }
has_file() { for found in $1; do [ -e "$found" ] && return 0; done; return 1; }  # $1 may be a pattern

missing=
need() { missing="$missing $1"; }

check_program() {
  has ninja || need ninja-build
  has cmake || need cmake
  has g++ || need g++
  has_file /usr/include/nlohmann/json.hpp || need nlohmann-json3-dev
  has_file /usr/include/CLI/CLI.hpp || need libcli11-dev
  has_file /usr/include/boost/beast.hpp || need libboost1.81-dev
  has_file /usr/include/openssl/ssl.h || need libssl-dev
}

check_test() {
  check_program
  has_file /usr/include/gtest/gtest.h || need libgtest-dev
  has_file /usr/include/gmock/gmock.h || need libgmock-dev
}

check_ci() {
  check_test
  has clang++-19 || need clang-19
  has clang-format-19 || need clang-format-19
  has_file '/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-*.a' || need libclang-rt-19-dev
  has python3 || need python3
  python3 -c 'import ensurepip' 2>/dev/null || need python3-venv
  has git || need git
  has ccache || need ccache
  has aarch64-linux-gnu-g++ || need g++-aarch64-linux-gnu
  has qemu-aarch64 || need qemu-user
  has haproxy || has_file /usr/sbin/haproxy || need haproxy
  has chromedriver || need chromium-driver
  /usr/bin/python3 -c 'import selenium' 2>/dev/null || need python3-selenium
}

case "${1:-}" in
  program | test | ci) "check_$1" ;;
  *) echo "usage: $0 program|test|ci" >&2; exit 2 ;;
esac
[ -n "$missing" ] || exit 0

if ! has apt-get; then
  echo "Missing here (names of the Debian packages):$missing" >&2
  echo "Install them with this system's package manager, then run the command again." >&2
  exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
  sudo=
elif has sudo && sudo -n true 2>/dev/null; then
  sudo=sudo
else
  echo "Some packages are missing. Install them, then run the command again:" >&2
  echo "  sudo apt-get install --no-install-recommends$missing" >&2
  exit 1
fi

echo "Installing:$missing" >&2
$sudo apt-get update -qq >&2
# shellcheck disable=SC2086  # one word per package
$sudo env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends $missing </dev/null >&2
