# A byte order mark is not part of the first record. Records in the forms of ShareGPT, Alpaca and
# content parts, and JSON arrays, are read. If no record is valid, weir tokenize fails and leaves no
# file.
. "$(dirname "$0")/../integration/lib.sh"
cd "$DIR" || exit 1
tokenize() { "$WEIR" tokenize --tokenizer bytes --out o.bin "$@" > tokenize.out 2> tokenize.err; }
# counts FILE DOCUMENTS TOKENS ARGUMENTS...
counts() {
	tokenize --in "$1" "${@:4}" || fail "$1 is not taken"
	grep -q "o.bin: $2 documents\?, $3 tokens" tokenize.out || fail "$1: not $2 documents of $3 tokens: $(cat tokenize.out)"
}
: > empty.jsonl
# nothing WORDS... -- ARGUMENTS...: refused, and no file is left.
nothing() {
	local words=()
	while [ "$1" != -- ]; do words+=("$1") && shift; done
	rm -f o.bin
	tokenize "${@:2}" && fail "${*:2}: exit status 0"
	told "${words[@]}" tokenize.err
	[ -z "$(find . -name 'o.bin*')" ] || fail "a file without tokens is left: $(ls)"
}
printf '\357\273\277{"text": "three"}\n{"text": "two"}\r\n' > bom.jsonl
counts bom.jsonl 2 8
gzip -k bom.jsonl
counts bom.jsonl.gz 2 8
printf '\357\273\277text\n' > bom.txt
counts bom.txt 1 5
echo '{"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]}' > sharegpt.jsonl
echo '{"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "content": "hello"}]}' > parts.jsonl
echo '{"instruction": "hi", "input": "", "output": "hello"}' > alpaca.jsonl
# <|im_start|>user, hi<|im_end|>, <|im_start|>assistant, hello<|im_end|>, each followed by a newline
for f in sharegpt parts alpaca; do
	counts $f.jsonl 1 68 --chat chatml
	nothing "1 bad line, the first at $f.jsonl:1" "no chat format" -- --in $f.jsonl
done
{ echo "["; cat sharegpt.jsonl parts.jsonl alpaca.jsonl | paste -sd,; echo "]"; } > array.json
counts array.json 3 204 --chat chatml
cp array.json array.txt
nothing "array.txt begins as a JSON array of records" "--format jsonl" -- --in array.txt --chat chatml
counts array.txt 3 204 --chat chatml --format jsonl
counts array.txt 1 "$(wc -c < array.txt)" --format text
echo '{"messages": [{"role": "observer", "content": "hi"}]}' > role.jsonl
echo '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [{}]}]}' > tool.jsonl
nothing "role.jsonl:1" '"observer"' -- --in role.jsonl --chat chatml
nothing "tool.jsonl:1" '"tool_calls"' -- --in tool.jsonl --chat chatml
nothing "there is no text in empty.jsonl" -- --in empty.jsonl
echo "a mark, other forms and arrays are taken, nothing left is an error"
