# A disk goes back in time: a server's folder is an older copy of itself, or has lost the synced end
# of its log. With one copy, the server is refused by name, and again at the next start; the newest
# copy works. If its mark went back too, the ledger's log shows it. If the ledger's went back, the
# other server's partitions show it. The job fails, and then goes back to a checkpoint. With
# replicas the folder is put aside, and its data is rebuilt from the others.
. "$(dirname "$0")/lib.sh"

# train_more ARGUMENTS...: trains until another unit is committed, then stops cleanly.
train_more() {
	local units
	start_train "$@"
	wait_for 60 "its first look" status ".rows >= 1"
	units=$(json "$DIR/status.json" '.pass * .units + .committed')
	wait_for 60 "more units" status ".pass * .units + .committed > $units + ${UNITS:-1}"
	[ -z "${CHECKPOINT:-}" ] || "$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/out" || fail "no checkpoint"
	kill -TERM "$TRAIN"
	finish_train 30
	tail -n 1 "$DIR/train.err" | grep -q "stopped by Terminated" || fail "not stopped: $(tail -n 1 "$DIR/train.err")"
}

# train_until_killed: trains until server 1 has marked 8 KiB more of its log, then kills everything
# with -9.
train_until_killed() {
	local before
	before=$(position)
	start_train --resume
	wait_for 60 "its mark to move" marked $((before + 8192))
	kill -KILL "$TRAIN"
	wait "$TRAIN" 2> /dev/null
	wait_for 10 "its children to be gone" all_gone
	TRAIN=
}
position() { od -An -tu8 -j48 -N8 "$RUN/server-1.mark" | tr -d ' '; } # the format is in mark.h
marked() { [ "$(position)" -gt "$1" ]; }
all_gone() { [ -z "$(left_over)" ]; }

# refused WORD...: `weir train --resume` ends by itself, and the end of its output has the words.
refused() {
	local word
	timeout $((20 * PATIENCE)) "$WEIR" train "$DIR/job.yaml" --resume > "$DIR/out" 2> "$DIR/out.err" < /dev/null
	[ $? = 1 ] || fail "not refused: $(tail -n 1 "$DIR/out.err")"
	for word in "$@"; do
		tail -n 5 "$DIR/out.err" | grep -q -- "$word" || fail "'$word' is not in: $(tail -n 5 "$DIR/out.err")"
	done
	told=$((told + 1))
	echo "refused: $(tail -n 5 "$DIR/out.err" | grep -o '[^ ]* [^ ]* has gone back in time.*' | head -n 1 | sed "s,$DIR,DIR,g")"
}
# swap COPY SERVER: replaces that server's disk by the copy, including the mark if the copy has one.
swap() {
	rm -rf "$RUN/server-$2" && cp -a "$1/server-$2" "$RUN/server-$2" || fail "no copy $1"
	[ ! -e "$1/server-$2.mark" ] || cp "$1/server-$2.mark" "$RUN/server-$2.mark"
}
# copy NAME FILE...
copy() { mkdir "$DIR/$1" && (cd "$RUN" && cp -a "${@:2}" "$DIR/$1"); }
told=0

# --- One copy
write_job 1000 "log: disk, fsync_interval_ms: 20"
CHECKPOINT=1 train_more
copy old server-1
copy old-mark server-0 server-0.mark server-1 server-1.mark
train_until_killed
copy new server-0 server-0.mark server-1 server-1.mark
swap "$DIR/old" 1
for again in 1 2; do refused "$RUN/server-1 has gone back in time" "its last start was 1" "weir restore"; done
swap "$DIR/new" 1
mapfile -t logs < <(ls "$RUN"/server-1/journal/*.wal)
rm -f "${logs[@]:1}"
truncate -s 4096 "${logs[0]}"
for again in 1 2; do refused "$RUN/server-1 has gone back in time" "its log ends at" "weir restore"; done
truncate -s 10 "${logs[0]}"
refused "$RUN/server-1 has gone back in time" "is cut off" "weir restore"
swap "$DIR/new" 1
train_more --resume # the newest copy works
swap "$DIR/old-mark" 1
refused "server 1 has gone back in time" "by the ledger" "weir restore"
swap "$DIR/new" 1
rm -rf "$RUN/server-0"
swap "$DIR/old-mark" 0
refused "the ledger has gone back in time" "weir restore"
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/out.err" || fail "not restored: $(cat "$DIR/out.err")"
start_train --resume --set train.passes=1 --set train.pace.batch_ms=0
finish_train 200
[ $STATUS = 0 ] || fail "exit status $STATUS of the restored run"
audited
nothing_left
one="one copy: an old folder, a shortened log, a folder with its mark and the ledger's folder were refused by name, $told times, then a checkpoint went on"

# --- Replicas
rm -rf "$RUN" "$DIR"/old* "$DIR/new"
if ! command -v etcd > /dev/null; then
	echo "$one; no etcd: not with replicas"
	exit 0
fi
write_job 1000 "log: disk, fsync_interval_ms: 20, replicas: 2"
train_more
copy old server-1
train_more --resume
swap "$DIR/old" 1
start_train --resume --set train.passes=1 --set train.pace.batch_ms=0
finish_train 200
[ $STATUS = 0 ] || fail "exit status $STATUS with replicas"
grep -q "has gone back in time" "$RUN/server-1.log" || fail "server-1 does not say that its folder has gone back"
audited
holds "$DIR/report.json" ".finished and .rewinds == 0"
nothing_left
echo "$one; with replicas the old folder was put aside and rebuilt, no push missing or applied twice"
