#!/usr/bin/env bash
# The checks of C kernels, by a program and perhaps an emulator before it: products, which are
# half of them, beside the rest.
#
#	check.sh [EMULATOR...] PROGRAM [--quick]
set -euo pipefail

products=$(mktemp)
trap 'rm -f "$products"' EXIT
status=0
"$@" --only mm >"$products" &
"$@" --skip mm || status=1
wait $! || status=1
cat "$products"
exit "$status"
