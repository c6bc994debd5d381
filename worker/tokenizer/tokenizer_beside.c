/* The files beside a tokenizer.json: adds the tokens that they name, in the order of
 * transformers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/disk.h"
#include "worker/tokenizer/tokenizer_internal.h"

/* Tokens with a role, in the order of transformers. */
static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
static const char *const lists[] = {"extra_special_tokens", "additional_special_tokens"};

/* --- Files */

weir_status tokenizer_beside_text(const char *folder, const char *name, size_t bytes_max, char path[WEIR_PATH_BYTES_MAX],
                                  char **text, size_t *bytes, weir_error *err)
{
	*text = NULL;
	if (snprintf(path, WEIR_PATH_BYTES_MAX, "%s/%s", folder, name) >= (int)WEIR_PATH_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "the path of a tokenizer is too long: %.200s", folder);
	weir_error why = {0}; /* not the caller's error: a missing file is not a failure */
	const weir_status status = disk_read_file(disk_system(), path, bytes_max, text, bytes, &why);
	return status == WEIR_OK || status == WEIR_E_NOT_FOUND ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

/* *out stays NULL if there is no such file. */
static weir_status read_file(struct json **out, const char *folder, const char *name, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *text;
	size_t bytes;
	weir_status status = tokenizer_beside_text(folder, name, TOKENIZER_FILE_BYTES_MAX, path, &text, &bytes, err);
	if (status == WEIR_OK && text)
		status = json_parse(text, bytes, path, out, err);
	free(text);
	return status;
}

weir_status tokenizer_beside_read(struct tokenizer_beside *b, const char *folder, weir_error *err)
{
	*b = (struct tokenizer_beside){0};
	weir_status status = read_file(&b->config, folder, "tokenizer_config.json", err);
	if (status != WEIR_OK || (b->config && json_member(json_root(b->config), "added_tokens_decoder") != NULL))
		return status;
	status = read_file(&b->map, folder, "special_tokens_map.json", err);
	return status == WEIR_OK ? read_file(&b->added, folder, "added_tokens.json", err) : status;
}

void tokenizer_beside_destroy(struct tokenizer_beside *b)
{
	json_destroy(b->config);
	json_destroy(b->map);
	json_destroy(b->added);
	*b = (struct tokenizer_beside){0};
}

static const struct json_value *root_of(const struct json *j)
{
	return j ? json_root(j) : NULL;
}

/* The value in the map, or else in the config. */
static const struct json_value *member(const struct tokenizer_beside *b, const char *key)
{
	const struct json_value *v = json_member(root_of(b->map), key);
	return v ? v : json_member(root_of(b->config), key);
}

/* "</s>", or {"content": "</s>"}. */
static const char *text_of(const struct json_value *v, size_t *bytes)
{
	return json_value_text(json_is_map(v) ? json_member(v, "content") : v, bytes);
}

const char *tokenizer_beside_token(const struct tokenizer_beside *b, const char *key)
{
	return text_of(member(b, key), NULL);
}

/* --- Unsupported keys */

/* Whether the tokenizer class uses tokenizer.json unchanged, so that the key has no effect. */
static bool class_takes_file(const struct tokenizer *t, const struct json_value *config)
{
	static const char *const plain[] = {"PreTrainedTokenizerFast", "TokenizersBackend", "PreTrainedTokenizer"};
	const char *name = json_value_text(json_member(config, "tokenizer_class"), NULL);
	bool does = !name || (t->pre.byte_level && strncmp(name, "Llama", strlen("Llama")) == 0);
	for (size_t i = 0; i < sizeof plain / sizeof *plain && !does; i++)
		does = strcmp(name, plain[i]) == 0;
	return does;
}

static bool puts_prefix(const struct tokenizer *t)
{
	bool does = false;
	for (uint32_t i = 0; i < t->pre.count; i++)
		does |= t->pre.steps[i].kind == PRE_PREFIX;
	for (uint32_t i = 0; i < t->normalizer.count; i++)
		does |= t->normalizer.steps[i].kind == NORMALIZE_PREPEND;
	return does;
}

weir_status tokenizer_beside_check(const struct tokenizer *t, const struct tokenizer_beside *b, weir_error *err)
{
	const struct json_value *config = root_of(b->config), *prefix = json_member(config, "add_prefix_space");
	bool on = false;
	if (json_value_bool(json_member(config, "split_special_tokens"), false, &on) && on)
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "split_special_tokens is true: a special token in a text is always that token; expected false");
	if (json_is_absent(prefix) || !json_value_bool(prefix, false, &on) || on == puts_prefix(t) || class_takes_file(t, config))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_UNSUPPORTED,
	                 "add_prefix_space is %s, and tokenizer.json puts %s before a text: transformers makes another tokenizer of "
	                 "them; expected both to say the same, as save_pretrained writes them",
	                 on ? "true" : "false", on ? "no space" : "a space");
}

