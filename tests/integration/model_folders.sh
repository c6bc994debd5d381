# Model folders as people have them: several files of weights, names with and without a prefix, tied
# heads, old and new words in config.json. Each gives the loss of transformers, or is refused with
# the key.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../cases/model_folder.bash"
write_model_job llama m
m() { rm -rf "$DIR/m" && make "llama('m', $1)"; }

# A single file wins over an index beside it; the index alone; neither of the other kinds.
make 'llama("b", seed="b"); shards("b")'
m ''
cp "$DIR"/b/model-* "$DIR/b/model.safetensors.index.json" "$DIR/m"
cp "$DIR/m/model.safetensors" "$DIR/m/consolidated.safetensors"
echo "no weights" > "$DIR/m/pytorch_model.bin"
loss_is 6.159020 --weights "$DIR/m"
rm "$DIR/m/model.safetensors"
loss_is 6.043515 --weights "$DIR/m"
rm "$DIR/m"/model*safetensors*
refused pytorch_model.bin convert save_pretrained -- eval "$DIR/job.yaml" --weights "$DIR/m"
rm "$DIR/m/pytorch_model.bin"
refused consolidated.safetensors save_pretrained -- eval "$DIR/job.yaml" --weights "$DIR/m"
rm "$DIR/m/consolidated.safetensors"
refused "no model.safetensors" -- eval "$DIR/job.yaml" --weights "$DIR/m"
m ''
echo '{"peft_type": "LORA"}' > "$DIR/m/adapter_config.json"
refused model.from adapter_config.json model.lora.from -- eval "$DIR/job.yaml" --weights "$DIR/b"
rm "$DIR/m/adapter_config.json"
mkdir "$DIR/adapters"
echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4}' > "$DIR/adapters/adapter_config.json"
echo "no weights" > "$DIR/adapters/adapter_model.bin"
refused adapter_model.bin convert -- eval "$DIR/job.yaml" --set "model.lora.from=$DIR/adapters" --weights "$DIR/adapters"

# The values of transformers for the same config.json, in any wording.
taken() { # taken LOSS KEYS
	m "$2"
	loss_is "$1" --weights "$DIR/m"
}
THETA=6.154168 LINEAR=6.161438
taken $THETA 'rope_theta=500.0'
taken $THETA 'rope_theta=500, rope_scaling=None, rope_parameters={}'
taken $THETA 'rope_theta=..., rope_parameters={"rope_type": "default", "rope_theta": 500.0}'
taken $THETA 'rope_theta=..., rope_scaling={"type": "default", "rope_theta": 500.0}'
taken $LINEAR 'rope_theta=..., rope_scaling={"type": "linear", "factor": 2}'
taken $LINEAR 'rope_scaling={"type": "linear", "rope_type": "linear", "factor": 2.0}, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}'
taken 6.159020 'num_key_value_heads=..., head_dim=None, hidden_act=..., rms_norm_eps=..., rope_theta=..., sliding_window=None, quantization_config=None, pretraining_tp=2, layer_types=["full_attention", "full_attention"], logit_scale=1.0, partial_rotary_factor=1, attention_dropout=0.1, unheard_of={"a": [1]}'

while IFS='|' read -r key keys; do
	m "$keys"
	refused config.json "$key" -- eval "$DIR/job.yaml" --weights "$DIR/m"
done <<-'KEYS'
	rope_scaling is not what rope_parameters says|rope_scaling={"type": "linear", "factor": 4}, rope_parameters={"rope_type": "linear", "factor": 2}
	rope_parameters.rope_theta is not what the rope_theta beside|rope_parameters={"rope_type": "default", "rope_theta": 500.0}
	rope_scaling is of type 'yarn'|rope_scaling={"rope_type": "yarn", "factor": 2.0}
	rope_scaling is of type 'dynamic'|rope_scaling={"type": "dynamic", "factor": 2.0}
	rope_parameters is of type 'longrope'|rope_parameters={"rope_type": "longrope", "factor": 2.0}
	rope_scaling.rope_type is missing|rope_scaling={"factor": 2.0}
	rope_scaling.rope_type is not what its type says|rope_scaling={"rope_type": "default", "type": "linear", "factor": 2.0}
	partial_rotary_factor is 0.5|partial_rotary_factor=0.5
	rope_parameters.partial_rotary_factor|rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.25}
	sliding_window is 8|sliding_window=8
	layer_types|layer_types=["full_attention", "sliding_attention"]
	quantization_config|quantization_config={"quant_method": "gptq", "bits": 4}
	final_logit_softcapping is 30|final_logit_softcapping=30.0
	attn_logit_softcapping is 50|attn_logit_softcapping=50.0
	hidden_act is 'gelu'|hidden_act="gelu"
	logit_scale is 2|logit_scale=2
	transformers_weights|transformers_weights="other.safetensors"
	rms_norm_eps is 0|rms_norm_eps=0.0
	num_key_value_heads is 0|num_key_value_heads=0
	model_type is 'mistral'|model_type="mistral"
