#include "worker/model/adapter_targets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "worker/tokenizer/pattern.h"

enum { MODULE_NAME_BYTES = 96 };

/* Names of modules: a list, or one pattern for whole names. A name in the list also matches the end
 * of a longer name, after a dot. */
struct names {
	bool given;
	const struct json_value *list;
	struct pattern *whole;
};

struct choice {
	const char *path;
	enum transformer_family family;
	struct names targets, excluded;
	bool all; /* target_modules is "all-linear" */
	/* layers_to_transform: a number or a list; NULL: all layers */
	const struct json_value *indices;
	const struct json_value *patterns; /* layers_pattern: a string or a list; NULL: any layer */
	struct pattern_scratch *scratch;
	weir_status status;
	weir_error *err;
};

static bool is_empty(const struct json_value *v)
{
	size_t bytes;
	const char *text = json_value_text(v, &bytes);
	return json_is_absent(v) || (json_is_list(v) && json_length(v) == 0) || (text && bytes == 0);
}

static void fail(struct choice *c, weir_status status, const char *key, const char *what)
{
	if (c->status == WEIR_OK)
		c->status = weir_fail(c->err, status, "%s: %s %s", c->path, key, what);
}

static void compile(struct choice *c, const char *key, const char *text, size_t bytes, struct pattern **out)
{
	weir_error why = {0};
	if (c->status == WEIR_OK && (c->status = pattern_compile_whole(out, text, bytes, &why)) != WEIR_OK)
		(void)weir_fail(c->err, c->status, "%s: %s: %s", c->path, key, why.text);
}

static bool matches(struct choice *c, const struct pattern *p, const char *name)
{
	size_t begin, end;
	bool found = false;
	if (c->status == WEIR_OK)
		c->status = pattern_find(p, c->scratch, name, strlen(name), 0, &found, &begin, &end, c->err);
	return c->status == WEIR_OK && found;
}

/* --- Reading */

static void read_names(struct choice *c, const struct json_value *root, const char *key, struct names *out)
{
	const struct json_value *v = json_member(root, key);
	size_t bytes;
	const char *text = json_value_text(v, &bytes);
	if (is_empty(v))
		return;
	out->given = true;
	if (text) {
		compile(c, key, text, bytes, &out->whole);
		return;
	}
	out->list = v;
	for (size_t i = 0; i < json_length(v); i++)
		if (!json_value_text(json_element(v, i), NULL))
			fail(c, WEIR_E_INVALID, key, "has what is no text");
	if (!json_is_list(v))
		fail(c, WEIR_E_INVALID, key, "is neither a text nor a list of them");
}

static void read_layers(struct choice *c, const struct json_value *root)
{
	static const char indices[] = "layers_to_transform", pattern[] = "layers_pattern";
	const struct json_value *v = json_member(root, indices), *p = json_member(root, pattern);
	uint64_t n;
	if (!is_empty(p) && is_empty(v))
		fail(c, WEIR_E_INVALID, pattern, "is given without layers_to_transform");
	if (is_empty(v))
		return;
	if (c->targets.given && !c->targets.list)
		fail(c, WEIR_E_INVALID, indices, "is given, and target_modules is one text: it must say the layers itself");
	for (size_t i = 0; i < json_length(v); i++)
		if (!json_value_count(json_element(v, i), &n))
			fail(c, WEIR_E_INVALID, indices, "has what is no number of a layer");
	if (!json_is_list(v) && !json_value_count(v, &n))
		fail(c, WEIR_E_INVALID, indices, "is neither the number of a layer nor a list of them");
	for (size_t i = 0; i < json_length(p); i++)
		if (!json_value_text(json_element(p, i), NULL))
			fail(c, WEIR_E_INVALID, pattern, "has what is no text");
	c->indices = v;
	c->patterns = is_empty(p) ? NULL : p;
}

/* --- Choosing, as in PEFT's check_target_module_exists */

static bool ends_in(const char *name, const char *end)
{
	const size_t n = strlen(name), bytes = strlen(end);
	return n > bytes && name[n - bytes - 1] == '.' && strcmp(name + n - bytes, end) == 0;
}

static bool is_among(const struct json_value *list, const char *name, bool ends)
{
	for (size_t i = 0; i < json_length(list); i++) {
		const char *text = json_value_text(json_element(list, i), NULL);
		if (strcmp(name, text) == 0 || (ends && ends_in(name, text)))
			return true;
	}
	return false;
}

