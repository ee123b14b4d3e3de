#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME each (30s). What it finds is a file under the
# package's testdata/fuzz: commit it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/stages.sh

while IFS=: read -r file target; do
	stage "$target" scripts/go.sh test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "./$(dirname "$file")"
done < <(grep -rHoE '^func Fuzz\w+' --include='*_test.go' go bench | sed 's/func //')
summary
