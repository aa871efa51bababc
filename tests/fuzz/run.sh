#!/usr/bin/env bash
# Usage: tests/fuzz/run.sh SECONDS [TARGET...]   builds the fuzz targets and runs each of them that long, as
# many at once as there are cores. Starts from tests/fuzz/corpus/TARGET; new inputs, logs and crashes stay in
# build/fuzz. Fails when a target does, after the others have ended.
set -euo pipefail
export seconds=${1:?usage: $0 SECONDS [TARGET...]}
shift
cd "$(dirname "$0")/../.."

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" .cc)"); done
fi
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake --preset asan "${launcher[@]}" --log-level=WARNING >/dev/null
cmake --build --preset asan --target "${targets[@]}"

fuzz() {
  local target=$1 found=build/fuzz options=()
  mkdir -p "$found/corpus/$target" "$found/crashes"
  if [ -f "tests/fuzz/$target.dict" ]; then options=("-dict=tests/fuzz/$target.dict"); fi
  if "build/asan/tests/fuzz/$target" "${options[@]}" -max_total_time="$seconds" -max_len=8192 \
    -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$found/crashes/$target-" "$found/corpus/$target" "tests/fuzz/corpus/$target" \
    >"$found/$target.log" 2>&1; then
    echo "$target: nothing found in $seconds s," \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$target.log") inputs"
  else
    cat "$found/$target.log"
    echo "$target FAILED"
    return 1
  fi
}
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET bash -euc 'fuzz TARGET'
