# A text ends at every token of eos_token_id in generation_config.json, or else in config.json.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/model_folder.bash"
# Greedy decoding by transformers gives 128 181 95 62 187 61 180 64 47 29 43 108 after "the cat".
make 'llama("a", eos_token_id=None); byte_tokenizer("a")'
ends() { # ends TOKENS WHY [KEY=VALUE of config.json] [generation_config.json]
	local config=${3:-} generation=${4:-}
	make "llama('a', ${config:-eos_token_id=None})"
	rm -f "$DIR/a/generation_config.json"
	[ -z "$generation" ] || echo "$generation" > "$DIR/a/generation_config.json"
	"$WEIR" generate "$DIR/a" --prompt "the cat" --max-tokens 12 --temperature 0 > "$DIR/said" 2> "$DIR/said.err" || fail "weir generate: $(cat "$DIR/said.err")"
	grep -q "7 tokens of the prompt, $1 more: $2" "$DIR/said.err" || fail "$config $generation: $(cat "$DIR/said.err")"
	echo "$config $generation: $(tail -n 1 "$DIR/said.err")"
}
ends 12 --max-tokens
ends 3 "the text is at its end" 'eos_token_id=[2, 62]'
ends 3 "the text is at its end" 'eos_token_id=62'
ends 4 "the text is at its end" 'eos_token_id=62' '{"eos_token_id": [2, 187]}'
ends 2 "the text is at its end" 'eos_token_id=2' '{"eos_token_id": [187, 95, 61]}'
ends 4 "the text is at its end" 'eos_token_id=62' '{"eos_token_id": 187}'
ends 5 "the text is at its end" 'eos_token_id=2' '{"eos_token_id": [-1, 999999, 61.0]}'
ends 12 --max-tokens 'eos_token_id=62' '{"bos_token_id": 1}' # the one file counts, or the other
ends 3 "the text is at its end" 'eos_token_id=62' '{"eos_token_id": [62], "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.0}'
grep -q "does not do" "$DIR/said.err" && fail "$(cat "$DIR/said.err")"
ends 3 "the text is at its end" 'eos_token_id=2' '{"eos_token_id": [62], "repetition_penalty": 1.3, "min_new_tokens": 5}'
grep -q "generation_config.json has min_new_tokens, repetition_penalty, which weir generate does not do" "$DIR/said.err" || fail "$(cat "$DIR/said.err")"
# The sampling settings of the model's makers are reported, unless the user gives others.
echo '{"eos_token_id": 62, "do_sample": true, "temperature": 0.6, "top_p": 0.9}' > "$DIR/a/generation_config.json"
"$WEIR" generate "$DIR/a" --prompt "the cat" --max-tokens 2 > "$DIR/said" 2> "$DIR/said.err" || fail "weir generate: $(cat "$DIR/said.err")"
grep -q "has do_sample true, temperature 0.6, top_p 0.9, .* alone: they are 0.8, 0 and 1" "$DIR/said.err" || fail "$(cat "$DIR/said.err")"
ends 3 "the text is at its end" 'eos_token_id=2' '{"eos_token_id": [62], "do_sample": true, "temperature": 0.6}'
grep -q do_sample "$DIR/said.err" && fail "$(cat "$DIR/said.err")"
echo '{"eos_token_id": "62"}' > "$DIR/a/generation_config.json"
refused generation_config.json "eos_token_id is neither" -- generate "$DIR/a" --prompt "the cat"
rm "$DIR/a/generation_config.json"

# A job's texts also end there.
make "llama('a', eos_token_id=[2, 62])"
write_model_job llama a
"$WEIR" generate "$DIR/job.yaml" --weights "$DIR/a" --prompt "the cat" --tokenizer "$DIR/a" --max-tokens 12 --temperature 0 > "$DIR/said" 2> "$DIR/said.err" || fail "weir generate: $(cat "$DIR/said.err")"
grep -q "3 more: the text is at its end" "$DIR/said.err" || fail "$(cat "$DIR/said.err")"
