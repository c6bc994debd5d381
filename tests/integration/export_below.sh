# Exports include rows below memory. A synchronous job of one worker, with a memory budget that
# holds only a part of its table, exports the same as with all its rows in memory.
. "$(dirname "$0")/lib.sh"
write_job 1 "log: disk, flush_interval_ms: 500"

# export_under BUDGET NAME
export_under() {
	start_train --set cluster.servers=1 --set cluster.workers=1 --set "cluster.memory_budget=$1" --set model.dim=256 \
		--set tables.embedding.mode.kind=sync --set tables.dense.mode.kind=sync
	finish_train 300
	[ $STATUS = 0 ] || fail "exit status $STATUS with memory_budget $1"
	"$WEIR" export --job "$DIR/job.yaml" --set model.dim=256 --out "$DIR/$2" > /dev/null 2> "$DIR/export.err" || fail "weir export"
	rm -r "$RUN"
}

# rows FILE TENSOR BYTES: prints its rows of BYTES bytes, one per line, sorted.
rows() {
	local header offsets
	header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
	offsets=$(tail -c +9 "$1" | head -c "$header" | jq -r ".[\"$2\"].data_offsets | \"\\(.[0]) \\(.[1])\"")
	set -- "$1" "$3" $offsets
	tail -c +$((9 + header + $3)) "$1" | head -c $(($4 - $3)) | od -An -v -tx8 -w"$2" | LC_ALL=C sort
}

export_under 1GiB large
export_under 16MiB small
for tensor in embedding.keys:8 embedding.values:1024; do
	rows "$DIR/large" ${tensor%:*} ${tensor#*:} > "$DIR/large.rows"
	rows "$DIR/small" ${tensor%:*} ${tensor#*:} > "$DIR/small.rows"
	[ "$(wc -l < "$DIR/large.rows")" -gt 10000 ] || fail "$tensor has $(wc -l < "$DIR/large.rows") rows: they would fit the small budget"
	cmp -s "$DIR/large.rows" "$DIR/small.rows" || fail "$tensor differs"
done
nothing_left
