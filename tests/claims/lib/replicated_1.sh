# The simulator: 10,000 jobs of production servers and clients, in each another combination of faults, without a violation; and every planted bug is found, those of
# the protocol by its explorer, the others by the simulator, within as many seeds.
. tests/claims/lib/common.sh
seeds=$(pick 300 10000)
JOBS=${JOBS:-$(nproc)}
export JOBS
cmake --preset release > "$WORK/cmake.log" 2>&1 || { cat "$WORK/cmake.log" >&2; give_up "the tests cannot be configured"; }
need_tests simulator
"$BUILD/tests/simulator" --seeds "1..$seeds" --jobs "$JOBS" 2> "$WORK/violations" | tee "$WORK/simulator"
cat "$WORK/violations"
violations=$(sed -n 's/^[0-9]* seeds, \([0-9]*\) violations.*/\1/p' "$WORK/simulator")
[ -n "$violations" ] || give_up "the simulator did not come to its end"
found=0
tests/sim/bugs/check.sh "$ROOT" "$seeds" | tee "$WORK/bugs" || found=$?
LIMIT_S=$(pick 120 1800) tests/sim/bugs/find.sh "$ROOT" "$WORK/planted" "$seeds" | tee -a "$WORK/bugs" || found=$?
planted=$(find tests/sim/bugs -name '*.patch' | wc -l)
missed=$(grep -c ': not found' "$WORK/bugs" || true)
tail -n 2 "$WORK/simulator"
echo "$planted planted bugs, $missed not found in $seeds seeds"
verdict "$violations == 0 and $missed == 0 and $found == 0" "$seeds seeds without a violation, and every planted bug found"
