# A port in use: the server, its address and the reason are named. Free ports (HOST:0) work.
. "$(dirname "$0")/lib.sh"
write_job 1
"$BUILD/weir-server" --job "$DIR/job.yaml" --set run_dir="$DIR/other" --set cluster.servers=1 --index 0 --listen 127.0.0.1:0 \
	--servers 127.0.0.1:0 --ready-fd 3 3> "$DIR/ready" 2> "$DIR/holder.err" &
holder=$!
wait_for 10 "a taken port" grep -q READY "$DIR/ready"
port=$(sed 's/.*://' "$DIR/ready")
start_train --set cluster.listen=127.0.0.1:$port --set cluster.servers=1
finish_train 20
kill $holder
wait $holder 2> /dev/null
[ $STATUS = 1 ] || fail "exit status $STATUS"
grep -q "127.0.0.1:$port" "$DIR/train.err" || fail "the address is not named"
grep -q "server-0" "$DIR/train.err" || fail "the server is not named"
nothing_left

start_train --set cluster.listen=127.0.0.1:0
finish_train 100
[ $STATUS = 0 ] || fail "exit status $STATUS with free ports"
audited
nothing_left
