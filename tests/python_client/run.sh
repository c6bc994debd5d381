#!/usr/bin/env bash
# Two servers, and client.py, which knows only proto/weir.proto. Exits 77 if PYTHON (python3) lacks
# grpcio or grpcio-tools.
#   run.sh BUILD_DIR
. "$(dirname "$0")/../integration/lib.sh"
HERE=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-python3}
"$PYTHON" -c 'import grpc, grpc_tools' 2> /dev/null || PYTHON=/usr/bin/python3 # Debian's python3 has the packaged modules
"$PYTHON" -c 'import grpc, grpc_tools' 2> /dev/null || { echo "skipped: $PYTHON has no grpcio and grpcio-tools"; exit 77; }
"$PYTHON" -m grpc_tools.protoc -I "$HERE/../../proto" --python_out="$DIR" --grpc_python_out="$DIR" weir.proto || fail "proto/weir.proto cannot be compiled for Python"
cat > "$DIR/job.yaml" <<-JOB
	job: python
	run_dir: $DIR/run
	cluster: {servers: 2, workers: 1, partitions: 4}
	data: {format: libsvm, train: none, batch: 32}
	model: {kind: lr}
	train: {passes: 2}
JOB
PORT=$("$PYTHON" -c 'import socket; s = [socket.socket() for _ in range(2)]; [x.bind(("127.0.0.1", 0)) for x in s]; print(*(x.getsockname()[1] for x in s))')
set -- $PORT
for i in 0 1; do
	"$BUILD/weir-server" --job "$DIR/job.yaml" --index $i --listen "127.0.0.1:$([ $i = 0 ] && echo "$1" || echo "$2")" --servers "127.0.0.1:$1,127.0.0.1:$2" \
		--log-level warn > "$DIR/server-$i.out" 2> "$DIR/server-$i.err" &
done
JOB_AT=(--at "127.0.0.1:$1")
wait_for 10 "the servers" status '[.servers[] | select(.answered != false)] | length == 2'
PYTHONPATH=$DIR "$PYTHON" "$HERE/client.py" "127.0.0.1:$1" > "$DIR/client.out" 2> "$DIR/client.err" || fail "client.py: $(tail -n 3 "$DIR/client.err")"
cat "$DIR/client.out"
status '.state == "finished" and .committed == 4 and .workers_lost == 0' || fail "the job says $(cat "$DIR/status.json")"
