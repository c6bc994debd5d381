# weir tokenize: its output files, and its messages about files that it refuses.
. "$(dirname "$0")/lib.sh"
tokenize() { "$WEIR" tokenize --tokenizer bytes "$@" > "$DIR/out" 2> "$DIR/tokenize.err"; }

printf 'One file.\n' > "$DIR/one.txt"
printf '{"text": "a line"}\n{"text": 1}\n{"prompt": "2 + 2 = ", "completion": "4"}\n' > "$DIR/two.jsonl"
tokenize --out "$DIR/t.bin" --in "$DIR/one.txt" --in "$DIR/two.jsonl" || fail "weir tokenize: $(cat "$DIR/tokenize.err")"
grep -q '^[^ ]*/t.bin: 3 documents, 25 tokens (17 count in the loss) of a vocabulary of 256; [0-9]* bytes in 2 files, .*; 1 bad line left out$' "$DIR/out" || fail "said: $(cat "$DIR/out")"
grep -q 'two.jsonl:2.*neither "text"' "$DIR/tokenize.err" || fail "the bad line is not named: $(cat "$DIR/tokenize.err")"
[ "$(head -c 8 "$DIR/t.bin")" = WEIRTOKS ] || fail "no token file"
cp "$DIR/t.bin" "$DIR/first.bin"
tokenize --out "$DIR/t.bin" --threads 3 "$DIR"/one.txt "$DIR"/two.jsonl || fail "weir tokenize FILE..."
cmp -s "$DIR/t.bin" "$DIR/first.bin" || fail "the same files give another one"

# refused EXIT PATTERN ARGUMENTS...
refused() {
	local status=$1 pattern=$2
	shift 2
	tokenize "$@"
	[ $? = "$status" ] || fail "exit status of $*"
	tail -n 1 "$DIR/tokenize.err" | grep -q -- "$pattern" || fail "$*: said $(cat "$DIR/tokenize.err")"
}
refused 2 'needs --tokenizer' --out "$DIR/t.bin"
refused 2 '--chat is vicuna; expected' --out "$DIR/t.bin" --in "$DIR/one.txt" --chat vicuna
refused 1 '--eos is </s>, which is no token of bytes' --out "$DIR/t.bin" --in "$DIR/one.txt" --eos '</s>'
refused 1 'no data file matches' --out "$DIR/t.bin" --in "$DIR/three.txt"
refused 1 'more than 0 bad lines, the first at .*two.jsonl:2' --out "$DIR/t.bin" --in "$DIR/two.jsonl" --bad-lines-max 0
refused 1 'tokenizer.json: No such file' --tokenizer "$DIR" --out "$DIR/t.bin" --in "$DIR/one.txt"
echo '{"model": {"type": "Unigram"}}' > "$DIR/tokenizer.json"
refused 1 'tokenizer.json: model: its type is Unigram; only BPE is supported' --tokenizer "$DIR" --out "$DIR/t.bin" --in "$DIR/one.txt"
cmp -s "$DIR/t.bin" "$DIR/first.bin" || fail "a run that failed has changed the file"
[ -z "$(ls "$DIR" | grep tmp)" ] || fail "a run that failed has left a file"
