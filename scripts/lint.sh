#!/usr/bin/env bash
# The checks that need no test to run: form, and what the analysers find.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/stages.sh

# go run checks its sum and keeps it out of go.mod: what only lints is no dependency.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

gofmt_clean() {
	local bad
	bad=$(gofmt -l -s ./*.go go bench scripts contrib csrc include) || return
	[[ -z $bad ]] || { printf 'gofmt -s -w %s\n' "$bad"; return 1; }
}

# What .clang-format cannot be asked: it would also undo tables laid out by hand.
c_form() {
	# shellcheck disable=SC2016 # $0 is awk's
	find csrc include go -name '*.[ch]' -print0 | LC_ALL=C xargs -0 awk '
		function bad(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; n++ }
		/[ \t]$/      { bad("space at the end of the line") }
		/^ +\t/       { bad("spaces before a tab") }
		/[^\t -~]/    { bad("a character outside ASCII") }
		{ line = $0; gsub(/\t/, "        ", line) }
		length(line) > 120 { bad("longer than 120 columns") }
		END { exit n > 0 }'
}

stage "gofmt" gofmt_clean
stage "go mod tidy" go mod tidy -diff
stage "go vet" scripts/go.sh vet ./...
# Its calls need no C; the whole program is linked by make macos.
stage "go vet, macOS" env GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./go/platform ./go/machine
stage "staticcheck" scripts/go.sh run "$staticcheck" ./...
stage "C form" c_form
# A database that is given has to be there.
if unreachable=$(scripts/vulnerable.sh reach 2>&1) || [[ -n ${GOVULNDB:-} ]]; then
	stage "known vulnerabilities" scripts/vulnerable.sh
else
	unable "known vulnerabilities" "${unreachable#vulnerable: }"
fi
if command -v shellcheck >/dev/null; then
	stage "shellcheck" shellcheck -x scripts/*.sh scripts/release/sign.sh .ci/run
else
	skip "shellcheck" "not installed (scripts/setup.sh ci)"
fi
summary
