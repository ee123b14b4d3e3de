#!/usr/bin/env bash
# Quern for Windows, macOS and Linux on RISC-V, built on Linux by Zig's C compiler, which scripts/setup.sh cross installs.
#
#	scripts/cross.sh lib SYSTEM ARCH                the C library and its checks, into build-SYSTEM-ARCH
#	scripts/cross.sh program SYSTEM ARCH [VERSION]  that and the program; prints its path
#	scripts/cross.sh check SYSTEM ARCH              the checks, and the program where it is built, are looked at: what they
#	                                                load, what they ask of it, and of macOS that their signatures are right;
#	                                                of Windows on amd64 the checks run, under Wine, and of RISC-V
#	                                                under QEMU, with what the program computes
#	scripts/cross.sh built windows amd64            the program, and Go's tests as programs
#	scripts/cross.sh tests windows amd64 [ARGS]     Go's tests of packages, and the program as people use it, under Wine:
#	                                                scripts/wine has ARGS, and tests.txt there says which
#	scripts/cross.sh stubs                          where it says what macOS's libraries have
#	scripts/cross.sh able SYSTEM                    whether Wine is there, or for Linux QEMU
#
# SYSTEM and ARCH are Go's words: windows amd64, windows arm64, darwin arm64, darwin amd64, linux riscv64. Clang alone: GCC does not
# align the stack for AVX's registers on Windows, and GCC 12 has no vectors of RISC-V.
set -euo pipefail
cd "$(dirname "$0")/.."

macos=12.0 # the oldest that programs of Go run on, as in scripts/release/macho.go
# What Zig lacks of it: stubs of two frameworks and a library, with the names that Go's own packages ask for, and a header.
macos_has=$PWD/scripts/release/macos

# wine PROGRAM...: under Wine, in a folder of its own.
wine() {
	local at
	at=$(wine_path)
	WINEDEBUG=-all WINEPREFIX=$PWD/build/wine "$at" "$@"
}

# prefix makes that folder.
prefix() {
	[[ ! -e build/wine/made ]] || return 0
	mkdir -p build/wine
	wine wineboot -i
	# How long the service manager waits for a program, in ms: 10 s are too few on a busy machine.
	wine reg add 'HKLM\System\CurrentControlSet\Control' /v ServicesPipeTimeout /t REG_DWORD /d 300000 /f >/dev/null
	touch build/wine/made
}
wine_path() { command -v wine64 || command -v /usr/lib/wine/wine64; }

# random: Go asks this library for random numbers, which Wine has from version 9 on.
random() {
	local at=build/wine/drive_c/windows/system32/bcryptprimitives.dll
	[[ ! -e $at ]] || return 0
	build/zig/zig cc -target x86_64-windows-gnu -O2 -shared -o "$at" scripts/release/bcryptprimitives/random.c -ladvapi32
}

target() {
	case $1-$2 in
	windows-amd64) echo x86_64-windows-gnu ;;
	windows-arm64) echo aarch64-windows-gnu ;;
	darwin-amd64) echo "x86_64-macos.$macos" ;;
	darwin-arm64) echo "aarch64-macos.$macos" ;;
	linux-riscv64) echo riscv64-linux-musl ;;
	*)
		echo "cross: $1 on $2: want windows amd64, windows arm64, darwin arm64, darwin amd64 or linux riscv64" >&2
		return 2
		;;
	esac
}

# go_for SYSTEM ARCH ARGS: the go command for another system, with its C library.
go_for() {
	local cc
	cc="$PWD/build/zig/zig cc -target $(target "$1" "$2")"
	[[ $1 != darwin ]] || cc+=" -F$macos_has -L$macos_has -idirafter $macos_has/include"
	GOOS=$1 GOARCH=$2 CGO_ENABLED=1 CC=$cc QN_LIB=$PWD/build-$1-$2/csrc scripts/go.sh "${@:3}"
}

# link SYSTEM: what the linker is told. On Windows without an ID of Go's, which counts in when Zig's linker linked.
link() {
	case $1 in
	windows) echo '-buildid= -linkmode external -extldflags -static' ;;
	linux) echo '-linkmode external -extldflags "-static -Wl,--strip-all"' ;;
	esac
}

