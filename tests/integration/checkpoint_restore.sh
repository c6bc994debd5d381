# A checkpoint of a job that trains, then every process is killed. The job is restored on 1, 2 and 5
# servers, which evaluate to identical bits. Then it trains to its end, with each push applied once.
# With the log in memory and on disk, and with synchronous steps.
. "$(dirname "$0")/lib.sh"

kill_all() {
	local p
	kill -KILL "$TRAIN" $(left_over) 2> /dev/null
	wait "$TRAIN" 2> /dev/null
	for p in $(left_over); do wait_for 5 "process $p to be gone" is_gone "$p"; done
}

serving() { [ "$(cat "$DIR"/by-hand/*.log 2> /dev/null | grep -c ' serving ')" = "$1" ]; }

# evaluate N OUT.json: evaluates the restored weights on N servers.
evaluate() {
	local n=$1 out=$2 i at="" listed="" pids=""
	rm -rf "$DIR/by-hand"
	mkdir "$DIR/by-hand"
	for i in $(seq 0 $((n - 1))); do
		at="$at${at:+,}unix:$DIR/by-hand/$i.sock"
		listed="$listed${listed:+, }'unix:$DIR/by-hand/$i.sock'"
	done
	for i in $(seq 0 $((n - 1))); do
		"$BUILD/weir-server" --job "$DIR/job.yaml" --set "run_dir=$DIR/by-hand" --set "checkpoint.dir=$RUN/checkpoints" --set "cluster.servers=$n" \
			--index "$i" --uuid "$(json "$RUN/run.json" .uuid)" --generation "$(json "$RUN/run.json" .generation)" \
			--restore "$(json "$RUN/run.json" .restore)" --listen "unix:$DIR/by-hand/$i.sock" --servers "$at" > "$DIR/by-hand/$i.log" 2>&1 &
		pids="$pids $!"
	done
	wait_for 30 "$n servers to serve" serving "$n"
	[ "$(sed -n 's/.* serving .* partitions=\([0-9]*\) .*/\1/p' "$DIR"/by-hand/*.log | awk '{ n += $1 } END { print n }')" = 8 ] || fail "$n servers do not serve 8 partitions together"
	"$WEIR" eval --job "$DIR/job.yaml" --set "cluster.servers=$n" --set "cluster.servers_at=[$listed]" --json > "$DIR/eval.out" 2> "$DIR/eval.err" ||
		fail "eval on $n servers: $(cat "$DIR/eval.err")"
	jq -e '.weights | test("running job")' "$DIR/eval.out" > /dev/null || fail "not the restored weights: $(cat "$DIR/eval.out")"
	jq 'del(.weights)' "$DIR/eval.out" > "$out"
	kill -KILL $pids
	wait $pids 2> /dev/null
}

round() {
	local name=$1 n passes units
	rm -rf "$RUN"
	start_train --set train.passes=1000
	wait_for 60 "$name: the first rows" status ".rows >= 20000"
	"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/first.out" || fail "$name: no checkpoint"
	wait_for 60 "$name: more rows" status ".rows >= 30000"
	"$WEIR" checkpoint --job "$DIR/job.yaml" --json > "$DIR/second.json" || fail "$name: no second checkpoint"
	status . || fail "$name: no status"
	passes=$(($(json "$DIR/status.json" .pass) + 3))
	kill_all
	"$WEIR" checkpoint verify "$DIR/job.yaml" --json > "$DIR/verified.json" || fail "$name: not whole"
	[ "$(json "$DIR/verified.json" .name)" = "$(json "$DIR/second.json" .name)" ] || fail "$name: the latest is not the last"
	units=$(json "$RUN/fingerprint.json" .units)
	"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/restore.out" 2> "$DIR/restore.err" || fail "$name: $(tail -n 1 "$DIR/restore.err")"
	holds "$RUN/run.json" '.generation == 2 and .restore != ""'
	holds "$RUN/fingerprint.json" ".units == $units"
	start_train
	finish_train 30
	told "weir train --resume" "--fresh" "$DIR/train.err"
	holds "$RUN/run.json" '.generation == 2 and .restore != ""'
	for n in 1 2 5; do
		evaluate $n "$DIR/eval-$n.json"
		cmp "$DIR/eval-1.json" "$DIR/eval-$n.json" || fail "$name: $n servers evaluate otherwise: $(cat "$DIR/eval-1.json" "$DIR/eval-$n.json")"
	done
	holds "$DIR/eval-1.json" '.auc > 0.6'
	start_train --resume --set "train.passes=$passes"
	finish_train 120
	[ $STATUS = 0 ] || fail "$name: the resumed job ended with $STATUS: $(tail -n 1 "$DIR/train.err")"
	audited
	echo "$name: restored at auc $(json "$DIR/eval-1.json" .auc), went on to $(json "$DIR/report.json" .test.auc)"
}

write_job 7
round memory
write_job 7 "log: disk"
round disk
write_job 7
sed -i 's/dense: {optimizer/dense: {mode: {kind: sync}, optimizer/' "$DIR/job.yaml"
round synchronous