static bool layer_matches(struct choice *c, const char *text, const char *name)
{
	char whole[PATTERN_BYTES_MAX];
	struct pattern *p = NULL;
	const int n = snprintf(whole, sizeof whole, "(?:.*\\.)?%s\\.\\d+\\..*", text);
	if (n < 0 || (size_t)n >= sizeof whole) {
		fail(c, WEIR_E_LIMIT, "layers_pattern", "is too long");
		return false;
	}
	compile(c, "layers_pattern", whole, (size_t)n, &p);
	const bool found = c->status == WEIR_OK && matches(c, p, name);
	pattern_destroy(p);
	return found;
}

static bool layer_is_chosen(struct choice *c, uint32_t layer, const char *name)
{
	uint64_t index = 0;
	bool chosen = !c->indices || (json_value_count(c->indices, &index) && index == layer);
	for (size_t i = 0; i < json_length(c->indices); i++)
		chosen |= json_value_count(json_element(c->indices, i), &index) && index == layer;
	if (!chosen || !c->patterns)
		return chosen;
	const char *text = json_value_text(c->patterns, NULL);
	bool matched = text && layer_matches(c, text, name);
	for (size_t i = 0; i < json_length(c->patterns) && !matched; i++)
		matched = layer_matches(c, json_value_text(json_element(c->patterns, i), NULL), name);
	return matched;
}

/* PEFT's default for these families when target_modules is null. */
static bool is_default(enum lora_module m)
{
	return m == MODULE_QUERY || m == MODULE_VALUE || m == MODULE_GPT2_QKV;
}

static bool is_chosen(struct choice *c, uint32_t layer, enum lora_module m)
{
	char name[MODULE_NAME_BYTES];
	snprintf(name, sizeof name, "%s.%" PRIu32 ".%s", c->family == TRANSFORMER_GPT2 ? "transformer.h" : "model.layers", layer,
	         lora_module_name(m));
	if (c->excluded.given && (c->excluded.list ? is_among(c->excluded.list, name, true) : matches(c, c->excluded.whole, name)))
		return false;
	if (!c->targets.given)
		return is_default(m) && layer_is_chosen(c, layer, name);
	if (!c->targets.list)
		return c->all || matches(c, c->targets.whole, name);
	return is_among(c->targets.list, name, false) || (is_among(c->targets.list, name, true) && layer_is_chosen(c, layer, name));
}

static void choose(struct choice *c, struct lora_options *out)
{
	memset(out->targets, 0, sizeof out->targets);
	memset(out->modules, 0, sizeof out->modules);
	out->some = false;
	for (uint32_t layer = 0; layer < WEIR_LAYERS_MAX; layer++)
		for (enum lora_module m = 0; m < LORA_MODULES_COUNT; m++)
			if (lora_module_is_gpt2(m) == (c->family == TRANSFORMER_GPT2) && is_chosen(c, layer, m)) {
				out->modules[layer] |= (uint16_t)(1u << m);
				out->targets[lora_module_target(m)] = true;
			}
	for (uint32_t layer = 0; layer < WEIR_LAYERS_MAX; layer++)
		for (enum lora_module m = 0; m < LORA_MODULES_COUNT; m++)
			out->some |= out->targets[lora_module_target(m)] && lora_module_is_gpt2(m) == (c->family == TRANSFORMER_GPT2) &&
			             !(out->modules[layer] >> m & 1);
}

weir_status adapter_targets_read(const char *path, const struct json_value *root, enum transformer_family family,
                                 struct lora_options *out, weir_error *err)
{
	struct choice c = {.path = path, .family = family, .status = WEIR_OK, .err = err, .scratch = pattern_scratch_create()};
	const char *text = json_value_text(json_member(root, "target_modules"), NULL);
	if (!c.scratch)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", path);
	c.all = text && strcasecmp(text, "all-linear") == 0;
	read_names(&c, root, "target_modules", &c.targets);
	read_names(&c, root, "exclude_modules", &c.excluded);
	read_layers(&c, root);
	if (c.status == WEIR_OK)
		choose(&c, out);
	pattern_destroy(c.targets.whole);
	pattern_destroy(c.excluded.whole);
	pattern_scratch_destroy(c.scratch);
	return c.status;
}

bool adapter_targets_same(const struct lora_options *a, const struct lora_options *b, uint32_t layers)
{
	for (uint32_t layer = 0; layer < layers; layer++)
		for (enum lora_module m = 0; m < LORA_MODULES_COUNT; m++)
			if (lora_has(a, layer, m) != lora_has(b, layer, m))
				return false;
	return true;
}
