# etcd is stopped for a minute, then killed and started again: pushes go on, and the sums are exact. Every server is restarted in its turn under load. A server of
# another version of the wire is refused by the others, who say so and go on.
. tests/claims/lib/replicas.sh
pause=$(pick 15 60) units=$(pick 800 3000)
[ "$QUICK" = 1 ] && echo "QUICK: etcd stopped for $pause s instead of 60"
# The same program, of another version of the wire.
mkdir "$WORK/other"
git ls-files -z | tar --null -T - -cf - | tar -C "$WORK/other" -xf -
sed -i 's/^#define FRAME_VERSION .*/#define FRAME_VERSION 99/' "$WORK/other/proto/frame.h"
sed -i 's/^#define HEART_VERSION .*/#define HEART_VERSION 99u/' "$WORK/other/server/heart_format.h"
(cd "$WORK/other" && export CCACHE_BASEDIR="$WORK" CCACHE_NOHASHDIR=1 && cmake --preset release -B "$WORK/other-build" && cmake --build "$WORK/other-build" --target weir-server -j 2) > "$WORK/other.log" 2>&1 ||
	{ tail -n 5 "$WORK/other.log" >&2; give_up "the other version does not build"; }
begin_cluster pushes 3 2 disk
for i in 0 1 2; do start_worker $i "$units"; done
pushed() { status && figure "$RUN/status.json" bytes.pushed; }
more_than() { [ "$(pushed)" -gt "$1" ]; }
wait_for 60 "the first units" job_says ".committed > 0"

kill -STOP $ETCD
longest=0 before=$(pushed)
for ((until = SECONDS + pause; SECONDS < until;)); do
	at=$(pushed) start=$(date +%s%N)
	wait_for 30 "pushes while etcd is stopped" more_than "$at"
	ms=$((($(date +%s%N) - start) / 1000000))
	longest=$((ms > longest ? ms : longest))
done
while_stopped=$(($(pushed) - before))
job_says ".committed < $units - 10" || give_up "the job ended before etcd went on"
kill -CONT $ETCD
wait_for 60 "all replicas to be in sync" in_sync

connected() { cat "$RUN"/server-*.log | grep -c "coordinator connected"; }
all_connected() { [ "$(connected)" -ge $((times + 3)) ]; }
times=$(connected)
kill -KILL $ETCD
wait $ETCD 2> /dev/null
at=$(pushed)
wait_for 30 "pushes without etcd" more_than "$at"
start_etcd
wait_for 60 "all servers to reach etcd again" all_connected
wait_for 60 "all replicas to be in sync" in_sync

for i in 0 1 2; do # a rolling restart
	kill -TERM "${SERVER[$i]}"
	wait "${SERVER[$i]}" || give_up "server $i ended with status $?"
	start_server $i
	wait_for 60 "all replicas to be in sync" in_sync
done

kill -TERM "${SERVER[2]}"
wait "${SERVER[2]}" || give_up "server 2 ended with status $?"
"$WORK/other-build/weir-server" --job "$RUN/job.yaml" --index 2 --servers "$LIST" 2> "$RUN/other.log" &
SERVER[2]=$!
refused() { grep -hq "version 99\|version: 99" "$RUN"/server-*.log; }
wait_for 60 "the other version to be refused" refused
message=$(grep -h "version 99\|version: 99" "$RUN"/server-*.log | head -n 1 | sed 's/^[^ ]* *//')
at=$(pushed)
job_says ".committed < $units - 10" || give_up "the job ended before the other version was refused"
wait_for 60 "pushes beside a server of another version" more_than "$at"
kill_server 2
start_server 2
wait_for 60 "all replicas to be in sync" in_sync
finish_workers
exact=0
exact_sums "$units" || exact=1
echo "the other version: $message"
verdict "$exact == 0 and $while_stopped > 0 and $longest <= 5000" \
	"$while_stopped bytes pushed in $pause s without etcd, the longest pause $longest ms; etcd killed and started again; three servers restarted in turn; sums exact"
