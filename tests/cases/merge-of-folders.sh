# A merged folder names the origin of its weights, ties are found under either name, and adapters
# with another computation are not merged.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/model_folder.bash"
merge() { "$WEIR" merge "$@" --replace > "$DIR/out" 2> "$DIR/merge.err" || fail "weir merge $*: $(cat "$DIR/merge.err")"; }

# transformers loads a model as config.json says.
make 'llama("a", torch_dtype="bfloat16"); llama("b", seed="x", torch_dtype="bfloat16")'
merge --method linear "$DIR/a" "$DIR/b" --out "$DIR/m"
holds "$DIR/m/config.json" '.torch_dtype == "bfloat16" and (has("dtype") | not)'
merge --method linear "$DIR/a" "$DIR/b" --type F32 --out "$DIR/m"
holds "$DIR/m/config.json" '.torch_dtype == "float32" and .dtype == "float32"'
merge --method linear "$DIR/a" "$DIR/b" --type F16 --out "$DIR/m"
holds "$DIR/m/config.json" '.torch_dtype == "float16" and .dtype == "float16"'

# A tied head under the one name, the other, or both. The losses are those of transformers for the
# mean, computed with safetensors.torch.
make 'llama("tied", tie_word_embeddings=True); llama("tied-x", seed="x", tie_word_embeddings=True)
llama("both-x", seed="x", tie_word_embeddings=True, head="model.embed_tokens.weight")
import shutil; shutil.copytree("tied-x", "head-x"); shutil.copytree("tied", "head")
for folder in "head", "head-x":
	b = open(folder + "/model.safetensors", "rb").read()
	n = int.from_bytes(b[:8], "little")
	text = b[8:8 + n].replace(b"\"model.embed_tokens.weight\"", b"\"lm_head.weight\"").ljust(n)
	open(folder + "/model.safetensors", "wb").write(b[:8] + text + b[8 + n:])'
write_model_job llama tied
for pair in "tied tied-x" "tied head-x" "head tied-x" "head head-x" "tied both-x"; do
	merge --method linear "$DIR/${pair% *}" "$DIR/${pair#* }" --out "$DIR/m"
	loss_is 5.883595 --weights "$DIR/m"
done

# Adapters.
Q="{'model.layers.0.self_attn.q_proj': (16, 16)}, target_modules=['q_proj']"
make "adapters('x', $Q, base_model_name_or_path='one'); adapters('y', $Q, base_model_name_or_path='two', bias='none')
adapters('twice', $Q, layer_replication=[[0, 2], [0, 2]]); adapters('invoked', $Q, alora_invocation_tokens=[1]); adapters('alpha', $Q, lora_alpha=8)"
merge --method linear "$DIR/x" "$DIR/y" --out "$DIR/m"
told "x are adapters of the model one" "y of two" "$DIR/merge.err"
merge --method linear "$DIR/x" "$DIR/x" --out "$DIR/m"
[ ! -s "$DIR/merge.err" ] || fail "$(cat "$DIR/merge.err")"
refused layer_replication -- merge --method linear "$DIR/x" "$DIR/twice" --out "$DIR/m"
refused alora_invocation_tokens -- merge --method linear "$DIR/x" "$DIR/invoked" --out "$DIR/m"
refused lora_alpha 8 4 -- merge --method linear "$DIR/x" "$DIR/alpha" --out "$DIR/m"