lib() {
	local target
	target=$(target "$1" "$2")
	scripts/setup.sh cross
	cmake -S . -B "build-$1-$2" --no-warn-unused-cli -DCMAKE_TOOLCHAIN_FILE=scripts/zig-toolchain.cmake \
		-DQN_TARGET="$target" -DQN_ZIG="$PWD/build/zig/zig" >/dev/null
	cmake --build "build-$1-$2" --parallel "$(nproc)" >&2
}

program() {
	local out=build-$1-$2/quern
	lib "$1" "$2"
	[[ $1 != windows ]] || out=$out.exe
	go_for "$1" "$2" build -buildvcs="$(git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)" -ldflags "-s -w -X main.version=${3:-} $(link "$1")" -o "$out" ./go/cmd/quern
	[[ $1 != windows ]] || go run ./scripts/release -undate "$out"
	echo "$out"
}

# riscv LENGTH ARGS...: under QEMU, with vectors of so many bits.
riscv() { qemu-riscv64 -cpu "rv64,v=true,vext_spec=v1.0,elen=64,vlen=$1" "${@:2}"; }

# check_riscv: what both sets compute. Where vectors are longer, the same instructions use a part of them: products and attention
# are checked with 256 bits alone. Then the program, whose logits of the demo model are those of bin/quern.
check_riscv() {
	local at=build-linux-riscv64 length here there
	riscv 256 "$at/csrc/check" --quick --only half,sincos,dequant,vec,pack,kept,pool,mm,twelve,attn,logits,delta,scan,select,share
	for length in 128 1024; do
		riscv "$length" "$at/csrc/check" --quick --only vec,logits,twelve
	done
	[[ -e $at/quern ]] || return 0
	here=$(bin/quern verify -m demo | grep -o '"logits":[^}]*}')
	there=$(riscv 256 "$at/quern" verify -m demo | grep -o '"logits":[^}]*}' || true)
	[[ $here == "$there" ]] || { echo "cross: the demo model has $there on RISC-V, want $here" >&2; return 1; }
	echo "the demo model has $there on RISC-V"
}

check() {
	local exe=
	if [[ $1 == linux ]]; then
		check_riscv
		return
	fi
	[[ $1 != windows ]] || exe=.exe
	look "$1" "$2" "build-$1-$2/csrc/check$exe"
	[[ ! -e build-$1-$2/quern$exe ]] || look "$1" "$2" "build-$1-$2/quern$exe"
	if [[ $1-$2 == windows-amd64 ]]; then
		prefix
		wine "build-$1-$2/csrc/check.exe" --quick "${@:3}"
	fi
}

# stubs: the folders of what macOS has, with a comma between.
stubs() { echo "$macos_has,$(build/zig/zig env | sed -n 's/.*lib_dir.*"\(.*\)".*/\1/p')/libc/darwin"; }
# look SYSTEM ARCH PROGRAM
look() {
	if [[ $1 == windows ]]; then
		go run ./scripts/release -pe "$3" -arch "$2"
	else
		go run ./scripts/release -mach-o "$3" -arch "$2" -stubs "$(stubs)"
	fi
}

built() {
	local package packages out=$PWD/build-$1-$2
	program "$1" "$2" >/dev/null
	build/zig/zig cc -target "$(target "$1" "$2")" -O2 -municode -o "$out/press.exe" scripts/wine/press/press.c
	mapfile -t packages < <(awk '$1 == "package" { print $2 }' scripts/wine/tests.txt)
	for package in "${packages[@]}"; do
		sed "s/PACKAGE/$package/" scripts/wine/remove.go.txt >"$out/$package.txt"
		echo "{\"Replace\": {\"$PWD/go/$package/remove_wine_test.go\": \"$out/$package.txt\"}}" >"$out/$package.json"
		go_for "$1" "$2" test -c -vet=off -overlay "$out/$package.json" -ldflags "-s -w -checklinkname=0 $(link "$1")" \
			-o "$out/$package.test.exe" "./go/$package"
	done
}

tests() {
	built "$1" "$2"
	prefix
	random
	WINE=$(wine_path) WINEPREFIX=$PWD/build/wine go run ./scripts/wine "${@:3}" "$PWD/build-$1-$2"
}

case ${1:-} in
lib | program | check | stubs | built | tests) "$@" ;;
able)
	if [[ ${2:-} == linux ]]; then command -v qemu-riscv64 >/dev/null; else wine_path >/dev/null; fi
	;;
*)
	sed -n '2,/^set/s/^#//p' "$0" >&2
	exit 2
	;;
esac
