# Shared by the integration tests. A test is `bash TEST.sh BUILD_DIR`. It works in a temporary
# folder, waits on conditions (never on time alone), and leaves no file and no process behind.
set -u
BUILD=$(cd "$1" && pwd)
WEIR=$BUILD/weir
DIR=$(mktemp -d /tmp/weir-it-XXXXXX)
RUN=$DIR/run

# Makes the programs find an emulated CUDA device from here on, as they look for the backend beside
# themselves. Fails if the backend is not built.
emulate_device() {
	[ -e "$BUILD/tests/emulated/libweir_cuda.so" ] || return 1
	mkdir "$DIR/bin"
	cp "$BUILD/weir" "$BUILD/weir-server" "$BUILD/weir-worker" "$BUILD/tests/emulated/libweir_cuda.so" "$DIR/bin" || fail "cannot copy the programs"
	WEIR=$DIR/bin/weir
}

command_line() { { tr '\0' ' ' < "/proc/$1/cmdline"; } 2> /dev/null; }

# Processes of this test's run: their command lines name its folder. One grep serves all, as this is
# polled. It reads the pattern from a file, so its own command line does not name the folder.
left_over() { grep -lsF -f - /proc/[0-9]*/cmdline <<< "$DIR/" | tr -dc '0-9\n'; }

cleanup() {
	local p
	[ -n "${TRAIN:-}" ] && kill -KILL "$TRAIN" 2> /dev/null
	for p in $(left_over); do
		kill -CONT "$p" 2> /dev/null
		kill -KILL "$p" 2> /dev/null
		wait "$p" 2> /dev/null # the shell would report its end
	done
	rm -rf "$DIR"
}
trap cleanup EXIT

