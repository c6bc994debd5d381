# Shared by the claims about replication: servers with replicas, their etcd, and workers whose
# integer gradients have a known sum (tests/integration/exact_sum.c). All are children of the
# claim's shell and end with it.
. tests/claims/lib/common.sh
need_programs
need_tests exact_sum
need_installed test etcd

SERVER=() WORKER=() ETCD=
leave_nothing() {
	local p
	for p in "${SERVER[@]}" "${WORKER[@]}" $ETCD; do
		kill -CONT "$p" && kill -KILL "$p" && wait "$p"
	done
	rm -rf "$WORK"
} 2> /dev/null
trap leave_nothing EXIT

# The machine of a program: none, unless networks.sh was sourced before; otherwise a command prefix.
declare -f inside > /dev/null || inside() { :; } # inside MACHINE
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start_etcd() { # in $RUN/etcd
	$(inside etcd) etcd --name weir --data-dir "$RUN/etcd" --listen-client-urls "http://$ETCD_AT" --advertise-client-urls "http://$ETCD_AT" \
		--listen-peer-urls "http://$ETCD_PEER" --initial-advertise-peer-urls "http://$ETCD_PEER" --initial-cluster "weir=http://$ETCD_PEER" \
		--heartbeat-interval 50 --election-timeout 250 2> "$RUN/etcd.log" &
	ETCD=$!
}

# Addresses: a server is on a unix socket, with TCP=1 on loopback; the etcd is always on loopback.
address_of_server() { [ "${TCP:-0}" = 1 ] && echo "127.0.0.1:$(free_port)" || echo "unix:$RUN/server-$1.sock"; }
address_of_etcd() { echo "127.0.0.1:$(free_port)"; } # address_of_etcd clients|peers

# begin_cluster NAME SERVERS REPLICAS LOG [CLUSTER KEYS]: starts all servers in $RUN, with
# PARTITIONS (8).
begin_cluster() {
	local i
	RUN=$WORK/$1 REPLICAS=$3 LIST= SERVER=() ETCD=
	mkdir -p "$RUN"
	ETCD_AT=$(address_of_etcd clients) ETCD_PEER=$(address_of_etcd peers)
	cat > "$RUN/job.yaml" <<-JOB
		job: $1
		run_dir: $RUN
		cluster: {servers: $2, workers: 3, partitions: ${PARTITIONS:-8}, lease_ms: 3001, replicas: $3, log: $4, coord: "$([ "$3" = 1 ] && echo static || echo "etcd://$ETCD_AT")"${5:+, $5}}
		data: {format: criteo, train: none}
		model: {kind: lr}
		security: {insecure: true} # also for simulated machines
	JOB
	for ((i = 0; i < $2; i++)); do LIST=$LIST${LIST:+,}$(address_of_server $i); done
	LEDGER=${LIST%%,*}
	[ "$3" = 1 ] || start_etcd
	for ((i = 0; i < $2; i++)); do start_server $i; done
	wait_for 60 "all replicas to be in sync" in_sync
}
start_server() {
	$(inside "server-$1") "$BUILD/weir-server" --job "$RUN/job.yaml" --index "$1" --servers "$LIST" --listen "$(cut -d, -f$(($1 + 1)) <<< "$LIST")" 2>> "$RUN/server-$1.log" &
	SERVER[$1]=$!
}
end_cluster() {
	kill -TERM "${SERVER[@]}" $ETCD
	wait "${SERVER[@]}" $ETCD
	SERVER=() ETCD=
}

# Asks the server that has the ledger, which is then LEDGER.
status() {
	local at
	for at in "$LEDGER" ${LIST//,/ }; do
		timeout 5 "$BUILD/weir" status "$RUN/job.yaml" --at "$at" --json > "$RUN/status.json" 2> /dev/null && LEDGER=$at && return 0
	done
	return 1
}
job_says() { status && jq -e "$1" "$RUN/status.json" > /dev/null; }
answering() { job_says "[.servers[].answered] | all"; }
in_sync() { [ "$REPLICAS" = 1 ] && answering || job_says ".replicas == $REPLICAS and ([.ledger, .partitions[] | (.in_sync | length) == $REPLICAS] | all)"; }
primary_of() { status && jq -r ".partitions[$1].primary // empty" "$RUN/status.json"; }

# Waits for the killed process, so that the shell prints nothing.
kill_server() { # kill_server INDEX
	kill -KILL "${SERVER[$1]}"
	wait "${SERVER[$1]}" 2> /dev/null
	return 0
}

# start_worker INDEX UNITS [PUSHES: a file of their times]; waits at $RUN/gate in the last units
start_worker() {
	[ -p "$RUN/gate" ] || mkfifo "$RUN/gate"
	$(inside workers) "$BUILD/tests/exact_sum" worker "$LEDGER" "worker-$1" "$RUN/gate" "${@:2}" 2>> "$RUN/worker-$1.log" &
	WORKER[$1]=$!
}
# Lets the job end; every running worker must succeed.
finish_workers() {
	local i
	exec 9<> "$RUN/gate"
	for i in "${!WORKER[@]}"; do
		wait "${WORKER[$i]}" || { tail -n 5 "$RUN"/*.log >&2; give_up "worker-$i failed"; }
	done
	exec 9>&-
	WORKER=()
}
# exact_sums UNITS: the weights are the sum, on whichever server is primary.
exact_sums() { "$BUILD/tests/exact_sum" check "$LEDGER" "$1" > "$RUN/sums.txt" || { cat "$RUN/sums.txt" >&2; return 1; }; }
