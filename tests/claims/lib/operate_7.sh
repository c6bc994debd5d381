# Soak: two hours (QUICK: four minutes) of a job in which a server or a worker is killed or stopped
# every quarter of a minute. Memory, file descriptors and threads of the surviving processes do not
# grow from the middle third to the last. scripts/soak_memory.sh has the bounds and prints the
# slopes. `make soak-memory` is the same without kills.
. tests/claims/lib/common.sh
need_programs
seconds=$(pick 240 7200)
CHAOS=7 scripts/soak_memory.sh "$seconds" > "$WORK/soak.out" 2> "$WORK/soak.err" && grown=0 || grown=1
cat "$WORK/soak.out"
[ "$QUICK" = 1 ] && echo "shortened: $seconds s instead of 7200"
verdict "$grown == 0" "over $seconds s of misfortunes no process that was there all the time grew in memory, descriptors or threads"
