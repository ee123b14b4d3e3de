#!/bin/sh
# Builds build/exchange: see exchange.c.
set -eu
cd "$(dirname "$0")/../.."
ucx=$(make -s ucx-libs)
# shellcheck disable=SC2086 # several words
cc -std=c11 -O2 -Iinclude -Icsrc -include csrc/base.h -static -o build/exchange bench/exchange/exchange.c csrc/ucx/ucx.c \
	"${QN_LIB:-build/csrc}/libquern.a" $ucx -lpthread -ldl -lrt -lm
