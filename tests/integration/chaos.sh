# weir train --chaos kills and stops servers and workers while a job with replicas trains. At the
# end every push was applied exactly once. A server that holds the only copy of something is spared,
# with a message.
. "$(dirname "$0")/lib.sh"
write_job 12 "replicas: 2, log: disk"
sed -i 's/servers: 2/servers: 3/' "$DIR/job.yaml"
start_train --chaos 329 # kills a server, then a worker, then stops another server
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".finished and .chaos.seed == 329 and .chaos.servers_killed >= 1 and .chaos.workers_killed >= 1"
holds "$DIR/report.json" ".servers_lost >= .chaos.servers_killed"
grep -q "chaos: kill -9 server-1" "$DIR/train.err" || fail "the first event is not told"
nothing_left
grep "chaos  " "$DIR/train.out"

rm -r "$RUN"
start_train --chaos 329 --set cluster.replicas=1 --set cluster.log=memory --set train.passes=2
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".chaos.servers_killed == 0"
grep -q "chaos: no server is killed: with cluster.replicas: 1 and cluster.log: memory" "$DIR/train.err" || fail "it does not say who is spared"
nothing_left
"$WEIR" train "$DIR/job.yaml" --chaos 1 --set 'cluster.servers_at=[a:1, b:1, c:1]' --set cluster.coord=etcd://a:2 --set security.insecure=true > "$DIR/out" 2> "$DIR/others.err" &&
	fail "it hits servers of others"
told "--chaos" "cluster.servers_at" "$DIR/others.err"
