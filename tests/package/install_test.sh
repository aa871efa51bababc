#!/bin/sh
# Installs a build and builds the examples against it, as a project elsewhere does; then runs them.
#
#   install_test.sh BUILD WORK      exit code 77: skipped
set -eu
build=$1 work=$2
source=$(cd "$(dirname "$0")/../.." && pwd)

rm -rf "$work"
mkdir -p "$work"
if ! cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" 2>&1; then
  grep -q "cannot find" "$work/install.log" || { cat "$work/install.log" >&2; exit 1; }
  echo "skipped: not all that is installed has been built; run the build without targets first" >&2
  exit 77
fi
grep -q "^ExecStart=$work/prefix/bin/carat serve" "$work/prefix/lib/systemd/system/carat.service" ||
  { echo "carat.service starts another program than the installed one" >&2; exit 1; }
python3 -B "$source/tools/check_links.py" "$work/prefix"

# Folders outside the prefix, and blanks in their names.
cmake -Dsource="$source" -Dwork="$work/some work" -DCMAKE_INSTALL_PREFIX="$work/some prefix" \
  -Dprogram_folder="$work/programs" -Ddocument_folder="$work/some documents" -Ddata_folder=share/carat \
  -P "$source/cmake/install_adapted.cmake" >"$work/install.log"
grep -q "^ExecStart=$work/programs/carat serve" "$work/some prefix/lib/systemd/system/carat.service"
[ -f "$work/some documents/README.md" ] && [ -f "$work/some prefix/share/carat/models/demo/README.md" ]

cp -r "$source/examples" "$work/project"  # away from our sources: nothing of them can be found by accident
cmake -S "$work/project" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  >"$work/cmake.log" 2>&1 ||
  { cat "$work/cmake.log" >&2; exit 1; }
cmake --build "$work/build"

expect() { [ "$2" = "$3" ] || { printf '%s: expected "%s", got "%s"\n' "$1" "$2" "$3" >&2; exit 1; }; }

demo=$work/prefix/share/carat/models/demo
reply=$("$work/build/carat-example-generate" "$demo" "Once upon a time")
expect generate "$("$work/prefix/bin/carat" run "$demo" -p "Once upon a time" -n 60 --temp 0 -q)" "$reply"

# The demo model has no turns; with a template it has.
cp -r "$demo" "$work/model"
cat >"$work/model/chat_template.jinja" <<'END'
{{ bos_token }}{% for m in messages %}<|turn>{{ m.role }}
{{ m.content }}<turn|>
{% endfor %}<|turn>model
END
printf 'Tell me of a fox\nGo on\n' |
  "$work/build/carat-example-chat" "$work/model" >"$work/chat.out" 2>"$work/chat.err"
expect "turns of the chat" 2 "$(grep -c 'in the reply' "$work/chat.err")"
echo "installed, built against and run"
