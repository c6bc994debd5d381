# The simulator with disk faults: 10,000 jobs without a violation, and every planted bug found (by
# replicated 1). QUICK=1: 200 jobs, and the planted bug that ignores the mark of a folder.
. tests/claims/lib/common.sh
[ "$QUICK" = 1 ] || exec bash tests/claims/lib/replicated_1.sh
set -o pipefail
need_tests simulator
"$BUILD/tests/sim" --seeds 1..200 > "$WORK/simulator" || { cat "$WORK/simulator" >&2; give_up "the simulator has found a violation"; }
back=$(sed -n "s/^ *\([0-9]*\)  a server's disk goes back in time/\1/p" "$WORK/simulator")
tests/sim/bugs/find.sh "$ROOT" "$WORK/planted" 200 sim_marks | tee "$WORK/bugs" || give_up "the planted bug is not found"
grep ' seeds a second' "$WORK/simulator"
verdict "$back > 0" "QUICK: 200 jobs without a violation, in $back a disk may go back in time; $(wc -l < "$WORK/bugs") planted bug found"
