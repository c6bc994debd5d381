# A checkpoint of one run begins another one, at another rate and on another number of servers. What
# a fork cannot change is refused by name, and leaves nothing behind.
. "$(dirname "$0")/lib.sh"
write_job 2
"$WEIR" train "$DIR/job.yaml" --checkpoint-at-end --report "$DIR/first.json" > "$DIR/train.out" 2> "$DIR/train.err" < /dev/null ||
	fail "the first run: $(tail -n 3 "$DIR/train.err")"
grep -q "has the end of this run" "$DIR/train.err" || fail "no word of the checkpoint: $(cat "$DIR/train.err")"
holds "$DIR/first.json" '.finished and .audit.ok and .checkpoints.written == 1'

OTHER=(--set run_dir="$DIR/other" --set cluster.servers=1 --set train.passes=4
	--set tables.embedding.optimizer.lr=1.0e-3 --set tables.dense.optimizer.lr=2.0e-3)
refused() { # refused WORDS... -- ARGUMENTS...
	local words=()
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	"$WEIR" checkpoint fork "$DIR/job.yaml" "$@" > "$DIR/fork.out" 2> "$DIR/fork.err" && fail "forked: $*"
	told "${words[@]}" "$DIR/fork.err"
	[ ! -e "$DIR/other" ] || fail "a refused fork left $(ls "$DIR/other")"
}
refused --from -- "${OTHER[@]}"
refused "own place" -- --from "$RUN/checkpoints"
refused model.dim -- --from "$RUN/checkpoints" "${OTHER[@]}" --set model.dim=4
refused tables.dense.optimizer.kind -- --from "$RUN/checkpoints" "${OTHER[@]}" --set tables.dense.optimizer.kind=sgd

"$WEIR" checkpoint fork "$DIR/job.yaml" --from "$RUN/checkpoints" "${OTHER[@]}" > "$DIR/fork.out" 2> "$DIR/fork.err" ||
	fail "no fork: $(cat "$DIR/fork.err")"
"$WEIR" checkpoint verify "$DIR/job.yaml" "${OTHER[@]}" > "$DIR/verify.out" 2>&1 || fail "not whole: $(cat "$DIR/verify.out")"
"$WEIR" restore "$DIR/job.yaml" --from latest "${OTHER[@]}" > "$DIR/restore.out" 2> "$DIR/restore.err" || fail "no restore: $(cat "$DIR/restore.err")"
"$WEIR" train "$DIR/job.yaml" --resume "${OTHER[@]}" --report "$DIR/second.json" > "$DIR/train.out" 2> "$DIR/train.err" < /dev/null ||
	fail "the fork does not train: $(tail -n 3 "$DIR/train.err")"
holds "$DIR/second.json" '.finished and .audit.ok and ([.passes[].pass] == [3, 4])'
holds "$DIR/second.json" '[.tables[].learning_rate | . * 1e6 | round] | sort | unique == [1000, 2000]'
[ "$(json "$DIR/second.json" .rows)" = $((2 * $(json "$DIR/first.json" .rows))) ] || fail "not each pass once: $(json "$DIR/second.json" .rows) rows"
nothing_left
