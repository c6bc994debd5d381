# Checkpoints of a job with replicas. Servers die during a checkpoint: first one with partitions
# only, then the ledger's. Each time `weir checkpoint` completes, with a new attempt if necessary.
# The job then goes back to the checkpoint with one server fewer, another number of replicas, and a
# server that returns without its folder. At the end every push was applied exactly once.
. "$(dirname "$0")/lib.sh"
write_job 1000 "replicas: 2, log: disk, fsync_interval_ms: 50"
sed -i -e 's/servers: 2/servers: 4/' -e 's/dim: 8/dim: 64/' "$DIR/job.yaml"
echo 'checkpoint: {rate: 2MiB}' >> "$DIR/job.yaml"
CK=$RUN/checkpoints
written() { find "$CK" -name 'ck-*' -printf '%f\n' 2> /dev/null | cut -d . -f 1-2 | sort -u; }
begun() { written | grep -vF "${before:-none}" | grep -q .; }

start_train
wait_for 30 "the first rows" status ".rows >= 5000"
for role in partitions ledger; do
	wait_for 30 "all replicas to be in sync" status "$WHOLE"
	victim=$(json "$DIR/status.json" .ledger.server)
	[ $role = partitions ] && victim=$(json "$DIR/status.json" "[.partitions[].primary | select(. != $victim)][0]")
	before=$(written)
	"$WEIR" checkpoint --job "$DIR/job.yaml" --json > "$DIR/$role.json" 2> "$DIR/$role.err" &
	asked=$!
	wait_for 30 "a checkpoint to begin" begun
	pid=$(pid_of "server-$victim") || fail "server-$victim does not run"
	kill -KILL "$pid"
	wait_for 60 "weir checkpoint to end" is_gone $asked
	wait $asked || fail "no checkpoint while the server of the $role is killed: $(tail -n 1 "$DIR/$role.err")"
	"$WEIR" checkpoint verify "$DIR/job.yaml" --from "$(json "$DIR/$role.json" .name)" > "$DIR/out" || fail "not whole"
done
grep -h "checkpoint begins anew" "$RUN"/server-*.log || fail "no checkpoint was begun anew"
left=$(find "$CK" -type f ! -name '*.json' -printf '%f\n' | cut -d . -f 1-2 | sort -u)
[ "$left" = "$(find "$CK" -name '*.json' -printf '%f\n' | cut -d . -f 1-2 | sort -u)" ] || fail "files of those that were given up are left: $left"
status . || fail "no status"
passes=$(($(json "$DIR/status.json" .pass) + 3))
kill -TERM "$TRAIN"
finish_train 60

sed -i -e 's/servers: 4/servers: 3/' -e 's/replicas: 2/replicas: 3/' -e "s/passes: 1000/passes: $passes/" "$DIR/job.yaml"
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/restore.out" 2> "$DIR/restore.err" || fail "not restored: $(tail -n 1 "$DIR/restore.err")"
start_train --resume
wait_for 30 "all replicas to be in sync" status "${WHOLE/== 2/== 3}"
pid=$(pid_of server-2) || fail "server-2 does not run"
kill -STOP "$pid"
wait_for 30 "the others to go on without server-2" status '[.partitions[].in_sync[].server | select(. == 2)] | length == 0'
rm -rf "$RUN/server-2"
kill -KILL "$pid"
finish_train 120
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".finished and .servers_lost == 1"
nothing_left
