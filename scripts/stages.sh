# Sourced by the scripts that run many checks: each is a stage with a name and a time,
# one that fails does not hide the others, and a summary comes last.
#
#	stage NAME COMMAND...       runs it
#	skip NAME REASON            does not, and says why; under CI=true that is a failure
#	summary                     prints the table, and what failed ones said; fails if a stage did
#
# shellcheck shell=bash
stage_lines=()
stage_failed=0
stage_said=()

stage() {
	local name=$1 start=$SECONDS result=ok output
	shift
	output=$(mktemp)
	printf '\n== %s\n' "$name"
	if ! "$@" 2>&1 | tee "$output"; then
		result=FAILED
		stage_failed=1
		stage_said+=("== $name: $(grep -aE 'FAIL|error|panic|DATA RACE' "$output" | head -n 20 || true)")
	fi
	rm -f "$output"
	stage_lines+=("$(printf '%-34s %-7s %4d s' "$name" "$result" $((SECONDS - start)))")
}

skip() {
	local result=skipped
	if [[ ${CI:-} == true ]]; then
		result=FAILED
		stage_failed=1
	fi
	stage_lines+=("$(printf '%-34s %-7s        %s' "$1" "$result" "$2")")
}

summary() {
	printf '\n== summary, %d s\n' "$SECONDS"
	printf '%s\n' "${stage_lines[@]}"
	((!stage_failed)) || printf '\n%s\n' ${stage_said[@]+"${stage_said[@]}"}
	return $stage_failed
}
