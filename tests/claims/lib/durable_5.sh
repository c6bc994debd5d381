# The cost of each level of `ack`. The DeepFM job with `log: memory`, and with `log: disk` at `ack:
# sent`, `primary` and `disk`, interleaved in rounds. Prints median samples/s relative to `log:
# memory`. `sent` and `primary` (fsync every 200 ms) may cost 10 %; `disk` (group commit) is
# reported. A run has three passes: the log reaches its limit in the second, and the resulting
# flushes happen before the end. Each round begins with the next one of the four, so that a machine
# that changes speed affects all.
. tests/claims/lib/common.sh
need_programs
rounds=$(pick 2 8)
passes=$(pick 1 3)
[ "$QUICK" = 1 ] && echo "QUICK: two rounds instead of eight, one pass over a third of the rows instead of three"
deepfm_job "$(pick 300000 900000)" ""
"$BUILD/weir" train "$WORK/deepfm.yaml" --set "run_dir=$WORK/data" --report "$WORK/data.json" > /dev/null 2> "$WORK/data.err" ||
	{ cat "$WORK/data.err" >&2; give_up "the first run failed"; }
SAME=(--set data.generate.rows=0 --set "data.train=$WORK/data/generated.tsv" --set "data.cache=$WORK/data/cache" --set train.keep_best=false --set "train.passes=$passes")
run() { # run NAME ROUND [--set ...]
	local name=$1-$2
	shift 2
	train "$name" "$WORK/deepfm.yaml" "${SAME[@]}" "$@"
	figure "$WORK/$name.json" samples_per_s >> "$WORK/${name%-*}.rates"
	rm -rf "${WORK:?}/$name"
}
RUNGS=(memory sent primary disk)
for ((r = 0; r < rounds; r++)); do
	for ((i = 0; i < ${#RUNGS[@]}; i++)); do
		rung=${RUNGS[(r + i) % ${#RUNGS[@]}]}
		case $rung in
		memory) run memory $r --set cluster.log=memory ;;
		*) run $rung $r --set cluster.log=disk --set cluster.ack=$rung ;;
		esac
	done
done
ratio() { # median of level $1 relative to memory
	python3 -c 'import sys, statistics; a, b = ([float(l) for l in open(f)] for f in sys.argv[1:]); print(f"{statistics.median(y / x for x, y in zip(a, b)):.3f}")' "$WORK/memory.rates" "$WORK/$1.rates"
}
sent=$(ratio sent) primary=$(ratio primary) disk=$(ratio disk)
echo "samples/s, $rounds rounds: memory $(paste -sd' ' "$WORK/memory.rates"); sent $(paste -sd' ' "$WORK/sent.rates"); primary $(paste -sd' ' "$WORK/primary.rates"); disk $(paste -sd' ' "$WORK/disk.rates")"
echo "ratio to log: memory: sent $sent, primary $primary, disk $disk (reported)"
verdict "$sent >= 0.9 and $primary >= 0.9" "sent and primary cost at most 10 %"
