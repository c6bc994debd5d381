# A run's folder is enough to repeat the run: its settings, versions and seeds. Energy by a made-up
# tree of counters. Tags, a comparison of two runs, the page after the end.
. "$(dirname "$0")/lib.sh"
cat > "$DIR/job.yaml" <<-JOB
	job: it
	run_dir: $RUN
	cluster: {servers: 1, workers: 1, partitions: 4, lease_ms: 3001}
	data: {generate: {rows: 12000, ids: 20000, seed: 3}, batch: 128, unit_batches: 8, seed: 5}
	model: {kind: deepfm, dim: 4, hidden: [8]}
	tables:
	  embedding: {optimizer: {kind: adam}, mode: {kind: sync}}
	  dense: {optimizer: {kind: adam}, mode: {kind: sync}}
	train: {passes: 2, seed: 7, threads: 1}
JOB
HAS_GPU=false # a device tells its energy, too
[ ! -e /dev/nvidiactl ] || HAS_GPU=true
ends_well() { finish_train 60; [ "$STATUS" = 0 ] || fail "exit status $STATUS"; }

# --- Energy: a package whose counter wraps, its memory, and zones that would count twice.
zone() { # zone NAME KIND MICROJOULES
	mkdir -p "$DIR/powercap/$1"
	echo "$2" > "$DIR/powercap/$1/name"
	echo 262143328850 > "$DIR/powercap/$1/max_energy_range_uj"
	echo "$3" > "$DIR/powercap/$1/energy_uj"
}
zone intel-rapl:0 package-0 262143000000
zone intel-rapl:0:0 core 5
zone intel-rapl:0:1 dram 1000000
zone intel-rapl-mmio:0 package-0 5
start_train --set "metrics.powercap=$DIR/powercap" --set model.dim=8 --set 'train.pace={batch_ms: 20}' --http 0
wait_for 30 "batches" status ".rows > 0"
zone intel-rapl:0 package-0 3000000
zone intel-rapl:0:0 core 900000000
zone intel-rapl:0:1 dram 2000000
zone intel-rapl-mmio:0 package-0 900000000
ends_well
holds "$DIR/report.json" '.energy.cpu_joules - 4.32885 | fabs < 1e-6'
holds "$DIR/report.json" '.energy.cpu_joules + (.energy.gpu_joules // 0) == .energy.joules and (.energy.joules_per_sample * .rows - .energy.joules | fabs < 1e-6)'
grep -q "energy  .* kJ of this machine's processors" "$DIR/train.out" || fail "the report does not tell the energy"
cp "$DIR/report.json" "$DIR/first.json"

# --- The folder says how the run came about.
holds "$RUN/provenance.json" '(.starts | length) == 1 and .starts[0].seeds == {"train": 7, "data": 5} and (.starts[0] | has("weir") and has("host") and has("folder")) and (.starts[0].fingerprint | length) == 16'
holds "$RUN/status.json" '.state == "finished" and .job == "it" and (.tables | length) > 0'
grep -q "^  dim: 8$" "$RUN/resolved-job.yaml" || fail "--set is not in the job"

# --- The same again from the folder, elsewhere: one synchronous worker gives the same model.
start_again() {
	"$WEIR" train "$RUN/resolved-job.yaml" --set "run_dir=$DIR/again" --set metrics.powercap=/nowhere --report "$DIR/again.json" "$@" > "$DIR/train.out" 2> "$DIR/train.err" < /dev/null &
	TRAIN=$!
}
start_again
ends_well
for figure in .test.auc .test.logloss .audit.applied; do
	[ "$(json "$DIR/first.json" $figure)" = "$(json "$DIR/again.json" $figure)" ] || fail "$figure differs: $(json "$DIR/first.json" $figure), then $(json "$DIR/again.json" $figure)"
done
$HAS_GPU || holds "$DIR/again.json" 'has("energy") | not'
$HAS_GPU || ! grep -q energy "$DIR/train.out" || fail "energy is told where nothing tells it"

# --- In place, too: the file is the run's own, which moves away.
start_train_from() { "$WEIR" train "$@" --report "$DIR/report.json" > "$DIR/train.out" 2> "$DIR/train.err" < /dev/null & TRAIN=$!; }
start_train_from "$DIR/again/resolved-job.yaml" --set train.passes=1 --set model.dim=4 --set run_dir="$DIR/again" --fresh
ends_well
[ -e "$DIR/again/earlier/1/resolved-job.yaml" ] || fail "the job of the run before is gone"

# --- Tags.
"$WEIR" runs tag "$RUN" team=ads live=yes > "$DIR/tag.out" || fail "weir runs tag"
"$WEIR" runs tag "$RUN/" live= > "$DIR/tag.out" || fail "weir runs tag"
grep -q ": team=ads$" "$DIR/tag.out" || fail "the tags: $(cat "$DIR/tag.out")"
"$WEIR" runs "$DIR" --tag team=ads --json > "$DIR/runs.json"
holds "$DIR/runs.json" '(.runs | length) == 1 and .runs[0].run == "run" and .runs[0].tags == "team=ads"'
"$WEIR" runs "$DIR" --tag team=other --json > "$DIR/runs.json"
holds "$DIR/runs.json" '.runs == []'
"$WEIR" runs tag "$RUN" 'no tag' > /dev/null 2> "$DIR/tag.err" && fail "a tag without = is taken"
told "KEY=VALUE" "$DIR/tag.err"

