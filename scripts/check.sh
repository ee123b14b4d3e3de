#!/usr/bin/env bash
# The checks of C kernels, by a program and perhaps an emulator before it: products and graphs,
# which are half of them, beside the rest.
#
#	check.sh [EMULATOR...] PROGRAM [--quick]
set -euo pipefail

half=$(mktemp)
trap 'rm -f "$half"' EXIT
status=0
"$@" --only mm,ops >"$half" &
"$@" --skip mm,ops || status=1
wait $! || status=1
cat "$half"
exit "$status"
