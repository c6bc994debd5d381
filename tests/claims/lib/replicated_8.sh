# etcd is stopped for a minute, then killed and restarted: pushes continue, and the sums are exact.
# Every server is restarted in turn under load. The others refuse a server with another wire
# version, log it, and continue.
. tests/claims/lib/replicas.sh
pause=$(pick 15 60) units=${UNITS:-$(pick 800 3000)}
[ "$QUICK" = 1 ] && echo "QUICK: etcd stopped for $pause s instead of 60"

# The same program with another wire version: the objects that contain the version are linked before
# all others.
commands() { ninja -C "$BUILD" -t commands weir-server; }
other_object() { # other_object FILE MACRO: compiled with the macro set to 99
	local command
	mkdir -p "$WORK/other/${1%/*}"
	cp "$ROOT/$1.c" "$ROOT/$1.h" "$WORK/other/${1%/*}"
	sed -i "s/^#define $2 .*/#define $2 99u/" "$WORK/other/$1.h"
	command=$(commands | grep -- " -c $ROOT/$1\.c\$" | head -n 1)
	command=${command/ -iquote/ -iquote $WORK/other -iquote}
	(cd "$BUILD" && eval "${command%% -MD *} -o $WORK/other/$1.o -c $WORK/other/$1.c") || give_up "$1.c of another version does not compile"
}
mkdir "$WORK/other"
other_object proto/frame/frame FRAME_VERSION
other_object server/cluster/heartbeat_format HEARTBEAT_VERSION
(cd "$BUILD" && eval "$(commands | tail -n 1 | sed "s| -o weir-server | $WORK/other/proto/frame/frame.o $WORK/other/server/cluster/heartbeat_format.o -o $WORK/other/weir-server |")") ||
	give_up "the other version does not link"

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
job_says ".committed < $units - 10" || give_up "the job ended before etcd went on: give UNITS, more than $units"
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
"$WORK/other/weir-server" --job "$RUN/job.yaml" --index 2 --servers "$LIST" 2> "$RUN/other.log" &
SERVER[2]=$!
refused() { grep -hq "version 99\|version: 99" "$RUN"/server-*.log; }
wait_for 60 "the other version to be refused" refused
message=$(grep -h "version 99\|version: 99" "$RUN"/server-*.log | head -n 1 | sed 's/^[^ ]* *//')
at=$(pushed)
job_says ".committed < $units - 10" || give_up "the job ended before the other version was refused: give UNITS, more than $units"
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
