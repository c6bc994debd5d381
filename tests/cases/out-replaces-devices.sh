# Output goes into a device or a FIFO, through a symbolic link, and to stdout as "-". None of them
# becomes a regular file.
. "$(dirname "$0")/../integration/lib.sh"

export TMPDIR=$DIR/tmp
mkdir "$TMPDIR"
write_job 1
ln -s report.json "$DIR/report.link"
"$WEIR" train "$DIR/job.yaml" --report "$DIR/report.link" > "$DIR/train.out" 2> "$DIR/train.err" || fail "weir train"
[ -L "$DIR/report.link" ] && [ "$(json "$DIR/report.json" .finished)" = true ] || fail "train --report replaced a link"
echo "the cat sat on the mat" > "$DIR/text.txt"

# verb OUT: writes the output of that verb. The same bytes as in a regular file must arrive.
predict() { "$WEIR" predict "$DIR/job.yaml" --out "$1"; }
export_() { "$WEIR" export "$DIR/job.yaml" --out "$1"; }
datagen() { "$WEIR" datagen --rows 100 --ids 13312 --seed 4 --out "$1"; }
tokenize() { "$WEIR" tokenize --tokenizer bytes --in "$DIR/text.txt" --out "$1"; }
merge() { "$WEIR" merge --method linear "$RUN/best.safetensors" "$RUN/best.safetensors" --out "$1"; }

same() { cmp -s "$DIR/want" "$1" || fail "$verb: $2 has other bytes ($(wc -c < "$1") of $(wc -c < "$DIR/want"))"; }

for verb in predict export_ datagen tokenize merge; do
	$verb "$DIR/want" > "$DIR/words" 2> "$DIR/verb.err" || fail "$verb into a file"
	[ -s "$DIR/want" ] && [ -s "$DIR/words" ] || fail "$verb into a file wrote nothing"

	ln -s target "$DIR/link" # first to nothing, then to a file
	for i in 1 2; do $verb "$DIR/link" > /dev/null 2> "$DIR/verb.err" || fail "$verb through a link"; done
	[ -L "$DIR/link" ] || fail "$verb replaced a symbolic link"
	same "$DIR/target" "a link's target"

	mkfifo "$DIR/fifo"
	cat "$DIR/fifo" > "$DIR/got" &
	$verb "$DIR/fifo" > /dev/null 2> "$DIR/verb.err" || fail "$verb into a FIFO"
	wait $!
	[ -p "$DIR/fifo" ] || fail "$verb replaced a FIFO"
	same "$DIR/got" "a FIFO"

	$verb - 2> "$DIR/verb.err" | cat > "$DIR/got"
	same "$DIR/got" "stdout by -"
	[ -s "$DIR/verb.err" ] || fail "$verb says nothing on stderr"
	$verb /dev/stdout > "$DIR/got" 2> /dev/null || fail "$verb into /dev/stdout"
	same "$DIR/got" "/dev/stdout of a file"

	if mknod "$DIR/null" c 1 3 2> /dev/null && : > "$DIR/null"; then
		$verb "$DIR/null" > /dev/null 2> "$DIR/verb.err" || fail "$verb into a device"
		[ -c "$DIR/null" ] || fail "$verb replaced a device"
	fi
	$verb /dev/full > /dev/null 2> "$DIR/verb.err" && fail "$verb into a full device"
	told "cannot write /dev/full" "$DIR/verb.err"
	rm -f "$DIR/link" "$DIR/target" "$DIR/fifo" "$DIR/null" "$DIR/want" "$DIR"/want.*
done

"$WEIR" train "$DIR/job.yaml" --fresh --report - 2> "$DIR/train.err" > "$DIR/report.json" || fail "weir train --report -"
[ "$(json "$DIR/report.json" .finished)" = true ] || fail "--report - writes more than the report to stdout"
[ -z "$(ls "$TMPDIR")" ] || fail "a temporary folder is left"
# The output is lost.
for verb in help "help train" "train --help" "bench --help" version "runs $DIR" "runs $DIR --json" "eval $DIR/job.yaml --json" "eval $DIR/job.yaml" "check $DIR/job.yaml"; do
	"$WEIR" $verb > /dev/full 2> "$DIR/verb.err" && fail "weir $verb prints onto a full device"
	told "cannot write stdout" "$DIR/verb.err"
done
echo "five verbs and the report: through links, into FIFOs, devices and stdout, with the same bytes"
