#!/usr/bin/env bash
# The C library and the packages of bin/quern, used as others do: built, installed from the files, and called from C,
# Python and Node. Before it: make all libquern.
set -euo pipefail
cd "$(dirname "$0")/.."

lib=$PWD/build/lib
made=$PWD/build/bindings
rm -rf "$made"
mkdir -p "$made"
PYTHON=/usr/bin/python3 scripts/bindings.sh bin/quern "$lib" "$made"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

# An address where nobody answers: what asks there waits.
/usr/bin/python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(3600)' >"$work/port" &
until [[ -s $work/port ]]; do sleep 0.05; done
HF_ENDPOINT=http://127.0.0.1:$(<"$work/port")
export HF_ENDPOINT QUERN_MODEL_CACHE=$work/cache

cc=(gcc -Wall -Wextra -Werror -O1 "-I$lib" go/cmd/libquern/testdata/test.c -pthread)
"${cc[@]}" -o "$work/shared" "-L$lib" -lquern "-Wl,-rpath,$lib"
"${cc[@]}" -o "$work/static" "$lib/libquern.a" -lm
"${cc[@]}" -o "$work/loaded" -DLOAD
echo "C, linked with libquern.so" && "$work/shared"
echo "C, linked with libquern.a" && "$work/static"
echo "C, by dlopen" && "$work/loaded" "$lib/libquern.so" leaks
unset HF_ENDPOINT

echo "Python" # NumPy is Debian's
/usr/bin/python3 -m venv --system-site-packages "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index --disable-pip-version-check "$made"/quern-*.whl
cp contrib/python/test.py "$work/" # away from the package beside it, which has no library
"$work/venv/bin/python" "$work/test.py"

echo "Node" # Koffi is that of the other clients, whose versions are locked
mkdir "$work/node"
cp contrib/node/test.mjs "$work/node/"
npm install --silent --no-audit --no-fund --offline --prefix "$work/node" \
	"$PWD/scripts/clients/node_modules/koffi" "$made"/quern-*-npm.tgz
(cd "$work/node" && node --test test.mjs)
