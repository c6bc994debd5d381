# A DLRM step (26 tables, dim 128, batch 65,536, generated data) gives at least 1.2 times PyTorch's
# samples/s in the same precision, with or without torch.compile, whichever is faster. Encoding and
# pushing a batch's gradients takes at most 5 % of a step.
. tests/claims/lib/cuda.sh
need_programs
need_gpu
mkdir -p "$WORK/weir/bin" "$WORK/weir/lib"
cp "$BUILD/weir" "$BUILD/weir-server" "$BUILD/weir-worker" "$WORK/weir/bin"
cp "$BUILD/cuda/lib/libweir_cuda.so" "$WORK/weir/lib"
"$WORK/weir/bin/weir" bench step --json --set device=cuda --set train.precision=fp32 --set tables.embedding.push.codec=int8 > "$WORK/step.json" || give_up "the step cannot be measured"
need_peers dlrm
speed() { python3 -c 'import json, sys; print(*[round(r["value"]) for r in json.load(open(sys.argv[1]))["results"] if r["name"] == sys.argv[2]])' "$WORK/step.json" "$1"; }
for name in batch compute step "push alone" "step and push" "pull, step, push"; do echo "$name: $(speed "$name") samples/s"; done
peer=$(peer_speed "dlrm step fp32" %.0f)
[ -n "$peer" ] || give_up "PyTorch did not come to its end"
times=$(python3 -c "print(f'{$(speed step) / $peer:.2f}')")
share=$(python3 -c "print(f'{$(speed step) / $(speed "push alone"):.4f}')")
echo "PyTorch: $peer samples/s; the step is $times times as fast; a push keeps the worker for $share of a step"
verdict "$times >= 1.2 and $share <= 0.05" "1.2 times PyTorch's samples a second, coding and pushing at most 5 % of a step"
