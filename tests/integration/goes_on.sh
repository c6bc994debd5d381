# The record of passes lives as long as the run: across a kill of the evaluator, a stop, a resume, a
# restore. Passes can be added after the last one. A resume of a finished job, and one that fails,
# change nothing and report no speed. Weights name their model.
. "$(dirname "$0")/lib.sh"
PASSES=12
write_job $PASSES "log: disk, fsync_interval_ms: 50"
sed -i 's/lr: 3.0e-3/lr: 2.0e-2/; s/^train: {/&early_stop: {metric: logloss}, /' "$DIR/job.yaml"

evaluated() { [ -e "$RUN/evaluation.json" ] && jq -e "(.passes | length) >= $1" "$RUN/evaluation.json" > /dev/null; }
results() { sha256sum "$RUN/evaluation.json" "$RUN/best.safetensors"; }

# The document has every pass once, and the best of them is the one whose weights were kept.
all_passes() { holds "$1" "[.passes[].pass] == [range(1; $2 + 1)] and .best_pass == (.passes | min_by(.logloss) | .pass)"; }

# --- The evaluator is killed, the job stopped and resumed
start_train
wait_for 60 "two passes" evaluated 2
status '.auc > 0.5 and .logloss > 0 and .rows > 0' || fail "the status has other figures: $(cat "$DIR/status.json")"
"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/checkpoint.out" || fail "no checkpoint"
kill -KILL "$(pid_of evaluator)" || fail "the evaluator is not there"
wait_for 60 "five passes" evaluated 5
kill -TERM "$TRAIN"
finish_train 60
[ $STATUS = $STOPPED ] || fail "exit status $STATUS of the stopped run"
all_passes "$DIR/report.json" "$(json "$DIR/report.json" '.passes | length')"
holds "$DIR/report.json" '(.finished | not) and (.passes | length) >= 5 and .test.auc > 0.5'

start_train --resume
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS of the resumed run"
audited
all_passes "$DIR/report.json" $PASSES
holds "$DIR/report.json" ".samples_per_s * .train_s < 0.8 * .rows" # its own, not the earlier runs'
# likewise: only of passes whose end it saw.
holds "$DIR/report.json" "([.passes[] | has(\"seconds\")] | (first | not) and last and . == sort)"
holds "$DIR/report.json" "[.passes[] | select(.seconds) | .bytes_pushed] | . == (sort | unique)"
cp "$DIR/report.json" "$DIR/finished.json"
"$WEIR" status --job "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/status.err" && fail "a status of a job that has finished"
told "job it has finished" "last wrote at $(date -u +%Y-)" "take its best weights" "$DIR/status.err"

# --- Resumed again; and with another model
kept=$(results)
start_train --resume
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS of the run that found the job finished"
grep -q "already finished" "$DIR/train.out" || fail "it does not say that the job was finished: $(cat "$DIR/train.out")"
[ "$(grep -c "finished, pushed" "$DIR/train.err")" = 1 ] || fail "the last line is not there once: $(cat "$DIR/train.err")"
audited
holds "$DIR/report.json" '.finished and .samples_per_s == 0 and .train_s == 0'
holds "$DIR/report.json" 'all(.passes[]; has("seconds") | not)'
figures() { jq -S '[.test, .valid, [.passes[] | {pass, auc, logloss}], .best_pass, .rows]' "$1"; }
[ "$(figures "$DIR/finished.json")" = "$(figures "$DIR/report.json")" ] ||
	fail "other figures than before: $(cat "$DIR/report.json")"
start_train --resume --set model.dim=4
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS with another model"
holds "$DIR/report.json" '.samples_per_s == 0'
[ "$kept" = "$(results)" ] || fail "a resume changed the results of a finished job"

# --- Another model
"$WEIR" eval --job "$DIR/job.yaml" --set model.kind=lr > "$DIR/eval.out" 2> "$DIR/eval.err" && fail "taken: $(cat "$DIR/eval.out")"
told best.safetensors "model.kind was 'fm'" "is 'lr'" "$DIR/eval.err"

# --- Restored from the checkpoint: later passes are forgotten
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/restore.out" 2> "$DIR/restore.err" || fail "$(tail -n 1 "$DIR/restore.err")"
# The report of the second pass may be missing yet.
holds "$RUN/evaluation.json" '(.passes | length) >= 1 and (.passes | length) < '$PASSES
start_train --resume
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS of the restored run"
audited
holds "$DIR/report.json" '[.passes[].pass] == [range(1; '$PASSES' + 1)]'

# --- A finished job trains added passes
start_train --resume --set train.passes=$((PASSES + 2))
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS of the run with more passes"
audited
all_passes "$DIR/report.json" $((PASSES + 2))
holds "$DIR/report.json" '.finished and .train_s > 0'
grep -q "already finished" "$DIR/train.out" && fail "it does not train the passes that it was given"

# --- A job that stopped early does not
start_train --resume --set train.passes=1000 --set train.early_stop.patience=1 --accept train.early_stop.patience --set train.early_stop.min_delta=1 --accept train.early_stop.min_delta
finish_train 60
stopped=$(json "$DIR/report.json" '.passes | length')
[ $STATUS = 0 ] && [ "$stopped" -lt 1000 ] || fail "exit status $STATUS, $stopped passes, without an early stop"
start_train --resume --set train.passes=1001 --set train.early_stop.patience=1 --set train.early_stop.min_delta=1
finish_train 60
grep -q "already finished" "$DIR/train.out" || fail "it goes on behind its early stop: $(cat "$DIR/train.out")"
nothing_left
