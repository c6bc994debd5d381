#!/bin/sh
# Starts two servers on unix sockets in a temporary directory, runs the trainer against them, and
# stops them. Exits with the trainer's status.
#   run.sh WEIR_SERVER TRAINER
set -eu
server=$1
trainer=$2
dir=$(mktemp -d)
pids=""
finish() {
	for pid in $pids; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$dir"
}
trap finish EXIT

cat >"$dir/job.yaml" <<YAML
job: embed
cluster: {servers: 2, workers: 1, partitions: 4}
YAML

start() {
	mkfifo "$dir/ready-$1"
	"$server" --job "$dir/job.yaml" --index "$1" --listen "unix:$dir/$1.sock" --servers "unix:$dir/0.sock,unix:$dir/1.sock" \
		--log-level warn --ready-fd 3 3>"$dir/ready-$1" &
	pids="$pids $!"
	read -r line <"$dir/ready-$1" || line=""
	case $line in
	READY*) ;;
	*) echo "server $1 did not start" >&2; exit 1 ;;
	esac
}
start 0
start 1
"$trainer" "unix:$dir/0.sock"
