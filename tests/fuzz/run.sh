#!/bin/sh
# Usage: tests/fuzz/run.sh SECONDS [TARGET...]   builds the fuzz targets and runs each of them that long.
# Starts from tests/fuzz/corpus/TARGET; new inputs and crashes stay in build/fuzz. Fails at the first crash.
set -eu
seconds=${1:?usage: $0 SECONDS [TARGET...]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/fuzz

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="${CXX:-clang++-19}" \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCARAT_FUZZ=ON -DCARAT_TESTS=OFF >/dev/null
cmake --build "$build" --target fuzz

if [ $# -eq 0 ]; then
  set -- $(cd "$root/tests/fuzz" && ls ./*_fuzz.cc | sed 's|^\./||; s|\.cc$||')
fi
for target in "$@"; do
  found=$build/corpus/$target
  mkdir -p "$found" "$build/crashes"
  dictionary=$root/tests/fuzz/$target.dict
  if [ -f "$dictionary" ]; then dictionary=-dict=$dictionary; else dictionary=; fi
  echo "== $target for $seconds s"
  "$build/tests/fuzz/$target" $dictionary -max_total_time="$seconds" -max_len=8192 \
    -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$build/crashes/$target-" "$found" "$root/tests/fuzz/corpus/$target"
done
