#!/bin/sh
# Usage: tests/clients/run.sh CARAT [MODEL]   runs the tests of this folder against `carat serve MODEL`.
# Python is $PYTHON, else the environment that tools/make_client_environment.sh made. Without the clients'
# packages nothing is tested: exit code 77.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../../build/clients/bin/python}
if ! "$python" -c 'import anthropic, openai' 2>/dev/null; then
  echo "SKIPPED: $python lacks the packages openai and anthropic; run tools/make_client_environment.sh"
  exit 77
fi
export CARAT_PROGRAM="${1:?usage: $0 CARAT [MODEL]}"
if [ $# -gt 1 ]; then export CARAT_CLIENT_MODEL="$2"; fi
failed=0
for test in "$here"/*_test.py; do  # from the caller's folder, as its paths may be relative
  echo "== $(basename "$test")"
  "$python" -B "$test" -v || failed=1
done
exit $failed
