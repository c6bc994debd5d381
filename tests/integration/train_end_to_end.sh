# A tiny generated job from its file to its report; then its weights are evaluated, predicted with and exported; a second run reuses the data.
. "$(dirname "$0")/lib.sh"
write_job 2
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" "d['finished'] and d['workers_lost'] == 0 and d['servers_lost'] == 0 and d['bad_lines'] == 0"
holds "$DIR/report.json" "d['test']['auc'] > 0.55 and d['test']['auc'] < 1 and d['data']['bayes_auc'] > d['test']['auc']"
holds "$DIR/report.json" "len(d['passes']) == 2 and d['rows'] > 2 * 15000 and d['samples_per_s'] > 0"
holds "$DIR/report.json" "d['bytes']['pushed'] > 0 and d['bytes']['pulled'] > 0"
grep -q "every push applied exactly once" "$DIR/train.out" || fail "the report says nothing of the audit"
nothing_left

"$WEIR" eval --job "$DIR/job.yaml" --part test --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval"
python3 - "$DIR/eval.json" "$DIR/report.json" <<'PY' || fail "weir eval and the report differ"
import json, sys
e, r = (json.load(open(f)) for f in sys.argv[1:])
sys.exit(not (abs(e["auc"] - r["test"]["auc"]) < 1e-6 and e["rows"] == r["test"]["rows"]))
PY
"$WEIR" predict --job "$DIR/job.yaml" --out "$DIR/scores.txt" > /dev/null 2> "$DIR/predict.err" || fail "weir predict"
[ "$(wc -l < "$DIR/scores.txt")" = "$(json "$DIR/report.json" "d['test']['rows']")" ] || fail "one score a row"
awk '$1 <= 0 || $1 >= 1 { exit 1 }' "$DIR/scores.txt" || fail "scores are probabilities"
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/model.safetensors" > /dev/null 2> "$DIR/export.err" || fail "weir export"
python3 - "$DIR/model.safetensors" <<'PY' || fail "not a safetensors file"
import json, struct, sys
f = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", f[:8])[0]
tensors = {k: v for k, v in json.loads(f[8:8 + n]).items() if k != "__metadata__"}
end = max(v["data_offsets"][1] for v in tensors.values())
sys.exit(not (tensors and 8 + n + end == len(f)))
PY

before=$(stat -c %Y%i "$RUN/generated.tsv")
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS of the second run"
[ "$before" = "$(stat -c %Y%i "$RUN/generated.tsv")" ] || fail "the data were generated again"
audited
nothing_left
