# What a step costs. The binding: the same pulls and pushes in C and in Python; the calling thread
# does at most 50 us more for a step. Elapsed time has the noise of servers and of the machine; it is
# printed, too. weir.torch: batch 4096, 26 ids a sample, rows of 16 numbers, 1 M ids, in two
# processes (trainer and server), against nn.EmbeddingBag(sparse=True) and SparseAdam with two
# threads: at least as many samples per second. FROM_PYPI=1: the newest PyTorch instead of Debian's.
. tests/claims/lib/python.sh
US_MAX=50
need_package torch
need_tests python_step
rounds=$(pick 2 5) steps=$(pick 20 40)
[ "$QUICK" != 1 ] || echo "QUICK: $rounds rounds of $steps steps"
"$PYTHON" tests/bench/python/step.py "$BUILD/tests/python_step" "$(pick 5 15)" > "$WORK/step.out" || give_up "the steps failed"
cat "$WORK/step.out" >&2
more=$(awk '/^difference/ {print $6}' "$WORK/step.out")
"$PYTHON" -c 'import torch; print("PyTorch", torch.__version__)'
"$PYTHON" tests/claims/lib/torch_cost.py "$rounds" "$steps" > "$WORK/cost" || give_up "a run failed"
head -n -1 "$WORK/cost"
ratio=$(tail -n 1 "$WORK/cost")
verdict "$more <= $US_MAX and $ratio >= 1" \
	"the binding adds $more us of CPU to a step (at most $US_MAX), $(awk '/^difference/ {print $2}' "$WORK/step.out") us elapsed; $ratio times PyTorch's samples per second"
