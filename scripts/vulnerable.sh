#!/usr/bin/env bash
# Known vulnerabilities of what the program calls. GOVULNDB names the database: a mirror's URL, or file:///folder
# (default: https://vuln.go.dev). Exits with 3 and one line where it cannot be reached.
#
#	scripts/vulnerable.sh [PACKAGE...]   looks
#	scripts/vulnerable.sh reach          only tells whether it could
set -euo pipefail
cd "$(dirname "$0")/.."

# go run checks its sum and keeps it out of go.mod: what only looks is no dependency.
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0
db=${GOVULNDB:-https://vuln.go.dev}

case $db in
file://*) [[ -f ${db#file://}/index/modules.json || -f ${db#file://}/index/modules.json.gz ]] ;;
*) curl -fsS -m 10 -o /dev/null "$db/index/modules.json.gz" 2>/dev/null ;;
esac || {
	echo "vulnerable: the database at $db cannot be reached; GOVULNDB names a mirror of it, such as file:///srv/vulndb" >&2
	exit 3
}
[[ ${1:-} != reach ]] || exit 0
scripts/go.sh run "$govulncheck" -db "$db" "${@:-./go/cmd/quern}"
