# Weir computes adapters of some layers or modules as PEFT does, and names the key that leaves
# tensors out.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/model_folder.bash"
make 'llama("l"); gpt2("g")'
Q=model.layers.%d.self_attn.q_proj D=model.layers.%d.mlp.down_proj
make "q, d = '$Q', '$D'
adapters('layers', {q % 1: (16, 16)}, target_modules=['q_proj'], layers_to_transform=[1])
adapters('pattern', {q % 0: (16, 16), q % 1: (16, 16), d % 1: (24, 16)}, target_modules='.*(q_proj|1\\\\.mlp\\\\.down_proj)')
adapters('excluded', {q % 0: (16, 16)}, target_modules=['q_proj'], exclude_modules=['layers.1.self_attn.q_proj'])
adapters('attention', {'transformer.h.%d.attn.c_proj' % i: (16, 16) for i in (0, 1)}, target_modules=['attn.c_proj'])
adapters('mlp', {'transformer.h.1.mlp.c_proj': (64, 16)}, target_modules=['mlp.c_proj'], layers_to_transform=1, layers_pattern='h')
adapters('fewer', {q % 0: (16, 16), q % 1: (16, 16)}, target_modules=['q_proj'], layers_to_transform=[1])
adapters('more', {q % 1: (16, 16)}, target_modules=['q_proj'])
adapters('stray', {q % 1: (16, 16)}, target_modules='.*q_proj', layers_to_transform=[1])
adapters('beyond', {q % 7: (16, 16)}, target_modules=['q_proj'], layers_to_transform=[7])
adapters('alone', {q % 1: (16, 16)}, target_modules=['q_proj'], layers_pattern='layers')"
of() { # of KIND MODEL ADAPTERS LOSS
	write_model_job "$1" "$2"
	loss_is "$4" --set "model.lora.from=$DIR/$3" --weights "$DIR/$3"
}
of llama l layers 6.139243
of llama l pattern 6.071000
of llama l excluded 6.117673
of gpt2 g attention 6.828806
of gpt2 g mlp 6.795386

# Exports equal the originals.
write_model_job llama l
"$WEIR" export "$DIR/job.yaml" --set "model.lora.from=$DIR/layers" --weights "$DIR/layers" --format peft --out "$DIR/again" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export: $(cat "$DIR/export.err")"
holds "$DIR/again/adapter_config.json" '.target_modules == ["model.layers.1.self_attn.q_proj"]'
of llama l again 6.139243
write_model_job llama l
"$WEIR" export "$DIR/job.yaml" --set "model.lora.from=$DIR/layers" --weights "$DIR/layers" --format hf --out "$DIR/whole" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export: $(cat "$DIR/export.err")"
write_model_job llama whole
loss_is 6.139243 --weights "$DIR/whole"

# A model and its adapters in one folder are both used, or refused.
cp -r "$DIR/l" "$DIR/both" && cp "$DIR/layers"/* "$DIR/both"
of llama both both 6.139243
write_model_job llama both
refused model.from adapter_config.json model.lora.from -- eval "$DIR/job.yaml" --weights "$DIR/l"
refused adapter_config.json model.lora.from -- generate "$DIR/both" --tokenizer bytes --prompt a

write_model_job llama l
for wrong in "fewer layers_to_transform" "more no*tensor" "stray layers_to_transform" "beyond no*layer" "alone layers_pattern"; do
	said=${wrong#* }
	refused "${said//\*/ }" -- eval "$DIR/job.yaml" --set "model.lora.from=$DIR/${wrong%% *}" --weights "$DIR/${wrong%% *}"
done
refused target_modules "other modules" -- eval "$DIR/job.yaml" --set "model.lora.from=$DIR/layers" --weights "$DIR/excluded"
