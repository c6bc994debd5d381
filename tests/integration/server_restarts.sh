# Servers with their log on disk recover from kills at any time, and the audit is exact. A folder
# belongs to one server of one job.
. "$(dirname "$0")/lib.sh"

# serve NAME ARGUMENTS...: starts a server by hand; its ready line is in NAME.ready, its log in
# NAME.err, its process in SERVER.
serve() {
	local name=$1
	shift
	"$BUILD/weir-server" --job "$DIR/job.yaml" --index 0 --listen 127.0.0.1:0 --servers 127.0.0.1:0 --ready-fd 3 \
		--set cluster.servers=1 --set cluster.log=disk "$@" 3> "$DIR/$name.ready" 2> "$DIR/$name.err" &
	SERVER=$!
}

# refused NAME WORD...: that server ends with status 1 and a line that has all the words, and
# changes no byte in the folders KEPT.
refused() {
	local name=$1
	shift
	wait_for 20 "$name to be refused" is_gone "$SERVER"
	wait "$SERVER"
	[ $? = 1 ] || fail "$name was not refused"
	told "$@" "$DIR/$name.err"
	[ "$before" = "$(files "${KEPT[@]}")" ] || fail "something was changed by $name"
}

# --- The folder of a running server
write_job 1
serve first
first=$SERVER
wait_for 20 "the first server" grep -q READY "$DIR/first.ready"
KEPT=("$RUN/server-0/IDENTITY") # the first server may change the rest
before=$(files "${KEPT[@]}")
serve second
refused second "$RUN/server-0/LOCK" "pid $first"
kill -0 "$first" || fail "the first server did not survive the second"
kill -TERM "$first"
wait "$first" || fail "the first server did not stop well"
holds "$RUN/server-0/IDENTITY" '.clean and .epoch == 1'

# --- of another job, of other partitions
KEPT=("$RUN")
before=$(files "${KEPT[@]}")
serve stranger --uuid 00112233445566778899aabbccddeeff
refused stranger "$RUN/server-0" 00112233445566778899aabbccddeeff
serve smaller --set cluster.partitions=4
refused smaller "$RUN/server-0" "8 partitions"
holds "$RUN/server-0/IDENTITY" '.clean and .epoch == 1'

# --- of a newer Weir
cp "$RUN/server-0/IDENTITY" "$DIR/identity"
sed -i 's/"version": 1/"version": 2/' "$RUN/server-0/IDENTITY"
before=$(files "${KEPT[@]}")
serve newer
refused newer "$RUN/server-0/IDENTITY" "version 2" "use a newer Weir"
cp "$DIR/identity" "$RUN/server-0/IDENTITY"

# --- without its name
mv "$RUN/server-0/IDENTITY" "$DIR/identity"
before=$(files "${KEPT[@]}")
serve nameless
refused nameless "$RUN/server-0" "its IDENTITY is missing"
mv "$DIR/identity" "$RUN/server-0/IDENTITY"
before=$(files "${KEPT[@]}")

# --- without its votes
cp -r "$RUN" "$DIR/whole"
printf 'x' | dd of="$RUN/server-0/PROMISES" bs=1 seek=80 conv=notrunc status=none
KEPT=("$RUN/server-0/PROMISES" "$RUN/server-0/journal" "$RUN/server-0/db")
before=$(files "${KEPT[@]}")
serve forgetful
refused forgetful "$RUN/server-0/PROMISES" "put back the file, or remove it"
rm "$RUN/server-0/PROMISES"
serve absolved
wait_for 20 "a server without its promises" grep -q READY "$DIR/absolved.ready"
kill -TERM "$SERVER"
wait "$SERVER" || fail "it did not stop well"
rm -r "$RUN"
mv "$DIR/whole" "$RUN"
KEPT=("$RUN")
before=$(files "${KEPT[@]}")

# --- with another server's log
write_job 1 "log: disk"
mv "$RUN" "$DIR/kept"
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
rm -r "$RUN/server-0/journal"
cp -r "$RUN/server-1/journal" "$RUN/server-0/journal"
before=$(find "$RUN/server-0" -name '*.wal' -exec sha256sum {} + | sort)
start_train --resume
finish_train 30
[ $STATUS = 1 ] || fail "a server took another's log"
grep -q "belongs to another server's journal" "$RUN/server-0.log" || fail "the log is not named"
[ "$before" = "$(find "$RUN/server-0" -name '*.wal' -exec sha256sum {} + | sort)" ] || fail "a log was changed"
rm -r "$RUN"
mv "$DIR/kept" "$RUN"
before=$(files "${KEPT[@]}")

# --- that it cannot create
serve nowhere --set run_dir=/proc/weir
refused nowhere /proc/weir
mkdir "$DIR/blocked" && touch "$DIR/blocked/server-0"
serve blocked --set run_dir="$DIR/blocked"
refused blocked "$DIR/blocked/server-0"

# --- Killed during training: first a server with rows only, then the ledger's
rm -rf "$RUN"
write_job 8 "log: disk, fsync_interval_ms: 50"
start_train
rows=2000
for name in server-1 server-0; do
	wait_for 60 "$rows rows" status ".rows >= $rows"
	victim=$(pid_of $name) || fail "$name does not run"
	kill -KILL "$victim"
	wait_for 60 "$name to be started again" grep -q "^$name (pid $victim) was killed .* started again" "$DIR/train.err"
	rows=$((rows + 20000))
done
finish_train 200
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$RUN/server-1/IDENTITY" '.epoch == 2' # clean too, where the drain had time
nothing_left