fail() {
	echo "FAILED: $*"
	for f in "$DIR"/*.err "$RUN"/*.log; do
		[ -e "$f" ] && echo "--- $f" && tail -n 15 "$f"
	done
	exit 1
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds. The seconds are ample for a quiet
# machine; a busy one or a sanitizer gets more.
PATIENCE=5
STOPPED=143 # exit status after SIGTERM
wait_for() {
	local until=$((SECONDS + $1 * PATIENCE)) what=$2
	shift 2
	if [ "$1" = status ]; then
		await_status $((until - SECONDS)) "$2" || fail "waited too long for $what"
		return
	fi
	until "$@"; do
		[ $SECONDS -lt $until ] || fail "waited too long for $what"
		sleep 0.2
	done
}

# status EXPRESSION: whether it holds for the job's status, which is left in status.json.
JOB_AT=(--job "$DIR/job.yaml")
status() {
	"$WEIR" status "${JOB_AT[@]}" --json > "$DIR/status.json" 2> /dev/null && jq -e "$1" "$DIR/status.json" > /dev/null
}
WHOLE='[.ledger, .partitions[] | select((.in_sync | length) == 2)] | length == 9'

# await_status SECONDS EXPRESSION: one process polls, as starting one per question would take a
# third of a core.
await_status() {
	timeout "$1" "$WEIR" status "${JOB_AT[@]}" --json --every-ms 200 2> /dev/null |
		jq -c -n "first(inputs | select([try ($2) catch false] | any))" > "$DIR/status.json" 2> /dev/null
	[ -s "$DIR/status.json" ]
}

# json FILE EXPRESSION: jq's result for the document.
json() { jq -r "$2" "$1"; }

# holds FILE EXPRESSION: fails the test and shows the document unless the jq expression is true.
holds() {
	jq -e "$2" "$1" > /dev/null || { cat "$1"; fail "does not hold: $2"; }
}

# Every file in these folders with its checksum, except logs and locks.
files() { find "$@" -type f ! -name '*.log' ! -name LOG ! -name LOCK -exec sha256sum {} + 2> /dev/null | sort -k 2; }

# told WORD... FILE: the last line of FILE is a refusal with all the words. Shows it.
told() {
	local file=${*: -1} last word
	last=$(tail -n 1 "$file")
	for word in "${@:1:$#-1}"; do
		case $last in *"$word"*) ;; *) fail "'$word' is not in: $last" ;; esac
	done
	echo "refused: ${last//$DIR/DIR}"
}

# read_only FOLDER COMMAND...: runs it where nobody, not even root, can write in FOLDER. Replaces
# the calling shell.
read_only() {
	if [ "$(id -u)" = 0 ]; then
		exec unshare -m bash -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"' "$@"
	else
		chmod -R a-w "$1"
		shift
		exec "$@"
	fi
}

# write_job [PASSES [EXTRA CLUSTER KEYS]]: a job that trains in seconds. With 4 passes or more,
# tests act meanwhile, so a pass takes at least 0.8 s on any machine. With 1000 the job lasts until
# it is stopped, and leaves processor time for others (some 4,000 rows/s). LEASE_MS: of its workers.
# A test that loses none takes a long one, as on a busy machine a process may stand still for 3 s.
write_job() {
	local pace=0 batch=64 unit_batches=8
	[ "${1:-2}" -lt 4 ] || pace=10 batch=128 unit_batches=4
	[ "${1:-2}" -lt 1000 ] || pace=60
	cat > "$DIR/job.yaml" <<-JOB
		job: it
		run_dir: $RUN
		cluster: {servers: 2, workers: 2, partitions: 8, lease_ms: ${LEASE_MS:-3001}${2:+, $2}}
		data:
		  generate: {rows: 20000, ids: 20000, seed: 3}
		  batch: $batch
		  unit_batches: $unit_batches
		  seed: 5
		model: {kind: fm, dim: 8}
		tables:
		  embedding: {optimizer: {kind: adam, lr: 3.0e-3}}
		  dense: {optimizer: {kind: adam, lr: 3.0e-3}}
		train: {passes: ${1:-2}, seed: 7, threads: 1, pace: {batch_ms: $pace}}
	JOB
}

# free_ports COUNT: prints the first of COUNT free ports in a row, below the kernel's ephemeral
# ports, so that a restarted server finds its own port free.
free_ports() {
	python3 - "$1" <<-'PY'
		import random, socket, sys
		while True:
		    first = random.randrange(10000, 32700)
		    try:
		        for port in range(first, first + int(sys.argv[1])):
		            with socket.socket() as s: s.bind(("127.0.0.1", port))
		        break
		    except OSError: pass
		print(first)
	PY
}

# Starts `weir train` in the background. TRAIN is its process; train.out and train.err are its
# output.
start_train() {
	"$WEIR" train "$DIR/job.yaml" --report "$DIR/report.json" "$@" > "$DIR/train.out" 2> "$DIR/train.err" < /dev/null &
	TRAIN=$!
}

# stop_train SECONDS: drains the run. PASSES is then the number of passes with which a resumed run
# ends soon.
stop_train() {
	status . || fail "no status"
	PASSES=$(($(json "$DIR/status.json" .pass) + 2))
	kill -TERM "$TRAIN"
	finish_train "$1"
}

# resume_train ARGUMENTS...: goes on to the end of the run at full speed.
resume_train() { start_train --resume --set "train.passes=$PASSES" --set train.pace.batch_ms=0 "$@"; }

# finish_train SECONDS: waits for its end and sets STATUS.
finish_train() {
	wait_for "$1" "weir train to end" is_gone "$TRAIN"
	wait "$TRAIN"
	STATUS=$?
}

# A zombie whose other threads still end holds its files.
is_gone() { ! kill -0 "$1" 2> /dev/null || awk '/^State:.*Z/ { z = 1 } /^Threads:/ { n = $2 } END { exit !(z && n <= 1) }' "/proc/$1/status" 2> /dev/null; }

# pid_of NAME: of a child by its --name, or by --index for servers.
pid_of() {
	local option=--name value=$1 found
	[ "${1#server-}" != "$1" ] && option=--index && value=${1#server-}
	found=$(grep -lsaP "\\x00$option\\x00$value\\x00" $(printf '/proc/%s/cmdline ' $(left_over)))
	found=${found%%$'\n'*}
	[ -n "$found" ] && echo "${found//[!0-9]/}"
}

# stop_thread PID [NAME]: stops a process's first thread, or the one named NAME, until
# release_thread. The other threads continue. Skips the test if the kernel does not allow it. Only
# one at a time.
stop_thread() {
	rm -f "$DIR/held" "$DIR/stopped"
	mkfifo "$DIR/held"
	"$BUILD/tests/stop_thread" "$@" < "$DIR/held" > "$DIR/stopped" 2> "$DIR/stop.err" &
	STOPPER=$!
	exec 7> "$DIR/held"
	stopped_or_gone() { grep -q stopped "$DIR/stopped" || is_gone $STOPPER; }
	wait_for 10 "a thread to stop" stopped_or_gone
	grep -q stopped "$DIR/stopped" && return 0
	wait $STOPPER
	[ $? != 77 ] || { echo "skipped: $(cat "$DIR/stop.err")" && exit 77; }
	fail "$(cat "$DIR/stop.err")"
}
release_thread() {
	exec 7>&-
	wait $STOPPER
}

# sleep_past_lease WORKER: stops it while it holds a unit until its lease has expired, then resumes
# it. A worker between two units holds no lease; then it tries again.
sleep_past_lease() {
	local victim
	victim=$(pid_of "$1") || fail "$1 does not run"
	stopped_at_work() {
		kill -STOP "$victim"
		status ".workers[] | select(.name == \"$1\") | .units_held > 0" && return 0
		kill -CONT "$victim"
		return 1
	}
	wait_for 10 "$1 to hold a unit" stopped_at_work "$1"
	wait_for 30 "the lease to expire" status ".leases_expired > 0"
	kill -CONT "$victim"
}

# told_alike PART: for a language model, `weir eval` and the report agree on that part of the data,
# and the output of `weir predict` adds up to it.
told_alike() {
	"$WEIR" eval --job "$DIR/job.yaml" --json > "$DIR/eval.json" 2> "$DIR/eval.err" || fail "weir eval"
	jq -es ".[0].rows == .[1].$1.rows and (.[0].loss - .[1].$1.loss | fabs) < 1e-6" "$DIR/eval.json" "$DIR/report.json" > /dev/null ||
		fail "weir eval says $(cat "$DIR/eval.json"), the report $(jq -c ".$1" "$DIR/report.json")"
	"$WEIR" predict --job "$DIR/job.yaml" --out "$DIR/scores.txt" > /dev/null 2> "$DIR/predict.err" || fail "weir predict"
	awk -v loss="$(json "$DIR/report.json" ".$1.loss")" -v targets="$(json "$DIR/report.json" ".$1.rows")" \
		'{ if ($1 > 0) exit 1; sum -= $1 } END { d = sum / targets - loss; exit !(d * d < 1e-10) }' "$DIR/scores.txt" ||
		fail "the logarithms of probabilities do not add up to the loss"
}

nothing_left() {
	[ -z "$(left_over)" ] || fail "processes are left: $(left_over)"
	local files # folders put aside are as the kill left them
	files=$(find "$RUN" -path '*/before-g*' -prune -o \( -name '*.sock' -o -name '*.lane' -o -name '*.tmp' -o -name ledger.address \) -print 2> /dev/null)
	[ -z "$files" ] || fail "files are left: $files"
}

# ended_with_weights NAME [OTHER]: waits for the run, keeps its weights as NAME, and compares them.
ended_with_weights() {
	finish_train 200
	[ $STATUS = 0 ] || fail "exit status $STATUS of $1"
	audited
	nothing_left
	cp "$RUN/best.safetensors" "$DIR/$1.safetensors" || fail "no weights of $1"
	[ -z "${2:-}" ] || cmp -s "$DIR/$1.safetensors" "$DIR/$2.safetensors" || fail "$1 has other weights than $2"
}

audited() {
	holds "$DIR/report.json" '.audit | .ok and .parts_expected > 0 and .applied == .parts_expected and .missing == 0 and .double == 0'
}