/* --- Adding */

static weir_status add(struct tokenizer *t, const struct json_value *v, weir_error *err)
{
	size_t bytes;
	const char *text = text_of(v, &bytes);
	if (!text || string_table_find(&t->added, text, bytes) != STRING_NONE)
		return WEIR_OK;
	t->moved = true;
	return tokenizer_add(t, text, bytes, json_is_map(v) ? v : NULL, true, err);
}

/* A token with an id in added_tokens_decoder or in added_tokens.json. The ids only define the
 * order. */
struct numbered {
	uint64_t id;
	const char *text;
	size_t bytes;
	const struct json_value *how; /* NULL: no properties */
};

struct collecting {
	struct numbered *list;
	size_t count;
	const struct json_value *own; /* added_tokens of tokenizer.json, whose ids win */
};

static bool has_id(const struct json_value *own, uint64_t id)
{
	uint64_t other;
	for (size_t i = 0; i < json_length(own); i++)
		if (json_value_count(json_member(json_element(own, i), "id"), &other) && other == id)
			return true;
	return false;
}

static bool collect_described(void *arg, const char *key, size_t bytes, const struct json_value *v)
{
	struct collecting *c = arg;
	struct numbered *n = &c->list[c->count];
	(void)bytes;
	*n = (struct numbered){.id = strtoull(key, NULL, 10), .how = v};
	n->text = text_of(v, &n->bytes);
	c->count += n->text != NULL;
	return true;
}

static bool collect_plain(void *arg, const char *key, size_t bytes, const struct json_value *v)
{
	struct collecting *c = arg;
	struct numbered *n = &c->list[c->count];
	*n = (struct numbered){.text = key, .bytes = bytes};
	c->count += json_value_count(v, &n->id) && !has_id(c->own, n->id);
	return true;
}

static int by_id(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool has_role(const struct tokenizer_beside *b, const char *text)
{
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
		const char *role = tokenizer_beside_token(b, roles[i]);
		if (role && strcmp(role, text) == 0)
			return true;
	}
	return false;
}

static weir_status add_numbered(struct tokenizer *t, const struct tokenizer_beside *b, const struct json_value *root,
                                weir_error *err)
{
	const struct json_value *described = json_member(root_of(b->config), "added_tokens_decoder"), *plain = root_of(b->added);
	const size_t most = json_length(described) + json_length(plain);
	struct collecting c = {.own = json_member(root, "added_tokens")};
	weir_status status = WEIR_OK;
	if (most > ADDED_TOKENS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "more than %u tokens", ADDED_TOKENS_MAX);
	c.list = calloc(most + 1, sizeof *c.list);
	if (!c.list)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %zu tokens", most);
	if (json_is_map(described))
		(void)json_each(described, collect_described, &c);
	if (json_is_map(plain))
		(void)json_each(plain, collect_plain, &c);
	qsort(c.list, c.count, sizeof *c.list, by_id);
	for (size_t i = 0; i < c.count && status == WEIR_OK; i++) {
		const struct numbered *n = &c.list[i];
		if (n->how || string_table_find(&t->added, n->text, n->bytes) == STRING_NONE)
			status = tokenizer_change(t, n->text, n->bytes, n->how, has_role(b, n->text), err);
	}
	free(c.list);
	return status;
}

weir_status tokenizer_beside_add(struct tokenizer *t, const struct tokenizer_beside *b, const struct json_value *root,
                                 weir_error *err)
{
	weir_status status = add_numbered(t, b, root, err);
	for (size_t i = 0; i < sizeof roles / sizeof *roles && status == WEIR_OK; i++)
		status = add(t, member(b, roles[i]), err);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		const struct json_value *list = member(b, lists[i]);
		for (size_t k = 0; json_is_list(list) && k < json_length(list) && status == WEIR_OK; k++)
			status = add(t, json_element(list, k), err);
	}
	return status;
}
