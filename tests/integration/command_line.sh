# The command line as people use it: all mistakes at once, help, checks before a run, job files from
# pipes, signals and exit statuses, permissions of a run's files, listing and deleting runs, pages
# that refuse the host names of other sites.
. "$(dirname "$0")/lib.sh"
cd "$DIR" || exit 1
write_job 2 "log: disk"

# expect STATUS COMMAND...: its output goes to out, its errors to err.
expect() {
	local want=$1 got
	shift
	"$@" > "$DIR/out" 2> "$DIR/err" < /dev/null
	got=$?
	[ $got = "$want" ] || { cat "$DIR/out" "$DIR/err"; fail "exit status $got, not $want: ${*//$DIR/DIR}"; }
}
says() { grep -q -- "$1" "$DIR/out" "$DIR/err" || { cat "$DIR/out" "$DIR/err"; fail "does not say: $1"; }; }

# --- Help and usage
verbs=$("$WEIR" help | sed -n 's/^  weir \([a-z]*\) .*/\1/p' | sort -u | grep -v help)
[ "$(wc -w <<< "$verbs")" -ge 20 ] || fail "only these verbs: $verbs"
for verb in $verbs; do
	expect 0 "$WEIR" help "$verb"
	cp "$DIR/out" "$DIR/help"
	says "^usage: weir $verb"
	expect 0 "$WEIR" "$verb" --help
	cmp -s "$DIR/out" "$DIR/help" || fail "help $verb and $verb --help differ"
done
expect 2 "$WEIR" help trian
says "did you mean 'train'"
expect 2 "$WEIR" train "$DIR/job.yaml" --resum
says "did you mean '--resume'?; \`weir help train\`"

# --- All mistakes at once, in line order
cat > "$DIR/bad.yaml" <<-'JOB'
	job: bad
	data:
	  trian: a.tsv
	  batch: many
	cluster: {replicas: 2}
	modle: {kind: fm}
	train: {early_stop: {patience: 3}}
JOB
for verb in check train eval; do
	expect 1 "$WEIR" "$verb" "$DIR/bad.yaml" --set model.dim=none
	[ "$(sed 's/.*bad.yaml:\([0-9]*\):.*/\1/;s/^--set.*/set/' "$DIR/err" | tr '\n' ' ')" = "3 4 5 6 7 set weir $verb: $DIR/bad.yaml has 6 mistakes: each is told above; correct them and try again " ] ||
		{ cat "$DIR/err"; fail "not all mistakes, line by line"; }
done

# --- Checks, which change nothing
expect 0 "$WEIR" check "$DIR/job.yaml"
[ "$(ls "$DIR" | tr '\n' ' ')" = "bad.yaml err help job.yaml out " ] || fail "weir check has made files: $(ls "$DIR")"
rows() { awk -v n="$2" 'BEGIN { srand(5); for (i = 0; i < n; i++) { a = int(rand() * 9); print (a > 4), a + 1 ":1", int(rand() * 9) + 11 ":1" } }' > "$1"; }
rows own.svm 300
echo "not a row" >> own.svm
cat > own.yaml <<-'JOB'
	job: own
	data: {format: libsvm, train: own.svm, batch: 16, fields: 2}
	model: {kind: lr}
JOB
expect 0 "$WEIR" check own.yaml
says "data.train: 1 file, .* the first [23][0-9][0-9] lines are read, [01] bad"
taken=$(free_ports 1)
python3 -c "import signal, socket; s = socket.socket(); s.bind(('127.0.0.1', $taken)); s.listen(); print('ready', flush=True); signal.pause()" > ready &
LISTENER=$!
wait_for 10 "a listener" grep -q ready ready
expect 1 "$WEIR" check own.yaml --set data.train=none.svm --set "cluster.listen=127.0.0.1:$taken" --set train.warm_start=none.safetensors --set cluster.memory_budget=900TiB
kill $LISTENER
says "^WRONG  data.train: no data file matches none.svm: looked for $DIR/none.svm"
says "^WRONG  cluster.listen: 127.0.0.1:$taken: in use"
says "^WRONG  train.warm_start: "
says "^note   cluster.memory_budget: "
says "3 things are wrong"
yes "words, and no row" | head -n 100 > text.svm
expect 1 "$WEIR" check own.yaml --set data.train=text.svm
says "^WRONG  data.train: "
# Labels are checked as before training.
sed 's/^[01] /1 /; /^not a row/d' own.svm > ones.svm
expect 0 "$WEIR" check own.yaml --set data.train=ones.svm
says "^note   data.train: all 300 rows of data.train are positive: there is nothing to tell apart"
{ cat ones.svm; echo "2 1:1 11:1"; } > slip.svm
expect 1 "$WEIR" check own.yaml --set data.train=slip.svm
says "^WRONG  data.train: all 300 rows of slip.svm are positive once 1 bad line is left out"
{ yes "2 1:1 11:1" | head -n 300; } > others.svm
expect 1 "$WEIR" check own.yaml --set data.valid=others.svm
says "^WRONG  data.valid: .*the label is 2"
# A sweep reports all mistakes of its job.
printf 'base: bad.yaml\nout: swept\nruns: [{name: a}]\n' > sweep.yaml
expect 1 "$WEIR" sweep sweep.yaml
[ "$(grep -c '^bad.yaml:' err)" = 5 ] || { cat err; fail "a sweep does not tell all mistakes"; }
says "^weir sweep: sweep.yaml:3: run a: bad.yaml has 5 mistakes"
expect 0 "$WEIR" train --dry-run own.yaml
says "begins a run in runs/own"
[ ! -e runs ] || fail "a dry run has made a folder"

