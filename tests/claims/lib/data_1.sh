# One log as Criteo text, CSV, JSON lines, Parquet and Arrow: the same AUC and the same distinct rows.
# Then a table of how fast each is read into keys and floats, by processor time on one core, beside
# pyarrow's reading of the same columns; the median of several rounds. QUICK=1: fewer rows.
. tests/claims/lib/common.sh
rows=$(pick 300000 5000000) rounds=$(pick 3 5)
AUC_DIFFERENCE=0.0005 SCAN_MB_S=1000 CSV_MB_S=300 PARQUET_OF_PYARROW=0.8
[ "$QUICK" = 1 ] && echo "QUICK: $rows rows instead of 5000000, $rounds rounds instead of 5"
need_programs
need_arrow
need_tests read_rows
"$BUILD/weir" datagen --rows "$rows" --ids 1000000 --seed 1 --out "$WORK/rows.tsv" > "$WORK/out" 2>&1 || give_up "no data"
columns='{name: clicked, kind: label}'
header=clicked
for ((i = 1; i <= 13; i++)); do columns+=", {name: n$i, kind: numeric, transform: log1p}" header+=,n$i; done
for ((i = 1; i <= 26; i++)); do columns+=", {name: c$i, kind: categorical}" header+=,c$i; done
{ echo $header; tr '\t' ',' < "$WORK/rows.tsv"; } > "$WORK/rows.csv"
"$TABLES_PYTHON" tests/parity/same_tables.py make "$WORK/rows.tsv" "$WORK" || give_up "pyarrow writes no tables"

# keys_of WEIGHTS: how many rows its tables of embeddings have
keys_of() {
	python3 -c '
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
print(sum(t["shape"][0] for name, t in header.items() if name.endswith(".keys")))' "$1"
}

files=(rows.tsv rows.csv rows.jsonl snappy.parquet zstd.parquet rows.arrow)
job() { # job FILE VALID: every format has a split of its own, so the training rows are evaluated
	local format=${1##*.} described="columns: [$columns], "
	[ $format != tsv ] || format=criteo described=
	cat <<-JOB
		job: same
		cluster: {partitions: 4}
		data: {format: $format, train: $WORK/$1, ${2:+valid: $WORK/$1, }${described}threads: 1, shuffle: false, batch: 1024, unit_batches: ${2:-$((rows / 1024 + 1))}, cache: ${3:-'off'}}
		model: {kind: lr}
		tables: {embedding: {optimizer: {kind: adagrad, lr: 0.05}, mode: {kind: sync}}, dense: {optimizer: {kind: adagrad, lr: 0.05}, mode: {kind: sync}}}
		train: {passes: 1}
	JOB
}
printf '%-16s %10s %14s %8s %10s\n' file AUC 'distinct rows' MB 'MB/s a core'
for file in "${files[@]}"; do
	job "$file" 64 auto > "$WORK/job.yaml"
	train "run-${file/./-}" "$WORK/job.yaml"
	job "$file" > "$WORK/read.yaml"
	for ((i = 0; i < rounds; i++)); do
		"$BUILD/read_rows" "$WORK/read.yaml" > "$WORK/read" 2> "$WORK/err" || { cat "$WORK/err" >&2; give_up "$file is not read"; }
		cut -d' ' -f2 "$WORK/read" >> "$WORK/$file.seconds"
		[[ $file != *.parquet ]] || "$TABLES_PYTHON" tests/parity/same_tables.py read "$WORK/$file" >> "$WORK/$file.pyarrow"
	done
	bytes=$(stat -c %s "$WORK/$file")
	seconds=$(sort -n "$WORK/$file.seconds" | sed -n "$((rounds / 2 + 1))p")
	auc=$(figure "$WORK/run-${file/./-}.json" valid.auc) distinct=$(keys_of "$WORK/run-${file/./-}/best.safetensors")
	printf '%-16s %10.6f %14s %8s %10.0f\n' "$file" "$auc" "$distinct" $((bytes / 1000000)) "$(awk "BEGIN {print $bytes / 1e6 / $seconds}")" | tee -a "$WORK/table"
done
"$BUILD/weir" bench loader ${QUICK:+--rounds 3} --values "$WORK/loader.tsv" > "$WORK/out" 2>&1 || { cat "$WORK/out" >&2; give_up "weir bench loader fails"; }
python3 - "$WORK" "$AUC_DIFFERENCE" "$SCAN_MB_S" "$CSV_MB_S" "$PARQUET_OF_PYARROW" <<-'PYTHON' | tee "$WORK/verdict"
	import statistics, sys
	work, difference, scan_least, csv_least, of_pyarrow = sys.argv[1], *map(float, sys.argv[2:])
	table = [line.split() for line in open(f"{work}/table")]
	seconds = lambda name: statistics.median(map(float, open(f"{work}/{name}")))
	aucs = [float(r[1]) for r in table]
	scan = [float(l.split("\t")[2]) for l in open(f"{work}/loader.tsv") if "scan" in l.split("\t")[1] and int(l.split("\t")[0]) > 0]
	scan = statistics.median(scan) / 1e6
	csv = next(float(r[4]) for r in table if r[0] == "rows.csv")
	ratios = {n: seconds(n + ".pyarrow") / seconds(n + ".seconds") for n in ("snappy.parquet", "zstd.parquet")}
	good = max(aucs) - min(aucs) <= difference and len({r[2] for r in table}) == 1 and scan >= scan_least and csv >= csv_least and min(ratios.values()) >= of_pyarrow
	print(f"{int(good)} AUC within {max(aucs) - min(aucs):.6f} ({difference}), distinct rows {' '.join(sorted({r[2] for r in table}))}; CSV: scan {scan:.0f} MB/s ({scan_least:.0f}), "
	      f"into keys and floats {csv:.0f} MB/s ({csv_least:.0f}); of pyarrow's speed: " + ", ".join(f"{n} {r:.2f}" for n, r in ratios.items()) + f" ({of_pyarrow})")
PYTHON
read -r ok said < "$WORK/verdict"
verdict "$ok" "$said"