KEYS

# A bare file of weights with a head or adapters that the job's model lacks.
make 'llama("untied", seed="b"); adapters("two", {"model.layers.%d.self_attn.q_proj" % i: (16, 16) for i in (0, 1)}, target_modules=["q_proj"])
llama("tied", tie_word_embeddings=True); adapters("one", {"model.layers.1.self_attn.q_proj": (16, 16)}, target_modules=["q_proj"], layers_to_transform=[1])'
write_model_job llama tied
refused lm_head.weight "does not belong to this model" -- eval "$DIR/job.yaml" --weights "$DIR/untied/model.safetensors"
loss_is 6.251312 --weights "$DIR/tied/model.safetensors"
refused layers.0.self_attn.q_proj "does not belong to this model" -- eval "$DIR/job.yaml" --set "model.lora.from=$DIR/one" --weights "$DIR/two/adapter_model.safetensors"

# Merged: names with and without their prefix, with and without tied heads.
make 'llama("x"); llama("y", seed="b"); llama("y-bare", seed="b", bare=True); tie = dict(tie_word_embeddings=True)
llama("t", **tie); llama("u", seed="b", **tie); llama("u-head", seed="b", head="model.embed_tokens.weight", bare=True, **tie); llama("u-other", seed="b", head="c", **tie)'
merge() { "$WEIR" merge --method linear "$DIR/$2" "$DIR/$3" --out "$DIR/$1" > "$DIR/out" 2> "$DIR/use.err" || fail "weir merge $2 $3: $(cat "$DIR/use.err")"; }
merge xy x y && merge xy-bare x y-bare && merge tu t u && merge tu-head t u-head && merge ut-head u-head t
cmp "$DIR/xy/model.safetensors" "$DIR/xy-bare/model.safetensors" || fail "the prefix makes another model"
cmp "$DIR/tu/model.safetensors" "$DIR/tu-head/model.safetensors" || fail "a head that is the embedding makes another model"
write_model_job llama t
loss_is "$("$WEIR" eval "$DIR/job.yaml" --json --weights "$DIR/tu" | jq .loss)" --weights "$DIR/ut-head"
refused "tie_word_embeddings" "its own" "the embedding" -- merge --method linear "$DIR/t" "$DIR/u-other" --out "$DIR/no"
refused "tie_word_embeddings" "its own" "the embedding" -- merge --method linear "$DIR/u-other" "$DIR/t" --out "$DIR/no"
refused "no tensor 'lm_head.weight'" -- merge --method linear "$DIR/u-other/model.safetensors" "$DIR/t/model.safetensors" --out "$DIR/no"
make 'one = {"model.layers.0.self_attn.q_proj": (16, 16)}; adapters("p", one, target_modules=["q_proj"]); adapters("p-alpha", one, target_modules=["q_proj"], lora_alpha=8)
adapters("p-rs", one, target_modules=["q_proj"], use_rslora=True); adapters("p-words", one, target_modules=".*q_proj", lora_alpha=4.0, use_dora=False, rank_pattern={})'
merge pp p p-words
cmp <(tail -c 256 "$DIR/pp/adapter_model.safetensors") <(tail -c 256 "$DIR/p/adapter_model.safetensors") || fail "the mean of equal adapters is another"
refused lora_alpha 8 4 -- merge --method linear "$DIR/p" "$DIR/p-alpha" --out "$DIR/no"
refused use_rslora true nothing -- merge --method linear "$DIR/p" "$DIR/p-rs" --out "$DIR/no"
refused "of adapters" "of a model" -- merge --method linear "$DIR/p" "$DIR/x" --out "$DIR/no"
# Unsupported features, key by key.
echo '{"model_type": "mistral", "sliding_window": 8, "use_cache": true}' > "$DIR/x/config.json"
echo '{"model_type": "mistral", "sliding_window": 4, "use_cache": false}' > "$DIR/y/config.json"
refused sliding_window 4 8 -- merge --method linear "$DIR/x" "$DIR/y" --out "$DIR/no"
[ ! -e "$DIR/no" ] || fail "something was written"
