# A job with mutual TLS: two servers with replicas and two workers on loopback. A peer without a
# certificate, or with one of another authority, job or role, or an expired one, is refused with
# that reason. Files are replaced by another authority's while it trains, and it continues. No log
# has a key. Then a short job whose etcd also uses TLS.
. "$(dirname "$0")/lib.sh"
LEASE_MS=20000
write_job 1000 "replicas: 2, listen: '127.0.0.1:0'"
cat >> "$DIR/job.yaml" <<-JOB
	security: {certificate: '$DIR/certs/{role}.crt', key: '$DIR/certs/{role}.key', ca: $DIR/certs/ca.crt, reload_s: 1}
JOB
certs() { "$WEIR" certs "$@" >> "$DIR/certs.out" 2> "$DIR/certs.err" || fail "weir certs $*"; }
# issue FOLDER JOB ROLE [OPTION...]
issue() { certs issue --dir "$DIR/$1" --job "$2" --role "$3" "${@:4}"; }
authority() { # authority FOLDER JOB: creates a certificate for each role
	certs init --dir "$DIR/$1"
	for role in server worker admin; do issue "$1" "$2" $role; done
}
# refused WORD... -- ARGUMENTS of weir...
refused() {
	local words=()
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	timeout 60 "$WEIR" "${@:2}" > "$DIR/out" 2> "$DIR/refused.err" < /dev/null && fail "weir ${*:2}: succeeds"
	told "${words[@]}" "$DIR/refused.err"
}

echo "-- before anything starts"
refused "$DIR/certs/server.crt" -- train "$DIR/job.yaml"
authority certs it
authority other it
rm "$DIR/certs/worker.key"
refused "$DIR/certs/worker.key" -- train "$DIR/job.yaml"
issue certs other worker
refused "is weir://other/worker/worker, of the job other; this one is it" -- train "$DIR/job.yaml"
issue certs it worker
[ -e "$RUN" ] && fail "something was started"
refused "cluster.listen: has '0.0.0.0:7000', which other machines reach" -- train "$DIR/job.yaml" --set cluster.listen=0.0.0.0:7000 \
	--set security.certificate= --set security.key= --set security.ca=
"$BUILD/weir-server" --job "$DIR/job.yaml" --index 0 --listen 127.0.0.1:0 --servers 127.0.0.1:0,127.0.0.1:0 --set cluster.replicas=1 \
	--set "security.certificate=$DIR/certs/worker.crt" --set "security.key=$DIR/certs/worker.key" 2> "$DIR/server.err" && fail "a worker's certificate serves"
told "weir://it/worker/worker" "expected the role server" "$DIR/server.err"

echo "-- while it trains"
PORT=$(free_ports 5)
start_train --set "metrics.port=$PORT"
wait_for 60 "the first rows" status ".rows >= 2000"
for page in "$PORT/readyz" "$((PORT + 1))/metrics"; do # a server asks itself, with its certificate
	wait_for 20 "a server's /${page#*/}" curl -sf -o "$DIR/page" "http://127.0.0.1:$page"
done
grep -q '^weir_server_up{server="1"} 1' "$DIR/page" || fail "the page of server-1 tells nothing of it"
AT=$(json "$DIR/status.json" '.servers[0].address')
as() { echo --at "$AT" "$DIR/job.yaml" --set "security.certificate=$DIR/$1.crt" --set "security.key=$DIR/$1.key" --set "security.ca=$DIR/$2/ca.crt"; }
refused "$AT" "in plain text" -- status --at "$AT"
refused "certificate verify failed" "$DIR/other/ca.crt does not vouch for it" -- status $(as other/admin other)
refused "$DIR/certs/ca.crt does not vouch for it" -- status $(as other/admin certs)
refused "the certificate shown is weir://it/worker/worker; expected the role admin, of the job it" -- checkpoint $(as certs/worker certs)
issue certs stranger admin --name stranger
refused "is weir://stranger/admin/stranger, of the job stranger; this one is it" -- status $(as certs/stranger certs)
refused "the certificate shown is weir://it/server/server; expected that of a server of the job stranger" -- status $(as certs/stranger certs) --set job=stranger
issue certs it admin --name late --lifetime 1s
expired() { ! "$WEIR" status $(as certs/late certs) > /dev/null 2>&1; }
wait_for 10 "a certificate to expire" expired
refused "expired on" -- status $(as certs/late certs)
grep -q "denied.*/weir.v1.Ledger/Checkpoint: the certificate shown is weir://it/worker/worker" "$RUN"/server-*.log || fail "no server says whom it has refused"

echo "-- files that are replaced"
authority new it
for name in ca server worker admin; do
	cp "$DIR/new/$name.key" "$DIR/certs/$name.key"
	cp "$DIR/new/$name.crt" "$DIR/certs/$name.crt"
done
wait_for 20 "the servers to take up their files" status ". != null"
rows=$(json "$DIR/status.json" .rows)
wait_for 30 "pushes to go on" status ".rows > $rows + 2000"
holds "$DIR/status.json" ".workers_lost == 0"
kill -KILL "$(pid_of worker-0)" # a new worker connects
wait_for 60 "a worker with the new certificate to train" status '[.workers[] | select(.name == "worker-0" and .live and .rows > 0)] | length > 0'
wait_for 30 "all replicas to be in sync" status "$WHOLE"
stop_train 20
holds "$DIR/report.json" ".audit.double == 0"
grep -rlF -f <(sed -n 2p "$DIR"/new/*.key) "$RUN" --include='*.log' && fail "a key is in a log"
nothing_left

echo "-- an etcd by TLS"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
certs issue --dir "$DIR/certs" --name etcd --host 127.0.0.1
client=127.0.0.1:$(port) peer=http://127.0.0.1:$(port)
etcd --name weir --data-dir "$DIR/etcd" --listen-client-urls "https://$client" --advertise-client-urls "https://$client" --listen-peer-urls "$peer" \
	--initial-advertise-peer-urls "$peer" --initial-cluster "weir=$peer" --cert-file "$DIR/certs/etcd.crt" --key-file "$DIR/certs/etcd.key" --client-cert-auth \
	--trusted-ca-file "$DIR/certs/ca.crt" > "$DIR/etcd.err" 2>&1 &
ETCD=$!
start_train --fresh --set train.passes=2 --set train.pace.batch_ms=0 --set "cluster.coord=etcds://$client"
finish_train 90
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
kill -TERM $ETCD
wait $ETCD
nothing_left
