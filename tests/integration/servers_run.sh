# While servers started by hand run, no verb moves or deletes their folders: restore and train are
# refused and name the server. With the log in memory a server has no folder; then its address shows
# that it runs.
. "$(dirname "$0")/lib.sh"
write_job 1000 "log: disk"
echo "checkpoint: {dir: $DIR/checkpoints}" >> "$DIR/job.yaml"
start_train
wait_for 30 "the first rows" status ".rows >= 2000"
"$WEIR" checkpoint "$DIR/job.yaml" > "$DIR/out" 2> "$DIR/checkpoint.err" || fail "$(cat "$DIR/checkpoint.err")"
stop_train 20

servers=unix:$RUN/server-0.sock,unix:$RUN/server-1.sock
begin() { # begin [ARGUMENTS...]: both servers by hand
	for i in 0 1; do
		"$BUILD/weir-server" --job "$DIR/job.yaml" --index $i --servers $servers --ready-fd 3 "$@" 3> "$DIR/ready-$i" 2>> "$DIR/server.err" &
		eval "server_$i=$!"
		wait_for 20 "server $i" grep -q READY "$DIR/ready-$i"
	done
}
end() { kill -TERM "$server_0" "$server_1" && wait "$server_0" "$server_1"; }
# refused WORD -- VERB...
refused() {
	"$WEIR" "${@:3}" > "$DIR/out" 2> "$DIR/refused.err" < /dev/null && fail "weir $3 takes what a running server has"
	told "$1" "$DIR/refused.err"
	gone=$(comm -23 <(echo "$before") <(ls "$RUN"))
	[ -z "$gone" ] || fail "weir $3 took away $gone"
	kill -0 "$server_0" && kill -0 "$server_1" || fail "a server has ended"
}
uuid=$(json "$RUN/run.json" .uuid)
begin --uuid "$uuid"
before=$(ls "$RUN")
refused "server-0, pid $server_0" -- restore "$DIR/job.yaml" --from latest
refused "server-0, pid $server_0" -- train "$DIR/job.yaml" --fresh
refused "server-0, pid $server_0" -- train "$DIR/job.yaml" --resume
end
rm -r "$RUN"/server-[01]
begin --set cluster.log=memory
before=$(ls "$RUN")
refused "something answers at unix:$RUN/server-0.sock" -- restore "$DIR/job.yaml" --from latest --set cluster.log=memory
refused "something answers at unix:$RUN/server-0.sock" -- train "$DIR/job.yaml" --fresh --set cluster.log=memory
end
"$WEIR" restore "$DIR/job.yaml" --from latest > "$DIR/out" 2> "$DIR/restore.err" || fail "restore, once the servers have ended: $(cat "$DIR/restore.err")"
nothing_left
echo "restore and train were refused while servers ran, by folder and by address; restore works once they have ended"
