# The memory of a worker does not grow with the data: CSV files of three sizes, read once each, with
# a cache and without. Prints the peak resident size of the worker. QUICK=1: a twentieth of the sizes.
. tests/claims/lib/common.sh
MOST_MIB=1024
SPREAD=$(pick 0.10 0.05) # of 90 MiB, 3 are noise
ROW_BYTES=266 # of weir datagen
need_programs
read -r -a sizes_mb <<< "$(pick '100 400 1000' '2000 8000 20000')"
[ "$QUICK" = 1 ] && echo "QUICK: files of ${sizes_mb[*]} MB instead of 2000, 8000 and 20000; 10 % instead of 5"
columns='{name: click, kind: label}'
header=click
for ((i = 1; i <= 13; i++)); do columns+=", {name: n$i, kind: numeric, transform: log1p}" header+=,n$i; done
for ((i = 1; i <= 26; i++)); do columns+=", {name: c$i, kind: categorical}" header+=,c$i; done
cat > "$WORK/job.yaml" <<-JOB
	job: memory
	cluster: {partitions: 4}
	data: {format: csv, train: $WORK/rows.csv, batch: 4096, columns: [$columns]}
	model: {kind: lr}
	tables: {embedding: {optimizer: {kind: sgd, lr: 0.05}}, dense: {optimizer: {kind: sgd, lr: 0.05}}}
	train: {passes: 1}
JOB

# run_one NAME CACHE: sets `peak_kib` to the worker's peak resident size
run_one() {
	local pid kib
	"$BUILD/weir" train "$WORK/job.yaml" --report "$WORK/$1.json" --set "run_dir=$WORK/$1" --set "data.cache=$2" > "$WORK/out" 2> "$WORK/err" < /dev/null &
	train=$! peak_kib=0
	while kill -0 $train 2> /dev/null; do
		for pid in $(pgrep -P $train -f weir-worker); do
			kib=$(awk '/^VmHWM/ {print $2}' "/proc/$pid/status" 2> /dev/null)
			[ "${kib:-0}" -le $peak_kib ] || peak_kib=$kib
		done
		sleep 0.2
	done
	wait $train || { cat "$WORK/err" >&2; give_up "weir train of $1 failed"; }
}

printf '%8s %6s %14s %10s\n' MB cache 'peak MiB' samples/s
for mb in "${sizes_mb[@]}"; do
	{ echo $header; "$BUILD/weir" datagen --rows $((mb * 1000000 / ROW_BYTES)) --ids 1000000 --seed 1 --out /dev/stdout 2> "$WORK/err" | tr '\t' ','; } > "$WORK/rows.csv"
	for cache in off "$WORK/cache"; do
		name=$mb-${cache##*/}
		run_one "$name" "$cache"
		printf '%8s %6s %14s %10.0f\n' "$mb" "${cache##*/}" $((peak_kib / 1024)) "$(figure "$WORK/$name.json" samples_per_s)" | tee -a "$WORK/peaks"
		rm -rf "$WORK/$name" "$WORK/cache"
	done
done
read -r ok most spread <<< "$(awk -v most=$MOST_MIB -v spread=$SPREAD '
	{ p = $3; if (p > top) top = p; if (!($2 in low) || p < low[$2]) low[$2] = p; if (p > high[$2]) high[$2] = p }
	END { for (c in low) if (high[c] / low[c] - 1 > worst) worst = high[c] / low[c] - 1
	      print (top < most && worst <= spread && NR > 0), top, worst }' "$WORK/peaks")"
verdict "$ok" "a worker holds at most $most MiB ($MOST_MIB); over the sizes it differs by $(awk "BEGIN {printf \"%.1f\", 100 * $spread}") %"
