#!/usr/bin/env bash
# Signs SHA256SUMS in a folder of a release, and by that all that it names, with a key from the environment:
#
#	scripts/release/sign.sh dist VERSION
#
#	MINISIGN_KEY          file of minisign's secret key, without a password   -> SHA256SUMS.minisig
#	COSIGN_PRIVATE_KEY    cosign's key itself, COSIGN_PASSWORD its password   -> SHA256SUMS.sig
#
# Without either it says so and signs nothing.
set -euo pipefail
dir=$1 version=$2
signed=
if [[ ${MINISIGN_KEY:-} ]]; then
	command -v minisign >/dev/null || { echo "release: MINISIGN_KEY is set, and there is no minisign" >&2; exit 1; }
	minisign -Sm "$dir/SHA256SUMS" -s "$MINISIGN_KEY" -t "quern $version" </dev/null >/dev/null ||
		{ echo "release: minisign does not sign with $MINISIGN_KEY" >&2; exit 1; }
	signed=minisign
fi
if [[ ${COSIGN_PRIVATE_KEY:-} ]]; then
	command -v cosign >/dev/null || { echo "release: COSIGN_PRIVATE_KEY is set, and there is no cosign" >&2; exit 1; }
	cosign sign-blob --yes --key env://COSIGN_PRIVATE_KEY --output-signature "$dir/SHA256SUMS.sig" "$dir/SHA256SUMS" >/dev/null
	signed+=" cosign"
fi
[[ $signed ]] || echo "release: not signed: MINISIGN_KEY and COSIGN_PRIVATE_KEY are not set" >&2
