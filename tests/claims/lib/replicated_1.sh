# The simulator runs 10,000 jobs of production servers and clients, each with another combination of
# faults, without a violation. Every planted bug is found within as many seeds: those of the
# protocol by its explorer, the others by the simulator. QUICK=1: 200 seeds, and only the bugs whose
# names begin with replica_e.
. tests/claims/lib/common.sh
set -o pipefail
seeds=$(pick 200 10000)
of_protocol=$(pick replica_e replica_)
JOBS=${JOBS:-$(nproc)}
export JOBS
need_tests simulator
"$BUILD/tests/sim" --seeds "1..$seeds" --jobs "$JOBS" 2> "$WORK/violations" | tee "$WORK/simulator"
cat "$WORK/violations"
violations=$(sed -n 's/^[0-9]* seeds, \([0-9]*\) violations.*/\1/p' "$WORK/simulator")
[ -n "$violations" ] || give_up "the simulator did not come to its end"
found=0
tests/sim/bugs/check.sh "$ROOT" "$seeds" "$of_protocol" | tee "$WORK/bugs" || found=$?
[ "$QUICK" = 1 ] || LIMIT_S=1800 tests/sim/bugs/find.sh "$ROOT" "$WORK/planted" "$seeds" | tee -a "$WORK/bugs" || found=$?
planted=$(wc -l < "$WORK/bugs")
missed=$(grep -c ': not found' "$WORK/bugs" || true)
[ "$QUICK" != 1 ] || echo "shortened: $seeds of 10000 seeds, $planted of $(find tests/sim/bugs -name '*.patch' | wc -l) planted bugs, none of the simulator's"
grep ' seeds a second' "$WORK/simulator"
echo "$planted planted bugs, $missed not found in $seeds seeds"
verdict "$violations == 0 and $missed == 0 and $found == 0" "$seeds seeds without a violation, and every planted bug found"
