#!/usr/bin/env bash
# Quern for 64-bit RISC-V, compiled on another machine and run under QEMU: scalar kernels, since there are no others.
#
#	scripts/riscv.sh lib        the library and its checks, into build-riscv64
#	scripts/riscv.sh check      that, and some of the checks
#	scripts/riscv.sh demo       the program, whose logits of the demo model are those of bin/quern
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
	timeout 20m qemu-riscv64 "$build/csrc/check" --quick --only half,sincos,dequant,pool,logits,vec,pack,kept,share
}

# It failed in a quarter of the runs under QEMU 7.2 on a busy machine: see docs/building.md.
demo() {
	local here there
	lib
	GOARCH=riscv64 CGO_ENABLED=1 CC=riscv64-linux-gnu-gcc QN_LIB=$PWD/$build/csrc scripts/go.sh build -buildvcs=false \
		-ldflags '-s -w -linkmode external -extldflags -static' -o "$build/quern" ./go/cmd/quern
	here=$(bin/quern verify -m demo | grep -o '"logits":[^}]*}')
	there=$(qemu-riscv64 "$build/quern" verify -m demo | grep -o '"logits":[^}]*}' || true)
	[[ $here == "$there" ]] || { echo "riscv: the demo model has $there, want $here" >&2; return 1; }
	echo "the demo model has $there"
}

able() { command -v riscv64-linux-gnu-gcc >/dev/null && command -v qemu-riscv64 >/dev/null; }

case ${1:-} in
lib | check | demo | able) "$1" ;;
*)
	sed -n '2,8p' "$0" >&2
	exit 2
	;;
esac
