# A disk whose fsync fails, under the log and under RocksDB. The server stops at once and is not
# restarted, the last line names the file, and once the disk works the run resumes from its durable
# state, with each push applied once.
. "$(dirname "$0")/lib.sh"
BAD=$BUILD/tests/libweir_bad_disk.so
[ -e "$BAD" ] || { echo "not under sanitizers: skipped"; exit 77; }

# The boot of the machine since which that server's log is known to be in its folder.
boot_of() { od -An -v -tx1 -j32 -N16 "$RUN/$1/PROMISES" | tr -d ' \n'; }

# fails_under PATH: syncs of files with PATH in their name fail during training.
fails_under() {
	rm -rf "$RUN" "$DIR/broken"
	LD_PRELOAD=$BAD WEIR_BAD_WHEN=$DIR/broken WEIR_BAD_PATH=$1 start_train
	wait_for 60 "the first rows" status ".rows >= 2000"
	local server=${1%%/*}
	[ "$(boot_of "$server")" != 00000000000000000000000000000000 ] || fail "$server does not know the machine's boot"
	echo "sync EIO" > "$DIR/broken"
	finish_train 60
	[ $STATUS = 1 ] || fail "exit status $STATUS with a broken $1"
	told "$1" "storage has failed" "Input/output error" "weir train --resume" "$DIR/train.err"
	grep -q "started again" "$DIR/train.err" && fail "a server whose disk is broken was started again"
	[ "$(boot_of "$server")" = 00000000000000000000000000000000 ] || fail "$server would trust the log that failed"
	rm "$DIR/broken"
	start_train --resume
	finish_train 200
	[ $STATUS = 0 ] || fail "exit status $STATUS of the resumed run"
	audited
	nothing_left
}
write_job 6 "log: disk, fsync_interval_ms: 50, flush_interval_ms: 300"
fails_under server-1/journal
fails_under server-0/db
