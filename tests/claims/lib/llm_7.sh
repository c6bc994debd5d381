# Tokenizers: on 10,000 hostile Unicode strings, `weir tokenize` gives the ids of Hugging Face's
# tokenizers library, for a tokenizer.json like GPT-2's, Llama 2's, Llama 3's, and one with unknown
# tokens and every option of added tokens. Decoding the ids gives its texts.
. tests/claims/lib/common.sh
need_python tokenizers
need_programs
need_tests test_tokenizer_parity
STRINGS=$(pick 1000 10000)
"$PYTHON" tests/parity/make_tokenizers.py "$WORK/made" --strings "$STRINGS" > "$WORK/made.log" || give_up "the tokenizers cannot be made: $(cat "$WORK/made.log")"
say "$(cat "$WORK/made.log")"
equal=0
for name in gpt2 llama2 llama3 metaspace; do
	"$BUILD/weir" tokenize --tokenizer "$WORK/made/$name.json" --in "$WORK/made/strings.jsonl" --out "$WORK/$name.bin" --eos none || give_up "weir tokenize failed"
	PYTHONPATH=tests/parity PYTHONDONTWRITEBYTECODE=1 "$PYTHON" - "$WORK" "$name" <<-'EOF' && equal=$((equal + 1))
		import json, sys
		import read_tokens
		work, name = sys.argv[1:]
		texts = [json.loads(line)["text"] for line in open(f"{work}/made/strings.jsonl")]
		wanted = json.load(open(f"{work}/made/{name}.ids.json"))["ids"]
		wanted = [ids for text, ids in zip(texts, wanted) if text and ids]  # a text without tokens gives no document
		header, documents = read_tokens.read(f"{work}/{name}.bin")
		got = [[i for i, _ in d] for d in documents]
		wrong = [k for k in range(max(len(got), len(wanted))) if k >= len(got) or k >= len(wanted) or got[k] != wanted[k]]
		print(f"{name}: {len(texts)} strings, {len(wanted)} with tokens, {header['tokens']} tokens, {len(wrong)} strings differ" + (f", the first: {wrong[0]}" if wrong else ""))
		sys.exit(bool(wrong))
	EOF
done
"$BUILD/tests/test_tokenizer_parity" "$WORK/made" > "$WORK/decoded.log" 2>&1
decoded=$?
[ $decoded = 0 ] || say "$(cat "$WORK/decoded.log")"
echo "decoding: $([ $decoded = 0 ] && echo "every string as Hugging Face's library decodes it" || echo "differs")"
verdict "$equal == 4 and $decoded == 0" "$STRINGS strings have the same ids, by four tokenizers, and come back the same"