# --- Two runs side by side.
"$WEIR" runs diff "$RUN" "$DIR/again" --json > "$DIR/diff.json" || fail "weir runs diff"
holds "$DIR/diff.json" '[.settings[].key] | contains(["model.dim", "train.passes"]) and (contains(["run_dir"]) | not)'
holds "$DIR/diff.json" '(.settings[] | select(.key == "model.dim")) == {"key": "model.dim", "a": "8", "b": "4"}'
holds "$DIR/diff.json" '([.figures[].key] | contains(["test.auc", "energy.joules"])) and (.train_loss | length) > 0 and (."valid/auc" | length) == 2'
"$WEIR" runs diff "$RUN" "$DIR/again" --svg "$DIR/diff.svg" > "$DIR/diff.out" || fail "weir runs diff"
grep -q "model.dim .*8 .*4" "$DIR/diff.out" && grep -q "training loss from" "$DIR/diff.out" || fail "the comparison: $(cat "$DIR/diff.out")"
grep -q "<svg" "$DIR/diff.svg" || fail "there is no plot"
"$WEIR" runs diff "$RUN" "$DIR/none" > /dev/null 2> "$DIR/diff.err" && fail "no run is compared"
told "there is no run" "$DIR/diff.err"

# --- The page after the end.
"$WEIR" show "$RUN" > "$DIR/show.out" || fail "weir show"
[ "$(cat "$DIR/show.out")" = "$RUN/run.html" ] || fail "weir show says $(cat "$DIR/show.out")"
python3 - "$RUN/run.html" "$DIR/first.json" <<-'PY' || fail "the page is not as it should be"
	import json, re, sys
	page, report = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))
	data = json.loads(re.search(r'<script id="saved" type="application/json">(.*?)</script>', page, re.S).group(1))
	assert data["job"] == "it" and data["state"] == "finished", data["state"]
	assert len(data["curve"]) > 1 and [round(e["auc"], 5) for e in data["evaluations"]] == [round(p["auc"], 5) for p in report["passes"]]
	given = {s["key"]: s["value"] for s in data["settings"] if s["given"]}
	assert given["model.dim"] == "8" and given["train.seed"] == "7" and "train.clip_norm" not in given, given
	assert abs(data["energy"]["cpu_joules"] - 4.32885) < 1e-6
PY
"$WEIR" show "$RUN" --http 0 > "$DIR/served.out" 2> "$DIR/show.err" &
SHOW=$!
wait_for 10 "the address" test -s "$DIR/served.out"
python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())' "$(cat "$DIR/served.out")" > "$DIR/served.html" || fail "the page is not served"
grep -q 'id="saved"' "$DIR/served.html" || fail "another page is served"
kill -TERM $SHOW
wait_for 10 "weir show to end" is_gone $SHOW
wait $SHOW || fail "weir show ended with $?"

# --- Energy as the budget of a search. The counter rises while its trials train.
cat > "$DIR/sweep.yaml" <<-SWEEP
	base: $DIR/job.yaml
	out: $DIR/search
	set: [metrics.powercap=$DIR/powercap, train.passes=1]
	search: {kind: random, trials: 20, metric: valid.auc, budget: {joules: 2}}
	space:
	  tables.embedding.optimizer.lr: {min: 1.0e-4, max: 3.0e-2, log: true}
SWEEP
while sleep 0.1; do zone intel-rapl:0 package-0 $((counter = ${counter:-0} + 500000)); done &
COUNTER=$!
"$WEIR" sweep "$DIR/sweep.yaml" > "$DIR/sweep.out" 2> "$DIR/sweep.err" < /dev/null || fail "the search failed"
grep -q "the budget of joules is spent" "$DIR/sweep.err" || fail "the budget is not spent"
holds "$DIR/search/results.json" '.spent.joules >= 2 and (.trials | length) < 20'
kill $COUNTER && wait $COUNTER 2> /dev/null
refuses() { "$WEIR" sweep "$DIR/sweep.yaml" > /dev/null 2> "$DIR/refused.err" && fail "$1 is taken"; told "$2" "$DIR/refused.err"; }
sed -i 's,trials: 20,&\, parallel: 2,' "$DIR/sweep.yaml"
refuses "a parallel search" "expected parallel: 1"
sed -i 's,metrics.powercap=[^\,]*,metrics.powercap=/nowhere,; s,\, parallel: 2,,' "$DIR/sweep.yaml"
$HAS_GPU || refuses "a machine without counters" "/nowhere has no counters"
nothing_left
