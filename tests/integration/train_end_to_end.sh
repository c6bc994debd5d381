# A tiny generated job from its file to its report. Its weights are then evaluated, used to predict,
# and exported. A second run reuses the data.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
write_job 2
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".finished and .workers_lost == 0 and .servers_lost == 0 and .bad_lines == 0"
holds "$DIR/report.json" ".test.auc > 0.55 and .test.auc < 1 and .data.bayes_auc > .test.auc"
holds "$DIR/report.json" "(.passes | length) == 2 and .rows > 2 * 15000 and .samples_per_s > 0"
holds "$DIR/report.json" ".bytes.pushed > 0 and .bytes.pulled > 0"
grep -q "every push applied exactly once" "$DIR/train.out" || fail "the report says nothing of the audit"
nothing_left

"$WEIR" eval --job "$DIR/job.yaml" --part test --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval"
jq -es '.[0].rows == .[1].test.rows and (.[0].auc - .[1].test.auc | fabs) < 1e-6' "$DIR/eval.json" "$DIR/report.json" > /dev/null ||
	fail "weir eval says $(cat "$DIR/eval.json"), the report $(jq -c .test "$DIR/report.json")"
"$WEIR" predict --job "$DIR/job.yaml" --out "$DIR/scores.txt" > /dev/null 2> "$DIR/predict.err" || fail "weir predict"
[ "$(wc -l < "$DIR/scores.txt")" = "$(json "$DIR/report.json" ".test.rows")" ] || fail "one score a row"
awk '$1 <= 0 || $1 >= 1 { exit 1 }' "$DIR/scores.txt" || fail "scores are probabilities"
"$WEIR" export --job "$DIR/job.yaml" --out "$DIR/model.safetensors" > /dev/null 2> "$DIR/export.err" || fail "weir export"
header=$(od -An -tu8 -N8 "$DIR/model.safetensors" | tr -d ' ')
end=$(head -c $((8 + header)) "$DIR/model.safetensors" | tail -c "$header" | jq '[del(.__metadata__)[].data_offsets[1]] | max')
[ $((8 + header + end)) = "$(stat -c %s "$DIR/model.safetensors")" ] || fail "not a safetensors file: header $header, tensors $end"

before=$(stat -c %Y%i "$RUN/generated.tsv")
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS of the second run"
[ "$before" = "$(stat -c %Y%i "$RUN/generated.tsv")" ] || fail "the data were generated again"
audited
nothing_left
