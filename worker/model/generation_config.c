#include "worker/model/generation_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/web/json.h"
#include "worker/model/new_folder.h"

/* Keys that would change the next token, and their neutral values. Temperature, top_p and top_k are
 * missing: the caller chooses them. */
static const struct {
	const char *key;
	double neutral;
} not_done[] = {{"bad_words_ids", 0},
                {"begin_suppress_tokens", 0},
                {"constraints", 0},
                {"diversity_penalty", 0},
                {"dola_layers", 0},
                {"encoder_no_repeat_ngram_size", 0},
                {"encoder_repetition_penalty", 1},
                {"epsilon_cutoff", 0},
                {"eta_cutoff", 0},
                {"exponential_decay_length_penalty", 0},
                {"force_words_ids", 0},
                {"forced_bos_token_id", -1},
                {"forced_decoder_ids", 0},
                {"forced_eos_token_id", -1},
                {"guidance_scale", 1},
                {"min_length", 0},
                {"min_new_tokens", 0},
                {"min_p", 0},
                {"no_repeat_ngram_size", 0},
                {"num_beams", 1},
                {"penalty_alpha", 0},
                {"repetition_penalty", 1},
                {"sequence_bias", 0},
                {"stop_strings", 0},
                {"suppress_tokens", 0},
                {"token_healing", 0},
                {"top_h", 1},
                {"typical_p", 1},
                {"watermarking_config", 0}};

static void find_ignored(const struct json_value *root, struct generation_config *out)
{
	for (size_t i = 0; i < sizeof not_done / sizeof *not_done; i++) {
		const size_t at = strlen(out->ignored);
		if (!json_value_is_off(json_member(root, not_done[i].key), not_done[i].neutral))
			snprintf(out->ignored + at, sizeof out->ignored - at, "%s%s", at > 0 ? ", " : "", not_done[i].key);
	}
}

/* Records how the model's makers choose tokens. These keys count only if do_sample is true. */
static void find_choice(const struct json_value *root, struct generation_config *out)
{
	static const char *const keys[] = {"temperature", "top_k", "top_p"};
	bool sample = false;
	if (!json_value_bool(json_member(root, "do_sample"), false, &sample) || !sample)
		return;
	size_t at = (size_t)snprintf(out->choice, sizeof out->choice, "do_sample true");
	for (size_t i = 0; i < sizeof keys / sizeof *keys && at < sizeof out->choice; i++) {
		const struct json_value *v = json_member(root, keys[i]);
		char value[32];
		json_value_show(v, value, sizeof value);
		if (!json_is_absent(v))
			at += (size_t)snprintf(out->choice + at, sizeof out->choice - at, ", %s %s", keys[i], value);
	}
}

/* Ignores an id that no token has: -1, or one too large. Such an id never ends a text. */
static weir_status add_end(const char *path, const struct json_value *v, struct generation_config *out, weir_error *err)
{
	double id;
	if (!json_value_real(v, &id) || id < floor(id) || id > floor(id))
		return weir_fail(err, WEIR_E_INVALID, "%s: eos_token_id is neither a token's number nor a list of them", path);
	if (id < 0 || id >= UINT32_MAX)
		return WEIR_OK;
	if (out->ends_count == GENERATION_ENDS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%s: eos_token_id has more than %u tokens", path, GENERATION_ENDS_MAX);
	out->ends[out->ends_count++] = (uint32_t)id;
	return WEIR_OK;
}

static weir_status read_ends(const char *path, const struct json_value *root, struct generation_config *out, weir_error *err)
{
	const struct json_value *v = json_member(root, "eos_token_id");
	if (json_is_absent(v))
		return WEIR_OK;
	if (!json_is_list(v))
		return add_end(path, v, out, err);
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < json_length(v) && status == WEIR_OK; i++)
		status = add_end(path, json_element(v, i), out, err);
	return status;
}

weir_status generation_config_read(const char *folder, struct generation_config *out, weir_error *err)
{
	static const char *const names[] = {"generation_config.json", "config.json"};
	char path[WEIR_PATH_BYTES_MAX];
	struct json *j = NULL;
	*out = (struct generation_config){0};
	weir_status status = folder_file(folder, names[0], path, err);
	const bool own = status == WEIR_OK && access(path, F_OK) == 0;
	if (status == WEIR_OK && !own)
		status = folder_file(folder, names[1], path, err);
	if (status == WEIR_OK)
		status = json_read_file(path, &j, err);
	if (status != WEIR_OK)
		return status;
	status = read_ends(path, json_root(j), out, err);
	if (own) {
		find_ignored(json_root(j), out);
		find_choice(json_root(j), out);
	}
	json_destroy(j);
	return status;
}
