# A tokenizer accepts a "dropout" of 0.0, 0 or null, and refuses any other number by name.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/model_folder.bash"
tokenize() { # tokenize DROPOUT
	mkdir -p "$DIR/t"
	echo "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"BPE\", \"dropout\": $1, \"unk_token\": null, \"vocab\": {\"o\": 0, \"n\": 1, \"on\": 2}, \"merges\": [\"o n\"]}}" > "$DIR/t/tokenizer.json"
	"$WEIR" tokenize --tokenizer "$DIR/t" --in "$DIR/in.txt" --out "$DIR/$1.bin" > "$DIR/out" 2> "$DIR/use.err"
}
printf 'onnoon' > "$DIR/in.txt"
for none in 0 0.0 -0.0 null; do
	tokenize "$none" || fail "$none: $(cat "$DIR/use.err")"
	cmp <(tail -c 8 "$DIR/$none.bin") <(tail -c 8 "$DIR/0.bin") || fail "$none gives other tokens"
	grep -q ' 4 tokens' "$DIR/out" || fail "$(cat "$DIR/out")"
done
for some in 0.1 1.0 -0.5; do
	tokenize "$some" && fail "$some is taken"
	told tokenizer.json '"dropout"' "$DIR/use.err"
done
