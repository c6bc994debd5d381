# weir import sets the weights of a job whose servers run, and refuses a job that trains.
. "$(dirname "$0")/lib.sh"
write_job 2
start_train
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
"$WEIR" export "$DIR/job.yaml" --out "$DIR/model.safetensors" > /dev/null 2> "$DIR/export.err" || fail "weir export"
"$WEIR" eval "$DIR/job.yaml" --json > "$DIR/best.json" 2> "$DIR/eval.err" || fail "weir eval"

write_job 1000
start_train --fresh
wait_for 30 "the first rows" status ".rows >= 2000"
"$WEIR" import "$DIR/job.yaml" --in "$DIR/model.safetensors" > "$DIR/out" 2> "$DIR/import.err" && fail "weights were imported into a job that trains"
told "trains, with 2 workers" "train.warm_start" "$DIR/import.err"
stop_train 20

servers=unix:$RUN/0.sock,unix:$RUN/1.sock
at=(--set "cluster.servers_at=['unix:$RUN/0.sock', 'unix:$RUN/1.sock']")
for i in 0 1; do
	"$BUILD/weir-server" --job "$DIR/job.yaml" --index $i --listen "unix:$RUN/$i.sock" --servers "$servers" --ready-fd 3 3> "$DIR/ready-$i" 2>> "$DIR/server.err" &
	eval "server_$i=$!"
	wait_for 20 "server $i" grep -q READY "$DIR/ready-$i"
done
"$WEIR" import "$DIR/job.yaml" "${at[@]}" --in "$DIR/model.safetensors" > "$DIR/out" 2> "$DIR/import.err" || fail "weir import: $(cat "$DIR/import.err")"
"$WEIR" eval "$DIR/job.yaml" "${at[@]}" --json > "$DIR/imported.json" 2> "$DIR/eval.err" || fail "weir eval of what was imported: $(cat "$DIR/eval.err")"
jq -es '(.[0].auc - .[1].auc | fabs < 1e-6) and (.[1].weights | test("running job"))' "$DIR/best.json" "$DIR/imported.json" > /dev/null ||
	fail "other weights: $(cat "$DIR/best.json" "$DIR/imported.json")"
kill -TERM "$server_0" "$server_1" && wait "$server_0" "$server_1"
nothing_left
