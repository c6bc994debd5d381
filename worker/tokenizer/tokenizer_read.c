/* Reads a tokenizer.json, part by part. */
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/read.h"
#include "worker/tokenizer/tokenizer_internal.h"

/* --- The vocabulary */

struct vocabulary_walk {
	struct tokenizer *t;
	weir_error *err;
	weir_status status;
};

static bool add_token(void *arg, const char *content, size_t bytes, const struct json_value *v)
{
	struct vocabulary_walk *w = arg;
	uint64_t id;
	if (bytes > TOKENIZER_TOKEN_BYTES_MAX)
		w->status =
		    weir_fail(w->err, WEIR_E_LIMIT, "a token of %zu bytes; at most %u are taken", bytes, TOKENIZER_TOKEN_BYTES_MAX);
	else if (!json_value_count(v, &id) || id > UINT32_MAX)
		w->status = weir_fail(w->err, WEIR_E_INVALID, "the id of the token '%.60s' is no whole number from 0", content);
	else
		w->status = string_table_add(&w->t->model, content, bytes, (uint32_t)id, w->err);
	return w->status == WEIR_OK;
}

static weir_status read_vocabulary(struct tokenizer *t, const struct json_value *model, weir_error *err)
{
	const struct json_value *type = json_member(model, "type"), *vocabulary = json_member(model, "vocab");
	const char *name = json_is_absent(type) ? "BPE" : json_value_text(type, NULL);
	if (!json_is_map(model))
		return weir_fail(err, WEIR_E_INVALID, "it is missing");
	if (!name || strcmp(name, "BPE") != 0)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "its type is %.60s; only BPE is supported", !name ? "no text" : name);
	if (!json_is_map(vocabulary))
		return weir_fail(err, WEIR_E_INVALID, "\"vocab\" is missing, or is no map");
	struct vocabulary_walk w = {.t = t, .err = err};
	(void)json_each(vocabulary, add_token, &w);
	return w.status;
}

/* --- Added tokens */

/* Normalizes an added token. */
static weir_status normalize_token(const struct tokenizer *t, struct added_token *token, weir_error *err)
{
	struct buffer buffers[2] = {0};
	struct pattern_scratch *scratch = pattern_scratch_create();
	const char *made;
	size_t bytes;
	weir_status status = !scratch ? weir_fail(err, WEIR_E_MEMORY, "out of memory")
	                              : normalizer_run(&t->normalizer, scratch, buffers, token->content, token->bytes,
	                                               ADDED_TOKEN_BYTES_MAX, &made, &bytes, err);
	if (status == WEIR_OK && bytes == 0)
		status = weir_fail(err, WEIR_E_INVALID, "the token %u is normalized to nothing", token->id);
	if (status == WEIR_OK && made != token->content) {
		char *copy = malloc(bytes + 1);
		if (!copy) {
			status = weir_fail(err, WEIR_E_MEMORY, "out of memory");
		} else {
			memcpy(copy, made, bytes);
			copy[bytes] = 0;
			free(token->content);
			token->content = copy;
			token->bytes = (uint32_t)bytes;
		}
	}
	pattern_scratch_destroy(scratch);
	buffer_destroy(&buffers[0]);
	buffer_destroy(&buffers[1]);
	return status;
}

/* The id that Hugging Face's tokenizers give the token, whatever the file says: the model's id, or
 * else the next one after the count of the model's tokens and the tokens added before. */
static weir_status assign_id(struct tokenizer *t, const char *content, size_t bytes, uint32_t *id, weir_error *err)
{
	size_t taken;
	*id = string_table_find(&t->model, content, bytes);
	if (*id != STRING_NONE)
		return WEIR_OK;
	*id = t->others.ids > t->model.count ? t->others.ids : t->model.count;
	if (string_table_get(&t->model, *id, &taken))
		return weir_fail(err, WEIR_E_INVALID,
		                 "'%.60s' would get the id %u, which in the vocabulary is another token's, as its ids have gaps", content,
		                 *id);
	return string_table_add(&t->others, content, bytes, *id, err);
}

/* Reads a token's properties. special: the default if `how` does not say. */
static weir_status read_properties(struct added_token *token, bool *normalized, const struct json_value *how, bool special,
                                   weir_error *err)
{
	weir_status status = read_bool(&token->single_word, how, "single_word", false, err);
	if (status == WEIR_OK)
		status = read_bool(&token->lstrip, how, "lstrip", false, err);
	if (status == WEIR_OK)
		status = read_bool(&token->rstrip, how, "rstrip", false, err);
	if (status == WEIR_OK)
		status = read_bool(&token->special, how, "special", special, err);
	return status == WEIR_OK ? read_bool(normalized, how, "normalized", !token->special, err) : status;
}

