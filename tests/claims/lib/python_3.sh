# The cost of a step: batch 4096, 26 ids a sample, rows of 16 numbers, 1 M ids. weir.torch in two
# processes (trainer and server) against nn.EmbeddingBag(sparse=True) and SparseAdam with two
# threads, in samples per second: at least as many. The binding adds at most 50 us of its thread's
# CPU time to a step, over the same calls in C. FROM_PYPI=1: the newest PyTorch instead of Debian's.
. tests/claims/lib/common.sh
. tests/claims/lib/python_common.sh
need_package torch
need_tests python_step
rounds=$(pick 2 5) steps=$(pick 20 40)
[ "$QUICK" != 1 ] || echo "QUICK: $rounds rounds of $steps steps"
"$PYTHON" -c 'import torch; print("PyTorch", torch.__version__)'
"$PYTHON" tests/claims/lib/torch_cost.py "$rounds" "$steps" > "$WORK/cost" || give_up "a run failed"
head -n -1 "$WORK/cost"
"$PYTHON" tests/bench/python/step.py "$BUILD/tests/python_step" "$rounds" > "$WORK/step" || give_up "the steps failed"
cat "$WORK/step"
ratio=$(tail -n 1 "$WORK/cost") added=$(sed -n 's/^difference.* \([0-9.-]*\) us of the thread.*/\1/p' "$WORK/step")
verdict "$ratio >= 1 and $added <= 50" "$ratio times PyTorch's samples per second; the binding adds $added us a step"
