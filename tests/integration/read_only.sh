# Folders that nobody can write: for a run, a server's data, checkpoints, a restore. Each is named,
# and nothing in it changes.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" != 0 ] || unshare -m true 2> /dev/null || { echo "root writes everywhere, and there are no mounts of one's own here: skipped"; exit 77; }

# refused FOLDER WORD... -- COMMAND...: with FOLDER read-only it fails, gives the reason in its last
# line, and changes no byte in FOLDER.
refused() {
	local folder=$1 words=() before
	shift
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	before=$(files "$folder")
	(read_only "$folder" "$@") > "$DIR/out" 2> "$DIR/out.err" < /dev/null && fail "accepted: $*"
	told "${words[@]}" "$DIR/out.err"
	[ "$before" = "$(files "$folder")" ] || fail "something was changed by: $*"
}

# --- a run
write_job 50 "log: disk"
mkdir "$DIR/locked"
refused "$DIR/locked" "$DIR/locked" -- "$WEIR" train "$DIR/job.yaml" --set "run_dir=$DIR/locked"

# --- checkpoints: the job itself continues
mkdir "$DIR/ck"
(read_only "$DIR/ck" "$WEIR" train "$DIR/job.yaml" --report "$DIR/report.json" --set "checkpoint.dir=$DIR/ck") > "$DIR/train.out" 2> "$DIR/train.err" < /dev/null &
TRAIN=$!
wait_for 60 "the first rows" status ".rows >= 5000"
# The status shows the process's memory without reserves, and no row below memory.
holds "$DIR/status.json" '.servers | length == 2 and all(.durable | .memory_bytes > 0 and .memory_bytes < 300e6 and .resident_rows > 0 and .cold_rows == 0)'
"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/out.err" && fail "a checkpoint in a read-only folder"
told "$DIR/ck" "$DIR/out.err"
[ -z "$(ls "$DIR/ck")" ] || fail "files in a read-only folder"
rows=$(json "$DIR/status.json" .rows)
wait_for 60 "the job to go on" status ".rows >= $((rows + 5000))"
for p in $TRAIN $(left_over); do kill -KILL "$p" 2> /dev/null; done
wait "$TRAIN" 2> /dev/null
for p in $(left_over); do wait_for 10 "process $p to be gone" is_gone "$p"; done

# --- a server's data, left by a killed server
at=unix:$DIR/by-hand.sock
refused "$RUN/server-0" "$RUN/server-0" -- "$BUILD/weir-server" --job "$DIR/job.yaml" --index 0 --listen "$at" --servers "$at,$at" \
	--uuid "$(json "$RUN/run.json" .uuid)" --generation "$(json "$RUN/run.json" .generation)"

# --- a restore
start_train --resume
wait_for 60 "more rows" status ".rows >= $((rows + 10000))"
"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/out" || fail "no checkpoint"
kill -TERM "$TRAIN"
finish_train 60
told "stopped by Terminated" "weir train --resume" "$DIR/train.err"
mv "$RUN/checkpoints" "$DIR/whole"
refused "$RUN" "$RUN" -- "$WEIR" restore "$DIR/job.yaml" --from latest --set "checkpoint.dir=$DIR/whole"
nothing_left
