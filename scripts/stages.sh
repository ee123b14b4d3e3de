# Sourced by the scripts that run many checks: each is a stage with a name and a time,
# one that fails does not hide the others, and a summary comes last.
#
#	stage NAME COMMAND...       runs it
#	skip NAME REASON            does not, and says why; under CI=true that is a failure
#	ahead COMMAND...            begins in the background, on CPUs that are idle, what a later stage would begin with;
#	                            that stage waits for it by its own means, or does what is left
#	summary                     prints the table, and what failed ones said; fails if a stage did
#
# shellcheck shell=bash
set -o pipefail # a stage fails where its command does, and not only where tee does
stage_lines=()
stage_failed=0
stage_said=()

stage() {
	local name=$1 start=$SECONDS result=ok output said
	shift
	output=$(mktemp)
	printf '\n== %s\n' "$name"
	if ! "$@" 2>&1 | tee "$output"; then
		result=FAILED
		stage_failed=1
		# The end: that of a script with stages of its own is what these said.
		said=$(grep -aE -A 4 'FAIL|[Ee]rror:|panic:|DATA RACE|\*\*\*' "$output" | tail -n 60 || true)
		stage_said+=("== $name"$'\n'"${said:-$(tail -n 5 "$output")}")
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

ahead() {
	# A session of its own: all of its processes end with the script, by the trap, or where that is killed by the signal
	# that setpriv asks for; without setpriv's they then go on to their end. Where the system gives sessions equal
	# shares of the CPUs, this one's has to be less too.
	local follow=()
	! setpriv --pdeathsig TERM true 2>/dev/null || follow=(setpriv --pdeathsig TERM)
	# shellcheck disable=SC2016 # the variables of that shell
	setsid ${follow[@]+"${follow[@]}"} sh -c '
		trap "trap - TERM; kill -- -$$" TERM
		{ echo 19 >/proc/self/autogroup; } 2>/dev/null
		nice -n 19 "$@" &
		wait' ahead "$@" >/dev/null 2>&1 </dev/null &
	trap end_ahead EXIT
}

end_ahead() {
	local p
	for p in $(jobs -pr); do
		kill -- "-$p" 2>/dev/null || true
	done
}

summary() {
	printf '\n== summary, %d s\n' "$SECONDS"
	printf '%s\n' "${stage_lines[@]}"
	((!stage_failed)) || printf '\n%s\n' ${stage_said[@]+"${stage_said[@]}"}
	return $stage_failed
}
