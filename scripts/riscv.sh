#!/usr/bin/env bash
# The C library for 64-bit RISC-V, compiled on another machine and run under QEMU: scalar kernels, since there are no others.
#
#	scripts/riscv.sh lib        the library and its checks, into build-riscv64
#	scripts/riscv.sh check      that, and some of the checks
#	scripts/riscv.sh able       whether the compiler and QEMU are there
set -euo pipefail
cd "$(dirname "$0")/.."
build="build-riscv64"

lib() {
	cmake -S . -B "$build" --no-warn-unused-cli -DCMAKE_TOOLCHAIN_FILE=scripts/riscv64-toolchain.cmake >/dev/null
	cmake --build "$build" --parallel "$(nproc)" >&2
}

check() {
	lib
	qemu-riscv64 "$build/csrc/check" --quick --only half,sincos,dequant,pool,logits
}

able() { command -v riscv64-linux-gnu-gcc >/dev/null && command -v qemu-riscv64 >/dev/null; }

case ${1:-} in
lib | check | able) "$1" ;;
*)
	sed -n '2,7p' "$0" >&2
	exit 2
	;;
esac
