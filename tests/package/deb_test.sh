#!/bin/sh
# Makes the .deb of a build, unpacks it somewhere else and runs the program from there; and the .tar.gz.
#
#   deb_test.sh BUILD WORK      exit code 77: skipped
set -eu
build=$1 work=$2
if ! command -v dpkg-deb >/dev/null || ! command -v cpack >/dev/null; then
  echo "skipped: there is no dpkg-deb here" >&2
  exit 77
fi

rm -rf "$work"
mkdir -p "$work/root"
if ! cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" 2>&1; then
  grep -q "cannot find" "$work/cpack.log" || { cat "$work/cpack.log" >&2; exit 1; }
  echo "skipped: not all that is installed has been built; run the build without targets first" >&2
  exit 77
fi
dpkg-deb --field "$work"/carat_*.deb Package Version Depends
dpkg-deb --extract "$work"/carat_*.deb "$work/root"
"$work/root/usr/bin/carat" --version
grep -q "^ExecStart=/usr/bin/carat serve" "$work/root/usr/lib/systemd/system/carat.service"
[ -n "$(CARAT_DEMO_MODEL='' "$work/root/usr/bin/carat" run -p "Once upon a time" -n 8 -q)" ]

cpack -G TGZ --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" 2>&1 ||
  { cat "$work/cpack.log" >&2; exit 1; }
tar -xzOf "$work"/carat-*.tar.gz --wildcards "*/carat.service" | grep "^ExecStart=/usr/bin/carat serve"
echo "packed, unpacked and run"
