#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME each (30s). What it finds is a file under the
# package's testdata/fuzz: commit it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/stages.sh

# fuzz PACKAGE TARGET. Where its time ends in the wrong moment, go test fails with no more than "context deadline
# exceeded" (Go 1.26): it has found nothing.
fuzz() {
	local said status=0
	said=$(mktemp)
	scripts/go.sh test -run '^$' -fuzz "^$2\$" -fuzztime "${FUZZTIME:-30s}" "$1" 2>&1 | tee "$said" || status=1
	if ((status)) && ! grep -q 'Failing input' "$said" && [[ $(grep -A1 -- '^--- FAIL' "$said" | tail -n 1) =~ ^\ +context\ deadline\ exceeded$ ]]; then
		status=0
	fi
	rm -f "$said"
	return $status
}

while IFS=: read -r file target; do
	stage "$target" fuzz "./$(dirname "$file")" "$target"
done < <(grep -rHoE '^func Fuzz\w+' --include='*_test.go' go bench | sed 's/func //')
summary
