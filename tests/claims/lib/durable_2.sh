# A table of 20 million rows (dim 16, Adagrad, keys by Zipf's law) in a tenth of its memory.
# tests/bench/durable/zipf_trainer, a DLRM, trains it through a real server. The baseline is the
# same table in memory. Throughput is at least half. Resident memory, minus an empty server's, is
# within 15 % of the budget.
. tests/claims/lib/common.sh
. tests/claims/lib/durable_server.sh
need_programs
need_tests zipf_trainer
rows=$(pick 2000000 20000000) seconds=$(pick 20 90)
[ "$QUICK" = 1 ] && echo "QUICK: $rows rows instead of 20 M, $seconds s of training instead of 90; buffers outweigh so small a budget, and RSS is not judged"

server_start memory --set cluster.memory_budget=64GiB --set cluster.log=disk
empty=$(server_rss)
zipf "$rows" load > /dev/null || give_up "the rows could not be loaded"
all=$(($(server_rss) - empty))
zipf "$rows" train "$seconds" > "$WORK/memory.json" || give_up "training in memory failed"
server_stop
rm -rf "$WORK/memory"

budget=$((all / 10))
server_start tenth --set "cluster.memory_budget=$budget" --set cluster.log=disk
baseline=$(server_rss)
zipf "$rows" load > /dev/null || give_up "the rows could not be loaded into a tenth"
zipf "$rows" train "$seconds" > "$WORK/warm.json" || give_up "training in a tenth failed"
before=$(server_figure .servers[0].durable.misses)
zipf "$rows" train "$seconds" > "$WORK/tenth.json" &
trainer=$!
rss=0
while kill -0 $trainer 2> /dev/null; do
	now=$(server_rss)
	[ "$now" -gt "$rss" ] && rss=$now
	sleep 0.2
done
wait $trainer || give_up "training in a tenth failed"
after=$(server_figure .servers[0].durable.misses)
cold=$(server_figure '.servers[0].durable.cold_rows')
server_stop
ratio=$(python3 -c 'import json, sys; a, b = (json.load(open(f))["samples_per_s"] for f in sys.argv[1:]); print(f"{b / a:.3f}")' "$WORK/memory.json" "$WORK/tenth.json")
# Misses count a batch's distinct keys in pulls and pushes. Repeated lookups of a key in a batch
# find it in memory.
hits=$(python3 -c 'import json, sys; t = json.load(open(sys.argv[1])); m = int(sys.argv[3]) - int(sys.argv[2]); print("%.3f of look-ups, %.3f of distinct keys of a batch" % (1 - m / t["lookups"], 1 - m / t["keys"]))' "$WORK/tenth.json" "$before" "$after")
over=$(python3 -c 'import sys; rss, base, budget = map(int, sys.argv[1:]); print(f"{(rss - base) / budget:.3f}")' "$rss" "$baseline" "$budget")
echo "all in memory: $((all >> 20)) MiB, $(cat "$WORK/memory.json")"
echo "in a tenth: budget $((budget >> 20)) MiB, RSS $(((rss - baseline) >> 20)) MiB beyond a baseline of $((baseline >> 20)) MiB ($over of the budget); $cold rows on disk only; hit ratio $hits; $(cat "$WORK/tenth.json")"
echo "throughput $ratio of in memory"
verdict "$ratio >= 0.5 and ($QUICK or $over <= 1.15)" "at least half the throughput in a tenth of the memory, and no more than that"