# --- A job file from a pipe
expect 0 "$WEIR" train <(cat own.yaml)
says "kept as runs/own/piped-job.yaml"
cmp -s own.yaml runs/own/piped-job.yaml || fail "another job file is kept"
"$WEIR" train - --fresh < own.yaml > out 2> err || fail "weir train -: $(tail -n 1 err)"
"$WEIR" train /dev/stdin --fresh < own.yaml > out 2> err || fail "weir train /dev/stdin: $(tail -n 1 err)"
expect 1 "$WEIR" train <(echo "job: [")
says "not valid YAML"

# --- Signals
for signal in INT:130 TERM:143 HUP:129; do
	start_train --fresh --set train.passes=1000 --set train.pace.batch_ms=30
	wait_for 30 "the first rows" status ".rows >= 500"
	kill -"${signal%:*}" "$TRAIN"
	finish_train 20
	[ $STATUS = "${signal#*:}" ] || fail "exit status $STATUS after SIG${signal%:*}"
	told "stopped by" "weir train --resume" "$DIR/train.err"
done
nohup_train() { (trap '' HUP; exec "$WEIR" train "$DIR/job.yaml" --resume --set train.passes=1000 --set train.pace.batch_ms=30) > train.out 2> train.err < /dev/null & TRAIN=$!; }
nohup_train
wait_for 30 "it to run" status "[.workers[] | select(.live)] | length >= 2"
kill -HUP "$TRAIN"
rows=$(json "$DIR/status.json" .rows)
wait_for 30 "it to go on though its terminal has gone" status ".rows >= $((rows + 500))"

# --- Runs
expect 0 "$WEIR" runs "$DIR" --json
jq -e '[.runs[] | select(.run == "run" and .state == "running" and .bytes > 10000)] | length == 1' "$DIR/out" > /dev/null || { cat "$DIR/out"; fail "the run is not listed"; }
expect 1 "$WEIR" runs "$DIR" --delete run
says "it runs"
[ -d "$RUN/server-0" ] || fail "a live run is deleted"

# --- Pages
kill -INT "$TRAIN"
finish_train 20
start_train --resume --http 0 --set train.passes=1000 --set train.pace.batch_ms=30 --http-name weir.example
at() { AT=$(sed -n 's,^.*http://\(127[0-9.:]*\)/ shows it.*$,\1,p' "$DIR/train.err"); [ "$AT" ]; }
wait_for 30 "the page" at
code() { python3 -c "
import http.client, sys
c = http.client.HTTPConnection('$AT', timeout=20)
c.putrequest('GET', '/status.json', skip_host=True)
c.putheader('Host', '$1')
c.endheaders()
print(c.getresponse().status)"; }
wait_for 30 "a look at the job" test "$(code localhost)" != ""
[ "$(code evil.example)" = 403 ] && [ "$(code "evil.example:${AT#*:}")" = 403 ] || fail "a page is read by another site's name"
[ "$(code weir.example)" != 403 ] && [ "$(code localhost)" != 403 ] && [ "$(code "$AT")" != 403 ] || fail "a page is not read by its own name"
kill -INT "$TRAIN"
finish_train 20

# --- Permissions
[ "$(stat -c %a "$RUN" "$RUN/server-0" "$RUN/cache" "$RUN/worker-0.log" | tr '\n' ' ')" = "700 700 700 600 " ] || { ls -la "$RUN"; fail "others may read the run"; }
[ -z "$(find "$RUN/cache" -type f ! -perm 600)" ] || fail "others may read the data's cache"

expect 0 "$WEIR" runs "$DIR" --delete run
[ ! -e "$RUN" ] || fail "the run is still there"
expect 0 "$WEIR" runs
says "^own  *finished"
expect 1 "$WEIR" runs --delete ../runs
# With a slash, as a shell completes it; a second --delete finds nothing.
expect 1 "$WEIR" runs --delete runs/own/ --delete own
says "holds no run own"
[ ! -e runs/own ] || fail "runs/own/ is still there"
nothing_left
echo "$(wc -w <<< "$verbs") verbs, six mistakes at once, three signals"