/* Puts a token into the set that is looked for in the raw text, or in normalized text. token:
 * complete except its content. */
static weir_status place_added(struct tokenizer *t, struct added_token token, bool normalized, const char *content, size_t bytes,
                               weir_error *err)
{
	token.bytes = (uint32_t)bytes;
	token.content = malloc(bytes + 1);
	if (!token.content)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	memcpy(token.content, content, bytes);
	token.content[bytes] = 0;
	const weir_status status = normalized ? normalize_token(t, &token, err) : WEIR_OK;
	if (status != WEIR_OK) {
		free(token.content);
		return status;
	}
	return added_set_add(normalized ? &t->normalized : &t->raw, &token, err);
}

weir_status tokenizer_add(struct tokenizer *t, const char *content, size_t bytes, const struct json_value *how, bool special,
                          weir_error *err)
{
	struct added_token token = {0};
	bool normalized = false;
	if (bytes == 0 || string_table_find(&t->added, content, bytes) != STRING_NONE)
		return WEIR_OK;
	weir_status status = read_properties(&token, &normalized, how, special, err);
	if (status == WEIR_OK && bytes > ADDED_TOKEN_BYTES_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "one has %zu bytes; at most %u are taken", bytes, ADDED_TOKEN_BYTES_MAX);
	if (status == WEIR_OK)
		status = assign_id(t, content, bytes, &token.id, err);
	if (status == WEIR_OK)
		status = string_table_add(&t->added, content, bytes, token.id, err);
	return status == WEIR_OK ? place_added(t, token, normalized, content, bytes, err) : status;
}

/* Finds a token by id before the set is ready; NULL: it is in the other set. */
static struct added_token *find_added(struct added_set *set, uint32_t id)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (set->tokens[i].id == id)
			return &set->tokens[i];
	return NULL;
}

weir_status tokenizer_change(struct tokenizer *t, const char *content, size_t bytes, const struct json_value *how, bool special,
                             weir_error *err)
{
	struct added_token token = {.id = string_table_find(&t->added, content, bytes)}, *raw, *has;
	bool normalized = false;
	if (token.id == STRING_NONE || bytes == 0) {
		t->moved |= bytes > 0;
		return tokenizer_add(t, content, bytes, how, special, err);
	}
	const weir_status status = read_properties(&token, &normalized, how, special, err);
	if (status != WEIR_OK)
		return status;
	raw = find_added(&t->raw, token.id);
	has = raw ? raw : find_added(&t->normalized, token.id);
	token.special |= special;
	if (has->single_word == token.single_word && has->lstrip == token.lstrip && has->rstrip == token.rstrip &&
	    has->special == token.special && normalized == (!raw))
		return WEIR_OK;
	struct added_set *set = raw ? &t->raw : &t->normalized;
	free(has->content);
	*has = set->tokens[--set->count];
	t->moved = true;
	return place_added(t, token, normalized, content, bytes, err);
}

static weir_status read_added_token(struct tokenizer *t, const struct json_value *v, weir_error *err)
{
	size_t bytes;
	uint64_t id;
	if (!json_value_count(json_member(v, "id"), &id) || id > UINT32_MAX)
		return weir_fail(err, WEIR_E_INVALID, "\"id\" is no whole number from 0");
	const char *content = json_value_text(json_member(v, "content"), &bytes);
	if (!content)
		return weir_fail(err, WEIR_E_INVALID, "\"content\" is missing, or is no text");
	if (string_table_find(&t->added, content, bytes) != STRING_NONE)
		return weir_fail(err, WEIR_E_INVALID, "'%.60s' is there twice", content);
	const weir_status status = tokenizer_add(t, content, bytes, v, false, err);
	t->moved |= status == WEIR_OK && bytes > 0 && tokenizer_id(t, content, bytes) != id;
	return status;
}

static weir_status read_added(struct tokenizer *t, const struct json_value *root, const struct tokenizer_beside *beside,
                              weir_error *err)
{
	const struct json_value *list = json_member(root, "added_tokens");
	weir_status status = WEIR_OK;
	if (!json_is_absent(list) && !json_is_list(list))
		return weir_fail(err, WEIR_E_INVALID, "it is no list");
	for (size_t i = 0; i < json_length(list) && status == WEIR_OK; i++)
		status = read_added_token(t, json_element(list, i), err);
	if (status == WEIR_OK && beside)
		status = tokenizer_beside_add(t, beside, root, err);
	if (status == WEIR_OK)
		status = added_set_ready(&t->raw, err);
	return status == WEIR_OK ? added_set_ready(&t->normalized, err) : status;
}

/* --- The post-processor */

