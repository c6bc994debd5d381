# The suite passes on bare, busy and quiet machines: three rounds of `make run` and `make test` in a
# bare Debian root (foundation 1), `make test` beside eight busy loops, `make test` alone, and `make
# claims`. Prints the seconds of each and the names of failed tests.
. tests/claims/lib/common.sh
LOOPS=8 SOME_CLAIMS="foundation:5 foundation:8" EVERY=16 NAMED='^integration_(chaos|transformer)$'
busy=() failed=0 runs=0 current=
leave_nothing() {
	[ -z "$current" ] || { kill -TERM "$current"; wait "$current"; }
	[ ${#busy[@]} = 0 ] || { kill -KILL "${busy[@]}"; wait "${busy[@]}"; }
	rm -rf "$WORK"
} 2> /dev/null
trap leave_nothing EXIT
trap 'exit 143' TERM INT # a claim that is ended ends what it has begun

# try WHAT COMMAND...
try() {
	local what=$1 began=$SECONDS rc
	shift
	timeout 7200 "$@" > "$WORK/log" 2>&1 < /dev/null &
	current=$!
	wait $current && rc=0 || rc=$?
	current='' runs=$((runs + 1))
	[ $rc = 0 ] || { failed=$((failed + 1)); grep -E -A 12 '\*\*\*(Failed|Timeout|Exception)| FAILS |error:' "$WORK/log" | head -n 80; }
	echo "$what: $([ $rc = 0 ] && echo passes || echo "FAILS, status $rc"), $((SECONDS - began)) s, $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); $(tail -n 1 "$WORK/log")"
}
begin_loops() {
	local i
	for ((i = 0; i < LOOPS; i++)); do
		(while :; do :; done) &
		busy+=($!)
	done
}
end_loops() { kill -KILL "${busy[@]}" && wait "${busy[@]}"; busy=(); } 2> /dev/null

if [ "$QUICK" = 1 ]; then
	echo "QUICK: each ${EVERY}th released test and those of $NAMED, once beside $LOOPS busy loops; the claims $SOME_CLAIMS once; no bare root (foundation 1 has one), no sanitizers, no quiet machine"
	need_programs
	need_tests all
	begin_loops
	try "each ${EVERY}th released test beside $LOOPS busy loops" env WEIR_ROUNDS_PART=4 \
		ctest --test-dir "$BUILD" -U -I "1,,$EVERY" -R "$NAMED" -j $((3 * $(nproc))) --output-on-failure --no-tests=error
	end_loops
	try "make claims CLAIMS='$SOME_CLAIMS'" env CLAIMS_OUT="$WORK/claims" make claims CLAIMS="$SOME_CLAIMS"
else
	need_root "a bare Debian root"
	need_installed containers debootstrap
	all=$(scripts/claims.sh --list | grep -vx 'faults:5') # this claim
	for round in 1 2 3; do
		try "make run and make test in a bare root, round $round" bash tests/claims/lib/foundation_1.sh
		begin_loops
		try "make test beside $LOOPS busy loops, round $round" make test
		end_loops
		try "make test alone, round $round" make test
		try "make claims, round $round" env QUICK=1 CLAIMS_OUT="$WORK/claims" make claims CLAIMS="$(xargs <<< "$all")"
	done
fi
verdict "$runs > 0 and $failed == 0" "$((runs - failed)) of $runs runs of the suite and of the claims pass"
