# TensorBoard reads the events of a run and of its resumptions: losses, an AUC per pass, byte counts
# that only grow.
for PYTHON in ${PYTHON:-} python3 /usr/bin/python3 none; do
	"$PYTHON" -c "import tensorboard" 2> /dev/null && break
done
[ "$PYTHON" != none ] || { echo "no Python here has the module tensorboard: skipped"; exit 77; }
. "$(dirname "$0")/lib.sh"
write_job 3
start_train --set "train.pace={batch_ms: 30}" # a pass lasts long enough to be seen
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
"$PYTHON" - "$RUN/events" "$DIR/report.json" <<-'PY' || fail "TensorBoard does not read the run's events"
	import json, sys
	from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
	events, report = EventAccumulator(sys.argv[1]).Reload(), json.load(open(sys.argv[2]))
	def curve(tag): return [(e.step, e.value) for e in events.Scalars(tag)]
	auc = curve("valid/auc")
	assert len(auc) == len(report["passes"]), (auc, report["passes"])
	for (_, got), want in zip(auc, report["passes"]):
	    assert abs(got - want["auc"]) < 1e-6, (got, want)
	pushed = [v for _, v in curve("bytes/pushed")]
	assert pushed == sorted(pushed) and pushed[-1] <= report["bytes"]["pushed"] * (1 + 1e-6), pushed
	losses = [v for _, v in curve("train/loss")]
	assert losses and all(0 < v < 1 for v in losses), losses
	print(len(losses), "losses,", len(auc), "evaluations; tags:", ", ".join(sorted(events.Tags()["scalars"])))
PY
nothing_left