static weir_status add_affix(const struct tokenizer *t, struct affix *a, const struct json_value *id, weir_error *err)
{
	uint64_t n;
	if (!json_value_count(id, &n) || n >= t->info.vocabulary)
		return weir_fail(err, WEIR_E_INVALID, "it adds a token whose id is not below %u", t->info.vocabulary);
	if (a->count == TOKENIZER_AFFIX_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "it adds more than %u tokens", TOKENIZER_AFFIX_MAX);
	a->ids[a->count++] = (uint32_t)n;
	return WEIR_OK;
}

/* Reads a template: a list of special tokens that contains the text, A, once. */
static weir_status read_template(struct tokenizer *t, const struct json_value *v, weir_error *err)
{
	const struct json_value *single = json_member(v, "single"), *specials = json_member(v, "special_tokens");
	struct affix *to = &t->before;
	weir_status status = WEIR_OK;
	if (!json_is_list(single))
		return weir_fail(err, WEIR_E_INVALID, "TemplateProcessing: \"single\" is missing, or is no list");
	for (size_t i = 0; i < json_length(single) && status == WEIR_OK; i++) {
		const struct json_value *piece = json_element(single, i), *special = json_member(piece, "SpecialToken");
		const char *name = json_value_text(json_member(special, "id"), NULL);
		const char *sequence = json_value_text(json_member(json_member(piece, "Sequence"), "id"), NULL);
		if (sequence && strcmp(sequence, "A") == 0 && to == &t->before) {
			to = &t->behind;
			continue;
		}
		const struct json_value *ids = !name ? NULL : json_member(json_member(specials, name), "ids");
		if (!json_is_list(ids))
			return weir_fail(err, WEIR_E_INVALID,
			                 "TemplateProcessing: piece %zu is neither the text nor a token of \"special_tokens\"", i);
		for (size_t k = 0; k < json_length(ids) && status == WEIR_OK; k++)
			status = add_affix(t, to, json_element(ids, k), err);
	}
	if (status == WEIR_OK && to == &t->before)
		status = weir_fail(err, WEIR_E_INVALID, "TemplateProcessing: the text is not in \"single\"");
	return status;
}

static weir_status read_processor(void *arg, const char *type, const struct json_value *v, weir_error *err)
{
	struct tokenizer *t = arg;
	if (strcmp(type, "ByteLevel") == 0)
		return WEIR_OK; /* affects only offsets */
	if (t->before.count + t->behind.count > 0)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "more than one that adds tokens is not supported");
	if (strcmp(type, "TemplateProcessing") == 0)
		return read_template(t, v, err);
	if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
		weir_status status = add_affix(t, &t->before, json_element(json_member(v, "cls"), 1), err);
		return status == WEIR_OK ? add_affix(t, &t->behind, json_element(json_member(v, "sep"), 1), err) : status;
	}
	return weir_fail(err, WEIR_E_UNSUPPORTED,
	                 "%.60s is not supported; TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel and Sequence are",
	                 type);
}

/* --- The whole file */

static weir_status in_part(weir_status status, const char *name, const char *part, weir_error *err)
{
	if (status == WEIR_OK || !err)
		return status;
	const weir_error inner = *err;
	return weir_fail(err, status, "%s: %s: %s", name, part, inner.text);
}

weir_status tokenizer_read(struct tokenizer *t, const struct json_value *root, const struct tokenizer_beside *beside,
                           const char *name, weir_error *err)
{
	weir_error own = {0};
	err = !err ? &own : err; /* in_part puts the name of the part before the error */
	const struct json_value *model = json_member(root, "model");
	weir_status status = in_part(read_vocabulary(t, model, err), name, "model", err);
	if (status == WEIR_OK)
		status = in_part(normalizer_read(&t->normalizer, json_member(root, "normalizer"), err), name, "normalizer", err);
	if (status == WEIR_OK)
		status = in_part(pre_tokenizer_read(&t->pre, json_member(root, "pre_tokenizer"), err), name, "pre_tokenizer", err);
	if (status == WEIR_OK)
		status = in_part(bpe_read(&t->bpe, model, &t->model, t->pre.byte_level, err), name, "model", err);
	if (status == WEIR_OK && beside)
		status = in_part(tokenizer_beside_check(t, beside, err), name, "tokenizer_config.json beside it", err);
	if (status == WEIR_OK)
		status = in_part(read_added(t, root, beside, err), name, "added_tokens", err);
	if (status != WEIR_OK)
		return status;
	t->info.vocabulary = t->model.ids > t->others.ids ? t->model.ids : t->others.ids;
	if (t->info.vocabulary == 0)
		return weir_fail(err, WEIR_E_INVALID, "%s: it has no tokens", name);
	status = in_part(read_sequence(json_member(root, "post_processor"), "processors", read_processor, t, err), name,
	                 "post_processor", err);
	return status == WEIR_OK ? in_part(decoding_read(t, json_member(root, "decoder"), err), name, "decoder", err) : status;
}
