# A job that says `auto` is planned once, when its run begins: the plan is kept, and the run goes on
# with it. `weir plan` measures, explains, reads figures again, and leaves nothing behind.
. "$(dirname "$0")/lib.sh"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: auto, workers: 2, partitions: auto, log: disk, lease_ms: 3001, network: {rate: 100Mb/s}}
	data:
	  generate: {rows: 6000, ids: 20000, seed: 3}
	  batch: 128
	  unit_batches: 16
	  seed: 5
	model: {kind: deepfm, dim: 4, hidden: [32]}
	tables:
	  embedding: {optimizer: {kind: adagrad, lr: 1.0e-2}}
	  dense: {optimizer: {kind: adam, lr: 1.0e-3, schedule: {kind: cosine}}, mode: {kind: auto}, push: {codec: auto}}
	train: {passes: 1, seed: 7}
	checkpoint: {dir: $DIR/checkpoints, every_steps: 2}
	track: {dir: $DIR/tracked}
JOB
export TMPDIR=$DIR/tmp
mkdir "$TMPDIR"

"$WEIR" status "$DIR/job.yaml" > "$DIR/no.out" 2> "$DIR/no.err" && fail "a job that nobody has planned has a status"
grep -q 'cluster.servers is auto, and nobody has planned it' "$DIR/no.err" || fail "the message does not name the key"
"$WEIR" check "$DIR/job.yaml" > "$DIR/check.out" 2> "$DIR/check.err" || fail "weir check refuses auto"

"$WEIR" plan "$DIR/job.yaml" --json > "$DIR/plan.json" 2> "$DIR/plan.err" || fail "weir plan"
holds "$DIR/plan.json" '.written.samples_per_s > 0 and (.plans | length) > 1 and .plans[0].samples_per_s > 0'
holds "$DIR/plan.json" '.bill_samples_per_s > 0 and .written.samples_per_s != .bill_samples_per_s' # a rehearsal was held
holds "$DIR/plan.json" '[.space.keys[].key] | contains(["tables.dense.mode.kind", "tables.dense.push.codec"])'
holds "$DIR/plan.json" '[.space.keys[].key] | contains(["tables.dense.pull.codec"]) | not'
holds "$DIR/plan.json" 'all(.figures.dense_push[]; .bytes > 0 and .server_s > 0)'
[ ! -e "$RUN/plan.json" ] || fail "weir plan has planned the run"
[ ! -e "$DIR/checkpoints" ] && [ ! -e "$DIR/tracked" ] || fail "the rehearsal has left checkpoints, or what it tracked"

# The same figures, for other machines: the choice needs no new measurement.
jq .figures "$DIR/plan.json" > "$DIR/figures.json"
echo "{figures: $DIR/figures.json, rate: 1Gb/s, latency_ms: 1, workers: [{count: 4, cores: 8}], servers: [{count: 2, cores: 8}]}" > "$DIR/machines.yaml"
"$WEIR" plan "$DIR/job.yaml" --machines "$DIR/machines.yaml" --all --explain > "$DIR/others.out" 2> "$DIR/others.err" || fail "weir plan --machines"
grep -q '^plan  *[0-9.e+]* samples/s, limited by' "$DIR/others.out" || fail "no plan for other machines"
grep -q 'the bill of a batch' "$DIR/others.out" || fail "no bill"
sed 's/count: 4/count: four/' "$DIR/machines.yaml" > "$DIR/wrong.yaml"
"$WEIR" plan "$DIR/job.yaml" --machines "$DIR/wrong.yaml" > /dev/null 2> "$DIR/wrong.err" && fail "machines: four"
grep -q 'wrong.yaml:1:.*: count: expected a number from 1 to 64' "$DIR/wrong.err" || fail "the message about machines: $(cat "$DIR/wrong.err")"

"$WEIR" train "$DIR/job.yaml" --report "$DIR/report.json" > "$DIR/train.out" 2> "$DIR/train.err" || fail "weir train"
holds "$DIR/report.json" '.finished and .audit.ok'
holds "$RUN/plan.json" '[.answers[].key] | contains(["cluster.servers", "cluster.partitions", "tables.dense.mode.kind", "tables.dense.push.codec"])'
cp "$RUN/plan.json" "$DIR/kept.json"
"$WEIR" eval "$DIR/job.yaml" > "$DIR/eval.out" 2> "$DIR/eval.err" || fail "weir eval does not find the plan"

# A resumed run keeps its plan, whatever the planner would say now.
"$WEIR" train "$DIR/job.yaml" --resume --accept train.passes --set train.passes=2 --report "$DIR/report.json" > "$DIR/train.out" 2> "$DIR/train.err" || fail "weir train --resume"
holds "$DIR/report.json" '.finished and .audit.ok'
grep -q 'measuring' "$DIR/train.err" && fail "a resumed run is planned anew"
cmp "$RUN/plan.json" "$DIR/kept.json" || fail "a resumed run has another plan"
rm "$RUN/plan.json"
"$WEIR" train "$DIR/job.yaml" --resume --set train.passes=3 > "$DIR/train.out" 2> "$DIR/train.err" && fail "a run without its plan goes on"
grep -q 'plan.json' "$DIR/train.err" || fail "the message does not name the plan: $(cat "$DIR/train.err")"

[ -z "$(ls "$TMPDIR")" ] || fail "left in TMPDIR: $(ls "$TMPDIR")"
[ -z "$(left_over)" ] || fail "processes are left"
