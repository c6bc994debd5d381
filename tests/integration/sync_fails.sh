# A disk whose fsync fails, under the log and under RocksDB: the server stops at once and is not started again, the last line names the file, and the run goes on
# from what was durable once the disk works, each push applied once.
. "$(dirname "$0")/lib.sh"
FAIL=$BUILD/tests/libweir_fail_sync.so
[ -e "$FAIL" ] || { echo "not under sanitizers: skipped"; exit 77; }

# fails_under PATH TEXT: the syncs of what has PATH in its name fail in the middle of training.
fails_under() {
	rm -rf "$RUN" "$DIR/broken"
	LD_PRELOAD=$FAIL WEIR_FAIL_WHEN=$DIR/broken WEIR_FAIL_PATH=$1 start_train
	wait_for 60 "the first rows" trained 2000
	touch "$DIR/broken"
	finish_train 60
	[ $STATUS = 1 ] || fail "exit status $STATUS with a broken $1"
	told "$1" "storage has failed" "Input/output error" "weir train --resume" "$DIR/train.err"
	grep -q "started again" "$DIR/train.err" && fail "a server whose disk is broken was started again"
	rm "$DIR/broken"
	start_train --resume
	finish_train 200
	[ $STATUS = 0 ] || fail "exit status $STATUS of the resumed run"
	audited
	nothing_left
}
write_job 12 "log: disk, fsync_interval_ms: 50, flush_interval_ms: 300"
fails_under server-1/journal
fails_under server-0/db
