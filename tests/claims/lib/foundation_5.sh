# kill -9 of a server (log: memory): workers and `weir train` end within 10 s and name it and the
# remedy.
. tests/claims/lib/common.sh
need_programs
rounds=$(pick 1 3)
all=True
for round in $(seq 1 "$rounds"); do
	began=$(date +%s%N)
	WITHIN=10 bash tests/integration/server_killed.sh "$BUILD" > "$WORK/killed.log" 2>&1 || { cat "$WORK/killed.log"; all=False; }
	echo "round $round: $(tail -n 1 "$WORK/killed.log") the whole test took $((($(date +%s%N) - began) / 1000000)) ms"
done
verdict "$all" "ended within 10 s with a message that names the server and what to do, $rounds rounds"
