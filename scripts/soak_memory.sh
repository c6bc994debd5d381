#!/usr/bin/env bash
# soak_memory.sh SECONDS: one long job of many short passes. Its processes must not grow once all rows are there: the most of the last third of the run is at most GROWTH_PERCENT and GROWTH_KIB
# above the most of the middle third for their own memory (RssAnon), and at most GROWTH_FILES and GROWTH_THREADS for file descriptors and threads. Prints all three for each process that was there in all
# thirds, and the slopes through the last two; exits 0 where that holds.
# CHAOS=SEED: meanwhile server 1 or worker-1 is killed or stopped for some seconds, every CHAOS_EVERY seconds; logs are on disk then. Others outlive it, and are looked at.
set -u
cd "$(dirname "$0")/.."
seconds=$1
: "${GROWTH_PERCENT:=3}" "${GROWTH_KIB:=4096}" "${GROWTH_FILES:=2}" "${GROWTH_THREADS:=0}" "${CHAOS:=}" "${CHAOS_EVERY:=15}"
folder=$(mktemp -d /tmp/weir-soak-XXXXXX)
train= chaos=
finish() {
	[ -z "$chaos" ] || kill "$chaos" 2> /dev/null
	[ -z "$train" ] || kill -TERM "$train" 2> /dev/null
	[ -z "$train" ] || wait "$train"
	rm -rf "$folder"
}
trap finish EXIT

cat > "$folder/job.yaml" <<JOB
job: soak
cluster: {servers: 2, workers: 2, partitions: 8${CHAOS:+, log: disk, flush_interval_ms: 5000}}
data: {generate: {rows: 20000, ids: 20000, seed: 3}, batch: 256, unit_batches: 4, shuffle: true, seed: 1}
model: {kind: deepfm, dim: 8, hidden: [64, 32]}
tables:
  embedding: {optimizer: {kind: adam, lr: 1.0e-4}}
  dense: {optimizer: {kind: adam, lr: 1.0e-4}}
train: {passes: 100000, seed: 1}
JOB
build/weir train "$folder/job.yaml" --set "run_dir=$folder/run" > "$folder/out" 2> "$folder/err" &
train=$!

# NAME PID of weir itself and its servers and workers
processes() {
	local p words
	echo "weir $train"
	for p in $(pgrep -P "$train"); do
		words=$({ tr '\0' ' ' < "/proc/$p/cmdline"; } 2> /dev/null)
		case $words in
		*--index\ *) words=${words#*--index } && echo "server-${words%% *} $p" ;;
		*--name\ *) words=${words#*--name } && echo "${words%% *} $p" ;;
		esac
	done
}
# NAME-PID KIB FILES THREADS of each
sample() {
	local name p
	processes | while read -r name p; do
		awk -v p="$name-$p" -v files="$(ls "/proc/$p/fd" 2> /dev/null | wc -l)" '/^RssAnon/ { kib = $2 } /^Threads/ { print p, kib, files, $2 }' "/proc/$p/status" 2> /dev/null
	done
}
misfortunes() {
	local victim
	RANDOM=$CHAOS
	while sleep "$CHAOS_EVERY"; do
		victim=$(processes | awk -v who="$([ $((RANDOM % 2)) = 0 ] && echo server-1 || echo worker-1)" '$1 == who { print $2 }')
		[ -n "$victim" ] || continue
		if [ $((RANDOM % 3)) = 0 ]; then
			kill -STOP "$victim" 2> /dev/null && sleep 3 && kill -CONT "$victim" 2> /dev/null
		else
			kill -KILL "$victim" 2> /dev/null
		fi
		echo . >> "$folder/misfortunes"
	done
}
if [ -n "$CHAOS" ]; then
	misfortunes &
	chaos=$!
fi
begin=$SECONDS
while [ $((SECONDS - begin)) -lt "$seconds" ]; do
	kill -0 "$train" 2> /dev/null || { tail -n 5 "$folder/err"; echo "the job ended before its time"; exit 1; }
	sample | sed "s/^/$(((SECONDS - begin) * 3 / seconds)) $((SECONDS - begin)) /" >> "$folder/samples"
	sleep 1
done
[ -z "$CHAOS" ] || echo "$(wc -l < "$folder/misfortunes") times a process was killed or stopped; $(grep -c 'was killed by signal' "$folder/err") ends were noticed"
awk -v percent="$GROWTH_PERCENT" -v kib="$GROWTH_KIB" -v files="$GROWTH_FILES" -v threads="$GROWTH_THREADS" -v chaos="${CHAOS:+1}" '
	function note(what, value,   k) {
		k = $3 SUBSEP what
		if (value > most[k, $1]) most[k, $1] = value
		if ($1 < 1) return
		n[k]++; x[k] += $2; y[k] += value; xx[k] += $2 * $2; xy[k] += $2 * value
	}
	function slope(k,   d) { d = n[k] * xx[k] - x[k] * x[k]; return d ? 3600 * (n[k] * xy[k] - x[k] * y[k]) / d : 0 }
	function told(p, what, unit, room,   k, grows) {
		k = p SUBSEP what
		grows = most[k, 2] > most[k, 1] + room
		printf "%s%d to %d %s, slope %+.1f an hour%s", what == "kib" ? "" : "; ", most[k, 1], most[k, 2], unit, slope(k), grows ? " GROWS" : ""
		return grows
	}
	{ seen[$3] = 1; note("kib", $4); note("files", $5); note("threads", $6) }
	END {
		for (p in seen) {
			if (!most[p SUBSEP "kib", 0] || !most[p SUBSEP "kib", 1] || !most[p SUBSEP "kib", 2]) continue
			printf "%s: ", p
			failed += told(p, "kib", "KiB", most[p SUBSEP "kib", 1] * percent / 100 + kib) + told(p, "files", "descriptors", files) + told(p, "threads", "threads", threads)
			printf "\n"
			count++
		}
		if (count < (chaos ? 3 : 5)) print "only " count + 0 " processes were there all the time"
		exit failed || count < (chaos ? 3 : 5)
	}' "$folder/samples"
