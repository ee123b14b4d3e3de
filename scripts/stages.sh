# Sourced by the scripts that run many checks: each is a stage with a name and a time,
# one that fails does not hide the others, and a summary comes last.
#
#	stage NAME COMMAND...       runs it
#	skip NAME REASON            does not, and says why; under CI=true that is a failure
#	unable NAME REASON          the same where no package is missing, and which is no failure: the machine cannot
#	ahead NAME COMMAND...       begins stage NAME in the background, on CPUs that are idle, after what was begun so before
#	finish NAME                 is that stage: waits for its end, and then says what it said
#	summary                     prints the table of results, times and CPU times, and what failed ones said; fails if a stage did
#
# shellcheck shell=bash
set -o pipefail # a stage fails where its command does, and not only where tee does
stage_lines=()
stage_failed=0
stage_said=()
declare -A begun=() begun_output=()
begun_last=

times_file=$(mktemp)

# clock_cpu sets cpu_now to the CPU time of all commands that have ended, in seconds. Only the shell itself knows it:
# neither a pipe nor a substitution has it.
clock_cpu() {
	times >"$times_file"
	cpu_now=$(awk 'NR == 2 { gsub("s", ""); split($1, u, "m"); split($2, s, "m"); printf "%.0f", 60 * (u[1] + s[1]) + u[2] + s[2] }' "$times_file")
}

stage() {
	local name=$1 start=$SECONDS cpu output status=0
	clock_cpu
	cpu=$cpu_now
	shift
	output=$(mktemp)
	printf '\n== %s\n' "$name"
	"$@" 2>&1 | tee "$output" || status=1
	staged "$name" $status $((SECONDS - start)) "$cpu" "$output"
}

# staged NAME STATUS SECONDS CPU OUTPUT: the stage's part of the summary, with the CPU time since CPU.
staged() {
	local result=ok said
	if (($2)); then
		result=FAILED
		stage_failed=1
		# The end: that of a script with stages of its own is what these said.
		said=$(grep -aE -A 4 'FAIL|[Ee]rror:|panic:|DATA RACE|\*\*\*' "$5" | tail -n 60 || true)
		stage_said+=("== $1"$'\n'"${said:-$(tail -n 5 "$5")}")
	fi
	rm -f "$5"
	clock_cpu
	stage_lines+=("$(printf '%-34s %-7s %4d s %5d s of CPU' "$1" "$result" "$3" $((cpu_now - $4)))")
}

skip() {
	local result=skipped
	if [[ ${CI:-} == true ]]; then
		result=FAILED
		stage_failed=1
	fi
	stage_lines+=("$(printf '%-34s %-7s        %s' "$1" "$result" "$2")")
}

unable() { CI='' skip "$@"; }

ahead() {
	# A session of its own: all of its processes end with the script, by the trap, or where that is killed by the signal
	# that setpriv asks for; without setpriv's they then go on to their end. Where the system gives sessions equal
	# shares of the CPUs, this one's has to be less too. A command may be a function that was exported.
	local follow=() name=$1
	shift
	! setpriv --pdeathsig TERM true 2>/dev/null || follow=(setpriv --pdeathsig TERM)
	begun_output[$name]=$(mktemp)
	# shellcheck disable=SC2016 # the variables of that shell
	setsid ${follow[@]+"${follow[@]}"} bash -c '
		trap "trap - TERM; kill -- -$$" TERM
		{ echo 19 >/proc/self/autogroup; } 2>/dev/null
		renice -n 19 $$ >/dev/null
		if [[ $1 ]]; then
			tail --pid="$1" -f /dev/null &
			wait $!
		fi
		"${@:2}" &
		wait $!' ahead "$begun_last" "$@" >"${begun_output[$name]}" 2>&1 </dev/null &
	begun_last=$!
	begun[$name]=$!
	trap end_ahead EXIT
}

finish() {
	local start=$SECONDS cpu status=0
	clock_cpu
	cpu=$cpu_now
	printf '\n== %s\n' "$1"
	wait "${begun[$1]}" || status=1
	cat "${begun_output[$1]}"
	staged "$1" $status $((SECONDS - start)) "$cpu" "${begun_output[$1]}"
}

end_ahead() {
	local p
	for p in $(jobs -pr); do
		kill -- "-$p" 2>/dev/null || true
	done
	rm -f "${begun_output[@]}"
}

summary() {
	printf '\n== summary, %d s\n' "$SECONDS"
	printf '%s\n' "${stage_lines[@]}"
	rm -f "$times_file"
	((!stage_failed)) || printf '\n%s\n' ${stage_said[@]+"${stage_said[@]}"}
	return $stage_failed
}
