# A resumed run keeps the servers' tables, their number and its partitions. Changes that need others
# are refused before the run is touched, and a dry run reports the same.
. "$(dirname "$0")/../integration/lib.sh"
rows() { awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "%d %d:1 %d:1\n", i % 3 == 0, 1 + i % 7, 20 + i % 5 }'; }
rows 400 > "$DIR/train.svm"
rows 120 > "$DIR/valid.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: kept
	run_dir: $RUN
	cluster: {log: disk}
	data: {format: libsvm, train: $DIR/train.svm, valid: $DIR/valid.svm, batch: 16, unit_batches: 4, fields: 2}
	model: {kind: deepfm, hidden: [8], dim: 4}
	tables: {dense: {optimizer: {schedule: {kind: cosine}}}}
	train: {passes: 8}
JOB
"$WEIR" train "$DIR/job.yaml" --set checkpoint.every_steps=100 > "$DIR/out" 2> "$DIR/train.err" || fail "weir train"
list() { (cd "$RUN" && find . -path ./server-0 -prune -o -type f -printf '%p %s %T@\n' | sort && md5sum fingerprint.json run.json); }
list > "$DIR/before"
refused() { # WORD... -- SETS...
	local words=() how
	while [ "$1" != -- ]; do words+=("$1") && shift; done
	shift
	for how in --dry-run ''; do
		[ -n "$how" ] && [ "${NEEDS_LENGTH:-}" ] && continue
		"$WEIR" train --resume "$DIR/job.yaml" $how --set "train.passes=${PASSES_NOW:-8}" "$@" > "$DIR/out" 2> "$DIR/refused.err" && fail "resumed ($how) with $*"
		told "${words[@]}" "$DIR/refused.err"
		list | cmp -s - "$DIR/before" || fail "the run was touched by $*: $(list | diff - "$DIR/before")"
	done
}
refused "cluster.servers was '1' and is '2'" "weir restore" -- --set cluster.servers=2
refused "cluster.partitions was '16' and is '8'" "Set what was" -- --set cluster.partitions=8
refused "model.kind was 'deepfm' and is 'fm'" "--accept" -- --set model.kind=fm
refused "data.seed was '1' and is '2'" "--accept" -- --set data.seed=2
refused "data.train was 'train.svm (" "valid.svm (" -- --set "data.train=$DIR/valid.svm"
NEEDS_LENGTH=yes
refused "table dense with optimizer.lr 0.00100000005, and the job's is 0.0" "train.warm_start" -- --set tables.dense.optimizer.lr=0.01 --accept tables.dense.optimizer.lr
refused "table embedding with push.codec" -- --set tables.embedding.push.codec=int8 --accept tables.embedding.push.codec
refused "table dense with elements" -- --set 'model.hidden=[9]' --accept model.hidden
refused "table dense with elements" -- --set model.kind=fm --accept model.kind
refused "table dense with mode.kind" -- --set tables.dense.mode.kind=sync --accept tables.dense.mode.kind
PASSES_NOW=16 refused "optimizer.schedule.total" -- --accept train.passes
NEEDS_LENGTH=
"$WEIR" restore "$DIR/job.yaml" --from latest --set tables.dense.optimizer.lr=0.01 --accept tables.dense.optimizer.lr > "$DIR/out" 2> "$DIR/refused.err" && fail "restored"
told "--accept tables.dense.optimizer.lr" "train.warm_start" "$DIR/refused.err"
list | cmp -s - "$DIR/before" || fail "the run was touched by weir restore"

# Changes that concern no table are accepted, before and after a restore. A restored run also keeps
# its tables.
"$WEIR" train --resume "$DIR/job.yaml" --dry-run --set data.seed=2 --accept data.seed > "$DIR/out" 2> "$DIR/accept.err" || fail "a dry run of what is accepted"
list | cmp -s - "$DIR/before" || fail "the run was touched by a dry run"
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/restore.err" || fail "weir restore"
"$WEIR" train --resume "$DIR/job.yaml" --set 'model.hidden=[9]' --accept model.hidden > "$DIR/out" 2> "$DIR/refused.err" && fail "resumed with another model"
told "table dense with elements" "$DIR/refused.err"
"$WEIR" train --resume "$DIR/job.yaml" --set data.seed=2 --accept data.seed --set train.clip_norm=1 --accept train.clip_norm \
	--report "$DIR/report.json" > "$DIR/out" 2> "$DIR/accept.err" || fail "--accept is not taken"
audited
holds "$DIR/report.json" '[.accepted[].key] | sort == ["data.seed", "train.clip_norm"]'
nothing_left
