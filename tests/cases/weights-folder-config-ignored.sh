# A folder whose config.json differs from the job's model is refused with the key and both values.
. "$(dirname "$0")/../integration/lib.sh"
. "$(dirname "$0")/model_folder.bash"
make 'llama("a"); llama("heads", num_attention_heads=8, num_key_value_heads=8); llama("eps", rms_norm_eps=0.01); llama("theta", rope_theta=500.0)
llama("linear", rope_scaling={"type": "linear", "factor": 2.0}); llama("gelu", hidden_act="gelu"); llama("more", max_position_embeddings=128)
llama("newer", rope_theta=..., rope_parameters={"rope_type": "default", "rope_theta": 10000}); gpt2("g"); gpt2("g-eps", layer_norm_epsilon=0.1); gpt2("g-heads", n_head=2)'
write_model_job llama a
loss_is 6.159020 --weights "$DIR/a"
loss_is 6.159020 --weights "$DIR/newer" # the same in other words
loss_is 6.159020 --weights "$DIR/more"  # positions that nothing is made of
not_of() { # not_of FOLDER WORDS...: for every verb
	local folder=$1
	shift
	for verb in eval "predict --out $DIR/scores" "generate --prompt a" "export --format hf --out $DIR/exported"; do
		# shellcheck disable=SC2086
		refused "$@" -- $verb --job "$DIR/job.yaml" --weights "$DIR/$folder"
	done
	refused "$@" -- train --job "$DIR/job.yaml" --set "train.warm_start=$DIR/$folder"
}
not_of heads num_attention_heads 8 4
not_of eps rms_norm_eps 0.01 1e-06
not_of theta rope_theta "theta 500" "theta 10000"
not_of linear rope_scaling "linear, theta 10000, factor 2" "default, theta 10000"
not_of gelu hidden_act
not_of g model_type gpt2 llama
refused num_attention_heads 8 4 -- merge --method linear "$DIR/a" "$DIR/heads" --out "$DIR/merged"
refused rms_norm_eps 0.01 1e-06 -- merge --method task "$DIR/a" --base "$DIR/eps" --out "$DIR/merged"
write_model_job gpt2 g
loss_is 6.828872 --weights "$DIR/g"
not_of g-eps layer_norm_epsilon 0.1 1e-05
not_of g-heads n_head 2 4

# The right values, each for its own model.
of() { write_model_job "$1" "$2" && loss_is "$3" --weights "$DIR/$2"; }
of llama heads 6.015393
of llama eps 6.144859
of llama theta 6.154168
of llama linear 6.161438
of gpt2 g-eps 6.844063
of gpt2 g-heads 6.797007

# A folder of model.from that is gone, and one with config.json alone.
write_model_job llama gone
refused model.from gone/config.json "what the model is" -- eval "$DIR/job.yaml" --weights "$DIR/a"
mkdir "$DIR/gone" && cp "$DIR/a/config.json" "$DIR/gone"
loss_is 6.159020 --weights "$DIR/a"
