# A head that differs from the embedding is used, even if config.json ties them.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/model_folder.bash"
make 'llama("none", tie_word_embeddings=True); llama("same", tie_word_embeddings=True, head="model.embed_tokens.weight"); llama("other", tie_word_embeddings=True, head="other")'
make 'gpt2("gpt2"); gpt2("gpt2-other", head="other"); llama("bare", tie_word_embeddings=True, bare=True); gpt2("gpt2-bare", bare=True)'
of() { # of KIND FOLDER LOSS: by model.from, and by --weights
	write_model_job "$1" "$2"
	loss_is "$3" --weights "$DIR/$2"
}
of llama none 6.251312
of llama same 6.251312
of llama bare 6.251312
of llama other 6.211824
of gpt2 gpt2 6.828872
of gpt2 gpt2-bare 6.828872
of gpt2 gpt2-other 6.196564

# A tied head may be in the file under the head's name alone (safetensors.torch.save_model).
head_only() { # head_only FOLDER EMBEDDING: renames it
	make "import struct
b = open('$1/model.safetensors', 'rb').read()
n, = struct.unpack_from('<Q', b)
text = b[8:8 + n].replace(b'\"$2\"', b'\"lm_head.weight\"').ljust(n)
open('$1/model.safetensors', 'wb').write(b[:8] + text + b[8 + n:])"
}
make 'llama("head-only", tie_word_embeddings=True); gpt2("gpt2-head-only"); llama("no-embedding")'
head_only head-only model.embed_tokens.weight
head_only gpt2-head-only transformer.wte.weight
of llama head-only 6.251312
of gpt2 gpt2-head-only 6.828872
make 'import json
b = open("no-embedding/model.safetensors", "rb").read()
open("no-embedding/model.safetensors", "wb").write(b.replace(b"model.embed_tokens.weight", b"model.embed_tokens.forgot"))'
write_model_job llama no-embedding
refused "no tensor 'model.embed_tokens.weight'" -- eval "$DIR/job.yaml" --weights "$DIR/no-embedding"

# A separate head does not fit a model without one.
write_model_job llama none
refused other "head (tie_word_embeddings) is its own" "the embedding" -- eval "$DIR/job.yaml" --weights "$DIR/other"

# Exports describe themselves, and are the same model.
write_model_job llama other
"$WEIR" export "$DIR/job.yaml" --weights "$DIR/other" --format hf --out "$DIR/exported" > "$DIR/out" 2> "$DIR/export.err" || fail "weir export"
holds "$DIR/exported/config.json" '.tie_word_embeddings == false'
loss_is 6.211824 --weights "$DIR/exported"
