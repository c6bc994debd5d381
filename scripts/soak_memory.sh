#!/usr/bin/env bash
# soak_memory.sh SECONDS: one long job of many short passes. Its servers' and workers' own memory (RssAnon) must be flat once all rows are there: the most of the last third of the
# run is at most GROWTH_PERCENT and GROWTH_KIB above the most of the middle third. Prints both for each process; exits 0 where that holds.
set -u
cd "$(dirname "$0")/.."
seconds=$1
: "${GROWTH_PERCENT:=3}" "${GROWTH_KIB:=4096}"
folder=$(mktemp -d /tmp/weir-soak-XXXXXX)
train=
finish() {
	[ -z "$train" ] || kill -TERM "$train" 2> /dev/null
	[ -z "$train" ] || wait "$train"
	rm -rf "$folder"
}
trap finish EXIT

cat > "$folder/job.yaml" <<JOB
job: soak
cluster: {servers: 2, workers: 2, partitions: 8}
data: {generate: {rows: 20000, ids: 20000, seed: 3}, batch: 256, unit_batches: 4, shuffle: true, seed: 1}
model: {kind: deepfm, dim: 8, hidden: [64, 32]}
tables:
  embedding: {optimizer: {kind: adam, lr: 1.0e-4}}
  dense: {optimizer: {kind: adam, lr: 1.0e-4}}
train: {passes: 10000, seed: 1}
JOB
build/weir train "$folder/job.yaml" --set "run_dir=$folder/run" > "$folder/out" 2> "$folder/err" &
train=$!

# PROCESS KIB of each server and worker: those whose command lines name the folder
sample() {
	local p
	for p in $(pgrep -P "$train"); do
		awk -v p="$(tr '\0' ' ' < "/proc/$p/cmdline" 2> /dev/null | awk '{ sub(".*/", "", $1); print $1 }')-$p" '/^RssAnon/ { print p, $2 }' "/proc/$p/status" 2> /dev/null
	done
}
begin=$SECONDS
while [ $((SECONDS - begin)) -lt "$seconds" ]; do
	kill -0 "$train" 2> /dev/null || { tail -n 5 "$folder/err"; echo "the job ended before its time"; exit 1; }
	sample | sed "s/^/$(((SECONDS - begin) * 3 / seconds)) /" >> "$folder/samples"
	sleep 1
done
awk -v percent="$GROWTH_PERCENT" -v kib="$GROWTH_KIB" '
	$3 > most[$2, $1] { most[$2, $1] = $3 }
	{ seen[$2] = 1 }
	END {
		for (p in seen) {
			middle = most[p, 1]; last = most[p, 2]
			flat = middle > 0 && last > 0 && last <= middle * (1 + percent / 100) + kib
			printf "%s: %d KiB in the middle third, %d KiB in the last one%s\n", p, middle, last, flat ? "" : ": GROWS"
			failed += !flat
			count++
		}
		if (count < 4) print "only " count + 0 " processes were seen"
		exit failed || count < 4
	}' "$folder/samples"
