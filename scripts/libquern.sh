#!/usr/bin/env bash
# The C library, for programs in other languages: libquern.so, libquern.a and their header.
#
#	scripts/libquern.sh FOLDER [VERSION]
#
# GOARCH, CC and QN_LIB are those of another architecture. The Go program and the kernels become one object in which only
# the functions of the header have names that others see. Both libraries are made of it: so the program is linked once,
# the kernels need not be compiled for a shared library, and a program may have another libquern.a, another Go runtime's
# names or a function qn_run of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$1
version=${2:-}
cc=${CC:-gcc}
tools=
[[ $cc != *-gcc ]] || tools=${cc%gcc}
header=go/cmd/libquern/libquern.h
abi=$(sed -n 's/^#define QUERN_ABI //p' "$header")
work=$out/.work
rm -rf "$work"
mkdir -p "$work/objects"

CGO_ENABLED=1 scripts/go.sh build -buildvcs="$(git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)" \
	-buildmode=c-archive -ldflags "-s -w -X main.version=$version" -o "$work/go.a" ./go/cmd/libquern
(cd "$work/objects" && "${tools}ar" x ../go.a)
# -d: what C leaves for the linker to place gets its place, and so can be hidden.
"$cc" -r -nostdlib -Wl,-d -o "$work/all.o" "$work"/objects/*.o "${QN_LIB:-build/csrc}/libquern.a"
# The functions are those that stand in the header at the beginning of a line.
sed -nE 's/^[a-z].*\b(quern_[a-z_]+)\(.*/\1/p' "$header" | sort >"$work/functions"
"${tools}objcopy" --strip-debug --keep-global-symbols="$work/functions" "$work/all.o" "$work/libquern.o"

cp "$header" "$out/"
rm -f "$out/libquern.a"
"${tools}ar" rcsD "$out/libquern.a" "$work/libquern.o"
{
	echo "QUERN_$abi {"
	echo "global:"
	sed 's/$/;/' "$work/functions"
	echo "local: *;"
	echo "};"
} >"$work/exports"
# nodelete: Go's runtime has threads, which go on after dlclose.
"$cc" -shared -s -o "$out/libquern.so.$abi" "$work/libquern.o" -Wl,-soname,"libquern.so.$abi" \
	-Wl,--version-script="$work/exports" -Wl,--no-undefined -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -lm -lpthread
ln -sf "libquern.so.$abi" "$out/libquern.so"

# What others see is what the header has, and no more.
seen() { "${tools}nm" --defined-only --format=posix "$@" | awk '$2 ~ /[A-Z]/ && $2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort; }
diff "$work/functions" <(seen -D "$out/libquern.so") >&2 || { echo "libquern: libquern.so has other symbols than its header" >&2; exit 1; }
diff "$work/functions" <(seen -g "$out/libquern.a") >&2 || { echo "libquern: libquern.a has other symbols than its header" >&2; exit 1; }
rm -rf "$work"
