# The same pulls and pushes in C and in Python: what the calling thread does more for a step.
# Elapsed time has the noise of servers and of the machine; it is printed, too.
. tests/claims/lib/python.sh
US_MAX=50
need_wheel
need_tests python_step
environment "$(pythons | tail -n 1 | cut -d ' ' -f 2)" "$WORK/environment"
"$WORK/environment/bin/python" tests/bench/python/step.py "$BUILD/tests/python_step" "$(pick 5 15)" > "$WORK/step.out" || give_up "the steps failed"
cat "$WORK/step.out" >&2
more=$(awk '/^difference/ {print $6}' "$WORK/step.out")
verdict "$more <= $US_MAX" "the binding adds $more us of CPU to a step (at most $US_MAX); $(awk '/^difference/ {print $2}' "$WORK/step.out") us elapsed"
