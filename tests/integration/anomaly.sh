# With a learning rate that is far too large, workers name the anomaly and its batch. With
# train.anomaly.policy: stop they end, and so does the run, with that message. A reader that waits
# on a silent pipe is named, too.
. "$(dirname "$0")/lib.sh"
write_job 6 # the loss diverges in the second pass
sed -i 's/lr: 3.0e-3/lr: 3.0e-4/' "$DIR/job.yaml"
BAD=(--set tables.embedding.optimizer.lr=3 --set tables.dense.optimizer.lr=3 --set tables.embedding.optimizer.schedule='{kind: linear, warmup: 400}' --set tables.dense.optimizer.schedule='{kind: linear, warmup: 400}')
start_train "${BAD[@]}"
finish_train 120
[ $STATUS = 0 ] || fail "exit status $STATUS: to warn is not to stop"
grep -h "anomaly pass=[0-9]* unit=[0-9]* batch=[0-9]*: the loss diverges" "$RUN"/worker-*.log || fail "nobody says that the loss diverges"
start_train --fresh "${BAD[@]}" --set train.anomaly.policy=stop
finish_train 120
[ $STATUS = 1 ] || fail "exit status $STATUS"
told "no worker is left" "$DIR/train.err"
grep -qh "the loss diverges.*(train.anomaly.policy: stop)" "$RUN"/worker-*.log || fail "no worker says why it ended"
nothing_left
