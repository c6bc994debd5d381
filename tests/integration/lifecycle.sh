# Keys are admitted by count, and rows are evicted after a second without a push, while servers with
# their log on disk are killed. The audit is exact, and the status shows admissions and evictions.
. "$(dirname "$0")/lib.sh"
write_job 3 "log: disk, fsync_interval_ms: 50, memory_budget: 16MiB"

# The tables have keys that are only counted, rows without effect, and evicted rows.
SEEN='([.tables[] | select(.name != "dense")] | length > 0 and all(.rows > 0 and .rows_stub > 0 and .pushes_unadmitted > 0 and .rows_evicted > 0))'

start_train --set data.generate.rows=100000 --set data.generate.ids=200000 \
	--set tables.embedding.admission.kind=count --set tables.embedding.admission.count=3 \
	--set tables.embedding.eviction.ttl_s=1
wait_for 60 "keys to be counted and rows to go" status "$SEEN and .rows >= 1000"
kill -KILL "$(pid_of server-1)" || fail "server-1 is not there"
wait_for 60 "the same after a restart" status "$SEEN and .rows >= 100000"
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS"
audited
holds "$DIR/report.json" ".finished and .servers_lost == 1"
nothing_left

# Meaningless settings are refused by name.
for wrong in admission.probability=0 eviction.ttl_s=-1 admission.count=0; do
	"$WEIR" train "$DIR/job.yaml" --set tables.embedding.admission.kind=probability --set "tables.embedding.$wrong" \
		> /dev/null 2> "$DIR/wrong.err" && fail "$wrong was taken"
	told "tables.embedding.${wrong%=*}" "$DIR/wrong.err"
done
