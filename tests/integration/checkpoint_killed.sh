# A server is killed during a checkpoint. `weir checkpoint` ends with a message, nothing is
# published, training continues, and the next checkpoint can begin at once and removes the
# leftovers.
. "$(dirname "$0")/lib.sh"
write_job 1000 "log: disk, fsync_interval_ms: 50"
echo 'checkpoint: {rate: 1MiB}' >> "$DIR/job.yaml"
sed -i 's/dim: 8/dim: 64/' "$DIR/job.yaml"
CK=$RUN/checkpoints
manifests() { find "$CK" -name 'ck-*.json' 2> /dev/null | wc -l; }
# Waits until server 1 writes a new checkpoint.
begun() { find "$CK" -name 'ck-*.p0001.rows*' 2> /dev/null | grep -vF "${before:-none}" | grep -q .; }

start_train
wait_for 60 "the first rows" status ".rows >= 20000"
# The server with the ledger and the coordinator; a server that only writes rows.
for name in server-0 server-1; do
	"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/$name.out" 2> "$DIR/$name.err" &
	asked=$!
	wait_for 30 "a checkpoint to begin" begun
	before=$(find "$CK" -name 'ck-*' -printf '%f\n' | cut -d . -f 1-2 | sort -u)
	victim=$(pid_of $name) || fail "$name does not run"
	kill -KILL "$victim"
	wait_for 20 "weir checkpoint to end without $name" is_gone $asked
	wait $asked && fail "it says that there is a checkpoint: $(cat "$DIR/$name.out")"
	told "checkpoint" "$DIR/$name.err"
	[ "$(manifests)" = 0 ] || fail "something was published: $(ls "$CK")"
	wait_for 60 "$name to be started again" grep -q "^$name (pid $victim) was killed .* started again" "$DIR/train.err"
	wait_for 60 "both servers" status ".rows >= 0"
	wait_for 60 "training to go on" status ".rows >= $(($(json "$DIR/status.json" .rows) + 5000))"
done
"$WEIR" checkpoint --job "$DIR/job.yaml" --json > "$DIR/whole.json" 2> "$DIR/whole.err" || fail "no checkpoint: $(tail -n 1 "$DIR/whole.err")"
"$WEIR" checkpoint verify "$DIR/job.yaml" > "$DIR/out" || fail "not whole"
left=$(find "$CK" -name 'ck-*' -type f ! -name "$(json "$DIR/whole.json" .name).*")
[ -z "$left" ] || fail "files of those that were given up are left: $left"
kill -TERM "$TRAIN"
finish_train 30
nothing_left
