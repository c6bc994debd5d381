# No slower than before the files moved into rooms: `weir bench push|pull|store` and the demo's
# samples/s of this tree and of the commit before that, in turn, round by round. Of each benchmark
# the geometric mean over its figures is compared, without those of the machine itself (memcpy, TCP,
# bare gRPC). The noise is the standard error over rounds of this ratio, and at least 3 %; the bound
# is three times the noise. QUICK=1: fewer rounds, shorter benchmarks, less data.
. tests/claims/lib/common.sh
need_programs
moved=$(git log --format=%H --grep='^tree: move files into rooms' | tail -n 1)
[ -n "$moved" ] && git cat-file -e "$moved~1" 2> /dev/null || give_up "this clone has no commit before 'tree: move files into rooms': fetch the whole history"
git clone -q --shared "$ROOT" "$WORK/before" && git -C "$WORK/before" checkout -q "$moved~1" || give_up "the commit before cannot be checked out"
(cd "$WORK/before" && cmake --preset release -DWEIR_CUDA=OFF -DWEIR_CUDA_EMULATED=OFF && cmake --build build -j"$(nproc)" --target weir weir-server weir-worker) > "$WORK/log" 2>&1 ||
	{ tail -n 30 "$WORK/log" >&2; give_up "the commit before does not build"; }

rounds=$(pick 8 12) rows=$(pick 200000 2000000)
quick=()
[ "$QUICK" = 1 ] && quick=(--quick) && echo "QUICK=1: $rounds rounds instead of 12, --quick, $rows rows of the demo instead of 2000000"
measure() { # measure before|now TREE
	local what run=$WORK/run
	for what in push pull store; do
		"$2/weir" bench "$what" "${quick[@]}" --rounds 1 --values "$WORK/$1-$what.tsv" > "$WORK/log" 2>&1 || { cat "$WORK/log" >&2; give_up "weir bench $what of $1 fails"; }
		echo round >> "$WORK/$1-$what.tsv"
	done
	rm -rf "$run"
	"$2/weir" train "$ROOT/config/demo.yaml" --set "run_dir=$run" --set "data.generate={rows: 0}" --set "data.train=$WORK/demo.tsv" \
		--set data.split.by=crc32 --set "data.cache=$WORK/cache-$1" --report "$WORK/report.json" > "$WORK/log" 2>&1 ||
		{ tail -n 30 "$WORK/log" >&2; give_up "the demo of $1 fails"; }
	printf '1\tsamples/s\t%s\t1/s\nround\n' "$(figure "$WORK/report.json" samples_per_s)" >> "$WORK/$1-demo.tsv"
}
"$BUILD/weir" datagen --rows "$rows" --ids 500000 --seed 1 --out "$WORK/demo.tsv" > "$WORK/log" 2>&1 || { cat "$WORK/log" >&2; give_up "no data"; }
for ((i = 0; i < rounds; i++)); do
	if ((i % 2)); then
		measure now "$BUILD" && measure before "$WORK/before/build"
	else
		measure before "$WORK/before/build" && measure now "$BUILD"
	fi
done
python3 - "$WORK" <<-'PYTHON' | tee "$WORK/ratios"
	import math, re, statistics, sys
	FLOOR = 0.03
	def rounds(path):
	    """One {name: value, higher is better} per round; the warm-up round 0 does not count."""
	    out, now = [], {}
	    for line in open(path):
	        if line == "round\n":
	            out.append(now)
	            now = {}
	            continue
	        number, name, value, unit = line.rstrip("\n").split("\t")
	        if int(number) > 0 and not re.match("memcpy|raw |bare ", name):
	            now[name] = 1 / float(value) if unit in ("s", "ms", "us", "ns") else float(value)
	    return out
	bad = 0
	for what in ("push", "pull", "store", "demo"):
	    pairs = zip(rounds(f"{sys.argv[1]}/before-{what}.tsv"), rounds(f"{sys.argv[1]}/now-{what}.tsv"))
	    ratios = [math.exp(statistics.mean(math.log(n[k] / b[k]) for k in b if k in n)) for b, n in pairs]
	    noise = max(FLOOR, statistics.stdev(ratios) / math.sqrt(len(ratios)))
	    mean = statistics.mean(ratios)
	    slow = mean < 1 - 3 * noise
	    bad += slow
	    print(f"{what}: {mean:.3f} of before, noise {noise:.3f}, rounds {' '.join(f'{r:.3f}' for r in ratios)}{'  SLOWER' if slow else ''}")
	print(bad)
PYTHON
verdict "$(tail -n 1 "$WORK/ratios") == 0" "speed against the commit before the rooms: $(sed '$d' "$WORK/ratios" | sed 's/, rounds.*//' | paste -sd ';')"
