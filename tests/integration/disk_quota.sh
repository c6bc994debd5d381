# A disk that refuses writes during RocksDB's work: a used-up quota, a full or a broken device.
# Either pushes wait and continue when there is room, or the server ends at once, names the folder,
# and is not restarted; never by a bare signal. In the end each push was applied once.
. "$(dirname "$0")/lib.sh"
BAD=$BUILD/tests/libweir_bad_disk.so
[ -e "$BAD" ] || { echo "not under sanitizers: skipped"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "knows the system call of x86_64 only: skipped"; exit 77; }
write_job 4 "log: disk, fsync_interval_ms: 50, flush_interval_ms: 300"

begin() {
	rm -rf "$RUN" "$DIR/broken"
	LD_PRELOAD=$BAD WEIR_BAD_WHEN=$DIR/broken WEIR_BAD_PATH=${1:-server-0/} start_train
	wait_for 60 "the first rows" status ".rows >= 2000"
}
waits_or_ended() { is_gone "$TRAIN" || grep -q "disk full" "$RUN/server-0.log"; }
# ended WORD...: the run has ended, and its last line has the words.
ended() {
	[ $STATUS = 1 ] || fail "exit status $STATUS"
	told "server-0" "storage has failed" "weir train --resume" "$@" "$DIR/train.err"
	# Chance decides which: RocksDB may check its disk again before its caller hears.
	tail -n 1 "$DIR/train.err" | grep -qE "Input/output error|No space left|quota" || fail "no cause is named: $(tail -n 1 "$DIR/train.err")"
	grep -q "killed by signal" "$DIR/train.err" && fail "a bare signal: $(grep "killed by signal" "$DIR/train.err")"
	grep -q "started again" "$DIR/train.err" && fail "a server was started again on a disk that is broken"
}
whole() {
	[ $STATUS = 0 ] || fail "exit status $STATUS of the whole run"
	audited
	nothing_left
}
# refuses WRITES PATH: adds the outcome to `did`. A waiting server may still end, if RocksDB writes
# meanwhile.
refuses() {
	begin "$2"
	echo "write $1" > "$DIR/broken"
	wait_for 60 "the server to wait or to end" waits_or_ended
	rm "$DIR/broken"
	finish_train 200
	if [ $STATUS = 0 ]; then
		did+="$1 under $2: waited; "
	else
		ended
		start_train --resume
		finish_train 200
		did+="$1 under $2: ended by name; "
	fi
	whole
}
did=
refuses EDQUOT server-0/db
[ -z "${LONG:-}" ] || refuses ENOSPC server-0/
refuses EIO server-0/db

# A failed assertion of RocksDB on a thread of its own counts as the disk's fault. One of ours
# allows a restart.
abort_thread() { # abort_thread PID NAME: the first thread whose name begins with NAME
	python3 - "$1" "$2" <<-'PY'
		import ctypes, os, sys
		pid, name = int(sys.argv[1]), sys.argv[2]
		for tid in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):
		    if open(f"/proc/{pid}/task/{tid}/comm").read().startswith(name):
		        sys.exit(ctypes.CDLL(None).syscall(234, pid, tid, 6) != 0)
		sys.exit(1)
	PY
}
begin
abort_thread "$(pid_of server-0)" rocksdb: || fail "no thread of RocksDB's"
finish_train 60
ended "server-0/db" "quota"
start_train --resume
wait_for 60 "the first rows" status ".rows >= 1"
abort_thread "$(pid_of server-0)" "" || fail "server-0 has no thread"
finish_train 200
whole
grep -q "killed by signal 6 (Aborted).*started again" "$DIR/train.err" || fail "an assertion of ours is not told"
echo "${did}an assertion of RocksDB's ended the server by name, one of ours started it again; no push missing or applied twice"
