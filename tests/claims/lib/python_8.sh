# Python programs that end in any way leave nothing behind: at the interpreter's exit without close,
# by an exception, sys.exit, os._exit, Ctrl-C in a wait, kill -9, by collected handles, and by forks
# that outlive their parent (python/tests/test_citizen.py). They run in namespaces of their own,
# where no process, socket or shared memory may be left at the end. The package loads beside current
# releases of grpcio, pyarrow and PyTorch, in both orders.
. tests/claims/lib/python.sh
need_wheel
need_namespaces
others=(grpcio pyarrow)
[ "$QUICK" = 1 ] && echo "QUICK: without PyTorch" || others+=(torch)
environment "$(pythons | tail -n 1 | cut -d ' ' -f 2)" "$WORK/environment" "${others[@]}"
cat > "$WORK/inside.sh" <<'SH'
mount -t tmpfs tmpfs /dev/shm && ip link set lo up || exit 77
cd "$1/python/tests" && PYTHONDONTWRITEBYTECODE=1 "$2" -m unittest -v test_citizen.py test_scan.py 2>&1 || exit 1
for i in $(seq 50); do # the last processes may still be ending
	left=$(ps -e -o pid=,comm= | grep -vE ' (bash|ps|grep|sleep|seq|timeout)$')
	[ -z "$left" ] && break
	sleep 0.1
done
echo "processes left: $(echo "$left" | grep -c .)"
echo "sockets left: $(ss -Hax | grep -c weir) of Unix, $(ss -Htuan | grep -vc TIME-WAIT) of TCP and UDP"
echo "files in /dev/shm: $(find /dev/shm -mindepth 1 | wc -l)"
[ -z "$left" ] && [ "$(ss -Hax | grep -c weir)" = 0 ] && [ "$(ss -Htuan | grep -vc TIME-WAIT)" = 0 ] && [ -z "$(find /dev/shm -mindepth 1)" ]
SH
unshare --map-root-user --net --ipc --mount --pid --fork --mount-proc bash "$WORK/inside.sh" "$ROOT" "$WORK/environment/bin/python" > "$WORK/inside.log"
case $? in
0) holds=True ;;
77) skip "a namespace of its own has no /dev/shm or no loopback here" ;;
*) holds=False ;;
esac
cat "$WORK/inside.log"
verdict "$holds" "no process, socket or shared memory is left, however a program ends, beside ${others[*]}"
