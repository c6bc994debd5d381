/* Opens tokenizers from files, and answers queries about them (tokenizer.h). */
#include "worker/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/hash.h"
#include "common/system/disk.h"
#include "worker/tokenizer/tokenizer_internal.h"

/* --- Opening */

static void take_bytes(struct tokenizer *t)
{
	static const char name[] = "bytes";
	t->info = (struct tokenizer_info){.bytes = true, .vocabulary = WEIR_BYTE_TOKENS, .bos = TOKEN_NONE, .eos = TOKEN_NONE};
	hash128_bytes(name, sizeof name, t->info.fingerprint);
}

static weir_status keep_text(char **text, const char *content, weir_error *err)
{
	free(*text);
	return (*text = strdup(content)) != NULL ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for a tokenizer");
}

/* Sets bos or eos to the token with this content, or to none if no token has it. */
static weir_status set_end(const struct tokenizer *t, const char *content, uint32_t *id, char **text, weir_error *err)
{
	*id = tokenizer_id(t, content, strlen(content));
	if (*id != TOKEN_NONE)
		return keep_text(text, content, err);
	free(*text);
	*text = NULL;
	return WEIR_OK;
}

/* Finds bos and eos by the names that models give them. */
static weir_status guess_ends(struct tokenizer *t, weir_error *err)
{
	static const char *const bos[] = {"<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>"};
	static const char *const eos[] = {"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "<|im_end|>", "<|eot_id|>"};
	weir_status status = WEIR_OK;
	t->info.bos = t->info.eos = TOKEN_NONE;
	for (size_t i = 0; i < sizeof bos / sizeof *bos && t->info.bos == TOKEN_NONE && status == WEIR_OK; i++)
		status = set_end(t, bos[i], &t->info.bos, &t->info.bos_text, err);
	for (size_t i = 0; i < sizeof eos / sizeof *eos && t->info.eos == TOKEN_NONE && status == WEIR_OK; i++)
		status = set_end(t, eos[i], &t->info.eos, &t->info.eos_text, err);
	return status;
}

/* Computes the fingerprint. It includes the ids if these differ from the file's. */
static weir_status take_fingerprint(struct tokenizer *t, const char *text, size_t bytes, weir_error *err)
{
	struct buffer all = {0};
	hash128_bytes(text, bytes, t->info.fingerprint);
	if (!t->moved)
		return WEIR_OK;
	bool fits = buffer_append(&all, (const char *)t->info.fingerprint, sizeof t->info.fingerprint, TOKENIZER_FILE_BYTES_MAX);
	const struct added_set *const sets[] = {&t->raw, &t->normalized};
	for (size_t k = 0; k < sizeof sets / sizeof *sets; k++)
		for (uint32_t i = 0; i < sets[k]->count && fits; i++) {
			const struct added_token *a = &sets[k]->tokens[i];
			const uint32_t numbers[] = {(uint32_t)k, a->id, a->bytes, a->single_word, a->lstrip, a->rstrip, a->special};
			fits = buffer_append(&all, (const char *)numbers, sizeof numbers, TOKENIZER_FILE_BYTES_MAX) &&
			       buffer_append(&all, a->content, a->bytes, TOKENIZER_FILE_BYTES_MAX);
		}
	if (fits)
		hash128_bytes(all.data, all.size, t->info.fingerprint);
	buffer_destroy(&all);
	return fits ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for a tokenizer");
}

static weir_status parse(struct tokenizer **out, const char *text, size_t bytes, const struct tokenizer_beside *beside,
                         const char *name, weir_error *err)
{
	struct json *j = NULL;
	struct tokenizer *t = calloc(1, sizeof *t);
	weir_status status =
	    !t ? weir_fail(err, WEIR_E_MEMORY, "out of memory for a tokenizer") : json_parse_strings(text, bytes, name, &j, err);
	if (status == WEIR_OK) {
		status = tokenizer_read(t, json_root(j), beside, name, err);
		json_destroy(j);
	}
	if (status == WEIR_OK)
		status = take_fingerprint(t, text, bytes, err);
	if (status == WEIR_OK)
		status = guess_ends(t, err);
	if (status != WEIR_OK) {
		tokenizer_close(t);
		return status;
	}
	*out = t;
	return WEIR_OK;
}

weir_status tokenizer_parse(struct tokenizer **out, const char *text, size_t bytes, const char *name, weir_error *err)
{
	return parse(out, text, bytes, NULL, name, err);
}

/* --- A folder */

/* "chat_template": TEXT, or [{"name": "default", "template": TEXT}, ...]. */
static const char *template_text(const struct json_value *config)
{
	const struct json_value *v = json_member(config, "chat_template");
	for (size_t i = 0; json_is_list(v) && i < json_length(v); i++) {
		const char *name = json_value_text(json_member(json_element(v, i), "name"), NULL);
		if (name && strcmp(name, "default") == 0)
			return json_value_text(json_member(json_element(v, i), "template"), NULL);
	}
	return json_value_text(v, NULL);
}

static weir_status take_beside(struct tokenizer *t, const struct tokenizer_beside *beside, weir_error *err)
{
	const char *const bos = tokenizer_beside_token(beside, "bos_token"), *const eos = tokenizer_beside_token(beside, "eos_token");
	const char *template = beside->config ? template_text(json_root(beside->config)) : NULL;
	weir_status status = WEIR_OK;
	if (bos)
		status = set_end(t, bos, &t->info.bos, &t->info.bos_text, err);
	if (status == WEIR_OK && eos)
		status = set_end(t, eos, &t->info.eos, &t->info.eos_text, err);
	return status == WEIR_OK && template ? keep_text(&t->info.chat_template, template, err) : status;
}

/* Reads the parts of a folder that are not tokens. */
static weir_status read_folder(struct tokenizer *t, const struct tokenizer_beside *beside, const char *folder, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *text;
	size_t bytes;
	weir_status status = take_beside(t, beside, err);
	if (status == WEIR_OK)
		status = tokenizer_beside_text(folder, "chat_template.jinja", TOKENIZER_TEMPLATE_MAX, path, &text, &bytes, err);
	if (status == WEIR_OK && text) {
		free(t->info.chat_template);
		t->info.chat_template = text;
	}
	return status;
}

static weir_status open_file(struct tokenizer **out, const char *path, const struct tokenizer_beside *beside, weir_error *err)
{
	char *text;
	size_t bytes;
	weir_status status = disk_read_file(disk_system(), path, TOKENIZER_FILE_BYTES_MAX, &text, &bytes, err);
	if (status != WEIR_OK)
		return status;
	status = parse(out, text, bytes, beside, path, err);
	free(text);
	return status;
}

static weir_status open_folder(struct tokenizer **out, const char *folder, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct tokenizer_beside beside;
	if (snprintf(path, sizeof path, "%s/tokenizer.json", folder) >= (int)sizeof path)
		return weir_fail(err, WEIR_E_LIMIT, "the path of a tokenizer is too long: %.200s", folder);
	weir_status status = tokenizer_beside_read(&beside, folder, err);
	if (status == WEIR_OK)
		status = open_file(out, path, &beside, err);
	if (status == WEIR_OK && (status = read_folder(*out, &beside, folder, err)) != WEIR_OK)
		tokenizer_close(*out);
	tokenizer_beside_destroy(&beside);
	return status;
}

static weir_status open_place(struct tokenizer **out, const char *place, weir_error *err)
{
	struct stat st;
	return stat(place, &st) == 0 && S_ISDIR(st.st_mode) ? open_folder(out, place, err) : open_file(out, place, NULL, err);
}

weir_status tokenizer_open(struct tokenizer **out, const char *place, weir_error *err)
{
	if (strcmp(place, "bytes") != 0)
		return open_place(out, place, err);
	*out = calloc(1, sizeof **out);
	if (!*out)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a tokenizer");
	take_bytes(*out);
	return WEIR_OK;
}

void tokenizer_close(struct tokenizer *t)
{
	if (!t)
		return;
	string_table_destroy(&t->model);
	string_table_destroy(&t->others);
	string_table_destroy(&t->added);
	added_set_destroy(&t->raw);
	added_set_destroy(&t->normalized);
	normalizer_destroy(&t->normalizer);
	pre_tokenizer_destroy(&t->pre);
	bpe_destroy(&t->bpe);
	decoding_destroy(&t->decoding);
	free(t->info.chat_template);
	free(t->info.bos_text);
	free(t->info.eos_text);
	free(t);
}

/* --- Queries */

const struct tokenizer_info *tokenizer_get_info(const struct tokenizer *t)
{
	return &t->info;
}

uint32_t tokenizer_id(const struct tokenizer *t, const char *content, size_t bytes)
{
	const uint32_t id = string_table_find(&t->model, content, bytes);
	return id != STRING_NONE ? id : string_table_find(&t->others, content, bytes);
}

const char *tokenizer_content(const struct tokenizer *t, uint32_t id, size_t *bytes)
{
	const char *content = string_table_get(&t->model, id, bytes);
	return content ? content : string_table_get(&t->others, id, bytes);
}
