# An S3 endpoint that accepts connections and never answers: a verb ends within a minute and names
# the endpoint.
. "$(dirname "$0")/lib.sh"
python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(64); print(s.getsockname()[1], flush=True); taken = []
while True: taken.append(s.accept())' > "$DIR/port" &
silent=$!
trap 'kill $silent; cleanup' EXIT
wait_for 10 "the endpoint" test -s "$DIR/port"
write_job 1
echo "checkpoint: {dir: 's3://bucket/x', endpoint: 'http://127.0.0.1:$(cat "$DIR/port")'}" >> "$DIR/job.yaml"
began=$SECONDS
AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b timeout 120 "$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/restore.err"
[ $? = 1 ] || fail "exit status $?"
told "http://127.0.0.1:$(cat "$DIR/port")" "check checkpoint.endpoint" "$DIR/restore.err"
[ $((SECONDS - began)) -lt 60 ] || fail "it took $((SECONDS - began)) s"
echo "weir restore ended after $((SECONDS - began)) s, naming the endpoint"
