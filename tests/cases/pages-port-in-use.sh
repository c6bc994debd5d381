# A bad or used port for pages is reported before the earlier run is touched. Runs that never began
# do not displace others in earlier/.
. "$(dirname "$0")/../integration/lib.sh"
awk 'BEGIN { for (i = 0; i < 90; i++) print i % 2, 1 + i % 2 ":1", 3 + i % 5 ":1" }' > "$DIR/rows.svm"
cat > "$DIR/job.yaml" <<-JOB
	job: pages
	run_dir: $RUN
	keep_runs: 2
	data: {format: libsvm, train: $DIR/rows.svm, valid: $DIR/rows.svm, batch: 16}
	model: {kind: lr}
JOB
"$WEIR" train "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/train.err" || fail "weir train"
cp "$RUN/best.safetensors" "$DIR/best"
python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); import signal; signal.pause()' > "$DIR/port" &
holder=$!
wait_for 10 "a taken port" test -s "$DIR/port"
port=$(cat "$DIR/port")
refused() { # WORDS ARGUMENTS...
	local words=$1 how
	shift
	for how in --dry-run ''; do
		"$WEIR" train "$DIR/job.yaml" $how "$@" > "$DIR/out" 2> "$DIR/refused.err" && fail "begun ($how) with $*"
		grep -q -e "$words" "$DIR/refused.err" "$DIR/out" || fail "it does not say '$words': $(cat "$DIR/refused.err")"
		cmp -s "$RUN/best.safetensors" "$DIR/best" && [ ! -e "$RUN/earlier" ] || fail "the earlier run was touched by $*"
	done
}
refused "--http: .*$port.*Address already in use; choose another port" --http "$port"
refused "--http: '99999' is no address" --http 99999
refused "--http: 'nobody:1' is no address" --http nobody:1
refused "$port" --set "metrics.port=$port"
kill "$holder"
wait "$holder" 2> /dev/null

mkdir "$DIR/bin"
cp "$BUILD/weir" "$BUILD/weir-worker" "$DIR/bin" # without a server
for i in 1 2 3 4; do
	"$DIR/bin/weir" train "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/none.err" && fail "a run without a server"
done
cmp -s "$RUN/earlier/1/best.safetensors" "$DIR/best" || fail "the run that was worth keeping is gone: $(ls -R "$RUN/earlier")"
[ "$(ls "$RUN/earlier")" = 1 ] || fail "runs that never began are kept: $(ls "$RUN/earlier")"
"$WEIR" train "$DIR/job.yaml" --http 0 > "$DIR/out" 2> "$DIR/train.err" || fail "weir train --http 0"
nothing_left
