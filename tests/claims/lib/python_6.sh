# Hugging Face's Trainer on Weir (examples/python/hf_lora.py): LoRA on the small Llama, which
# weir-worker has trained on another text before. The validation loss is within 2 % of the plain
# Trainer's at equal tokens, also when the process is killed with kill -9 in the middle and started
# again. The audit is exact: no batch is lost or counts twice. PEFT loads the adapter, with the loss
# that the Trainer had.
. tests/claims/lib/python.sh
need_programs
need_data tinyshakespeare/input.txt llama-2m-fresh/config.json
FROM_PYPI=1 need_package torch transformers peft
text=$WEIR_DATA/tinyshakespeare/input.txt part=$(pick 150000 500000) passes=$(pick 2 4)
[ "$QUICK" != 1 ] || echo "QUICK: less text and two passes"
head -c "$part" "$text" > "$WORK/first.txt"
tail -c "$part" "$text" > "$WORK/second.txt"
sed "s#^  split:.*#  cache: $WORK/cache#" config/llama-text.yaml > "$WORK/llama.yaml"
train base "$WORK/llama.yaml" --set "data.train=$WORK/first.txt" --set "train.passes=$passes"
"$BUILD/weir" export "$WORK/llama.yaml" --set job=base --set "run_dir=$WORK/base" --set "data.train=$WORK/first.txt" --format hf --out "$WORK/model" > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "weir export failed"; }

export PASSES=$passes
example=("$PYTHON" examples/python/hf_lora.py "$WORK/model" "$WORK/second.txt")
loss_in() { sed -n 's/^validation loss //p' "$1"; }
"${example[@]}" "$WORK/plain" > "$WORK/plain.log" 2>&1 || { cat "$WORK/plain.log" >&2; give_up "the plain Trainer failed"; }
plain=$(loss_in "$WORK/plain.log")
echo "plain Trainer: validation loss $plain"

status() { "$BUILD/weir" status "$WORK/own.yaml" --json > "$WORK/status.json" 2> /dev/null; }
trains() { status && [ "$(figure "$WORK/status.json" rows)" -ge $((part * 9 / 10 / 64 * passes / 2)) ]; }
own() { # own NAME [KILL]: trains on Weir; sets loss
	printf 'job: %s\nrun_dir: %s\ncluster: {servers: 1, workers: 1, lease_ms: 3001}\ntrain: {passes: %s}\n' "$1" "$WORK/run-$1" "$passes" > "$WORK/own.yaml"
	"$BUILD/weir" launch "$WORK/own.yaml" --report "$WORK/$1.json" -- "${example[@]}" "$WORK/$1" > "$WORK/$1.out" 2> "$WORK/$1.err" &
	local run=$!
	if [ "${2:-}" ]; then
		wait_for 1800 "the middle of the training" trains
		kill -KILL "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["workers"][0]["pid"])' "$WORK/status.json")"
	fi
	wait $run || { cat "$WORK/$1".out "$WORK/$1".err "$WORK/run-$1"/*.log >&2; give_up "weir launch $1 failed"; }
	[ "$(figure "$WORK/$1.json" audit.ok)" = True ] || give_up "the audit of $1 failed"
	loss=$(loss_in "$WORK/run-$1/worker-0.log")
	echo "$1: validation loss $loss, $(figure "$WORK/$1.json" audit.missing) batches' parts missing, $(figure "$WORK/$1.json" audit.double) double"
}
own trainer
whole=$loss
own killed KILL
grep -q "signal 9" "$WORK/killed.err" || give_up "nothing was killed: $(cat "$WORK/killed.err")"
cat > "$WORK/load.py" <<'PY'
import sys

sys.path.insert(0, "examples/python")
import peft, torch, transformers
from hf_lora import Text

base, adapter, text = sys.argv[1:]
model = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), adapter).eval()
rows = torch.from_numpy(Text(text, True).rows)
with torch.no_grad():
    losses = [model(input_ids=r, labels=r).loss.item() * len(r) for r in rows.split(8)]
print(f"{sum(losses) / len(rows):.4f}")
PY
loaded=$("$PYTHON" "$WORK/load.py" "$WORK/model" "$WORK/trainer" "$WORK/second.txt" 2> "$WORK/load.err") || { cat "$WORK/load.err" >&2; give_up "PEFT does not load the adapter"; }
echo "the adapter in PEFT: validation loss $loaded"
verdict "abs($whole / $plain - 1) <= 0.02 and abs($loss / $plain - 1) <= 0.02 and abs($loaded / $whole - 1) <= 0.001" \
	"HF Trainer on Weir $(python3 -c "print(f'{100 * ($whole / $plain - 1):+.2f} %, {100 * ($loss / $plain - 1):+.2f} % with a kill')") against the plain Trainer, and no batch lost or twice"
