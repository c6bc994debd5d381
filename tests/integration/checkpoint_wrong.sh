# Unusable checkpoints: damaged, truncated, of a newer version, missing, of a running job. Each is
# refused with a sentence that names the file and the remedy, and nothing changes.
. "$(dirname "$0")/lib.sh"
write_job 30
start_train
wait_for 60 "the first rows" status ".rows >= 10000"
"$WEIR" checkpoint --job "$DIR/job.yaml" > "$DIR/first.out" || fail "no checkpoint"
CK=$RUN/checkpoints
NAME=$(basename "$CK"/ck-*.json .json)

# refused WORDS... -- COMMAND...: fails with all the words in its last line, and changes no byte in
# the folders KEPT.
KEPT=("$CK" "$RUN/run.json") # the job trains meanwhile
refused() {
	local words=() before
	while [ "$1" != -- ]; do words+=("$1"); shift; done
	shift
	before=$(files "${KEPT[@]}")
	[ -n "$before" ] || fail "no files in ${KEPT[*]}"
	"$@" > "$DIR/out" 2> "$DIR/out.err" && fail "accepted: $*"
	told "${words[@]}" "$DIR/out.err"
	[ "$before" = "$(files "${KEPT[@]}")" ] || fail "something was changed by: $*"
}
restore() { "$WEIR" restore "$DIR/job.yaml" --from "$@"; }

refused "\`weir train\`" "runs in $RUN" "stop it" -- restore latest
kill -TERM "$TRAIN"
finish_train 30
told "stopped by Terminated" "weir restore --from latest" "$NAME" "weir train --resume" "$DIR/train.err"
KEPT=("$RUN")

refused "holds no checkpoint 'ck-nothing'" "$NAME" -- restore ck-nothing
refused "holds no checkpoint" -- restore latest --set "checkpoint.dir=$DIR/nowhere"
refused "set cluster.partitions to 8" -- restore latest --set cluster.partitions=4
refused "width 8" "model.dim is 4" "set model.dim to 8" -- restore latest --set model.dim=4

rows=$(find "$CK" -name '*.p0003.rows')
cp "$rows" "$DIR/kept"
size=$(stat -c %s "$rows")
printf '\x55' | dd of="$rows" bs=1 seek=$((size / 2)) conv=notrunc status=none
refused p0003.rows "damaged at byte" "another checkpoint" -- restore latest
refused p0003.rows damaged -- "$WEIR" checkpoint verify "$DIR/job.yaml"
head -c $((size / 3)) "$DIR/kept" > "$rows"
refused p0003.rows "cut short" -- restore latest
rm "$rows"
refused p0003.rows -- restore latest
cp "$(find "$CK" -name '*.p0004.rows')" "$rows" # undamaged, but of another partition
refused p0003.rows -- restore latest
cp "$DIR/kept" "$rows"

cp "$CK/$NAME.json" "$DIR/manifest"
sed 's/"weir_checkpoint": 1/"weir_checkpoint": 2/' "$DIR/manifest" > "$CK/$NAME.json"
refused "$NAME.json" "newer Weir" -- restore latest
sed 's/"step": /"step": 1/' "$DIR/manifest" > "$CK/$NAME.json"
refused "$NAME.json" "checksum" -- restore latest
head -c 500 "$DIR/manifest" > "$CK/$NAME.json"
refused "$NAME.json" "damaged" -- restore latest
cp "$DIR/manifest" "$CK/$NAME.json"
restore latest > "$DIR/out" 2> "$DIR/out.err" || fail "the whole one is refused: $(tail -n 1 "$DIR/out.err")"

# A restore is interrupted after moving one server's folder. No server starts empty, and the restore
# can be repeated.
mkdir -p "$RUN/server-0" "$RUN/server-1" "$RUN/before-g3/server-1"
restore latest > "$DIR/out" 2> "$DIR/out.err" && fail "restored over $RUN/before-g3"
told "before-g3/server-1 is there already" "$DIR/out.err"
[ ! -e "$RUN/server-0" ] && [ -e "$RUN/server-1" ] || fail "moved otherwise: $(ls "$RUN")"
holds "$RUN/run.json" '.generation == 3 and .restore != ""'
restore latest > "$DIR/out" 2> "$DIR/out.err" || fail "not restored again: $(tail -n 1 "$DIR/out.err")"
holds "$RUN/run.json" '.generation == 4'

# An unfinished checkpoint has no manifest, so it does not exist.
rm "$CK/$NAME.json"
refused "holds no checkpoint" -- restore latest
nothing_left
