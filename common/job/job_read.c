/* YAML to one raw text per key of the schema. cli/sweep/sweep_file.c is the only other user of
 * libyaml. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "common/job/job_column_schema.h"

#define VALUE_SHOWN 60 /* bytes of a value that messages show */

struct document {
	struct reading *r;
	yaml_document_t yaml;
	const char *set; /* the --set that it comes from, or NULL */
};

static weir_status read_map(struct document *d, const char *path, const yaml_node_t *node);

static struct place place_of(const struct document *d, const yaml_node_t *node)
{
	return (struct place){
	    .set = d->set, .line = (uint32_t)node->start_mark.line + 1, .column = (uint32_t)node->start_mark.column + 1};
}

static weir_status out_of_memory(struct reading *r)
{
	return weir_fail(r->err, WEIR_E_MEMORY, "%s: its values need more memory than a job file may", r->name);
}

static const char *text_of(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

/* A short form of a node's value, for messages. */
static void describe(const yaml_node_t *node, char *out, size_t bytes)
{
	if (node->type == YAML_SCALAR_NODE)
		snprintf(out, bytes, "'%.*s'", VALUE_SHOWN, text_of(node));
	else
		snprintf(out, bytes, "%s", node->type == YAML_MAPPING_NODE ? "a map" : "a list");
}

/* --- Unknown keys */

/* The names inside a map, also joined for messages ("servers, workers, ..."), cut if that is too
 * long. */
static uint32_t children_of(const char *map, char names[JOB_KEYS_MAX][JOB_KEY_BYTES_MAX], char joined[JOB_EXPECTED_BYTES])
{
	uint32_t count = job_schema_children(map, names);
	size_t length = 0;
	joined[0] = 0;
	for (uint32_t i = 0; i < count; i++) {
		size_t bytes = strlen(names[i]);
		if (length + bytes + 3 > JOB_EXPECTED_BYTES)
			break;
		memcpy(joined + length, i > 0 ? ", " : "", i > 0 ? 2 : 0);
		length += i > 0 ? 2 : 0;
		memcpy(joined + length, names[i], bytes + 1);
		length += bytes;
	}
	return count;
}

/* A key of the same name elsewhere in the schema ("lr" at the top: tables.embedding.optimizer.lr),
 * or NULL. */
static const char *same_name_elsewhere(const char *name)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		const char *dot = strrchr(keys[i].path, '.');
		if (strcmp(dot ? dot + 1 : keys[i].path, name) == 0)
			return keys[i].path;
	}
	return NULL;
}

static weir_status fail_unknown(struct reading *r, const struct place *place, const char *map, const char *name,
                                const char *value)
{
	char names[JOB_KEYS_MAX][JOB_KEY_BYTES_MAX], known[JOB_EXPECTED_BYTES], path[WEIR_ERROR_TEXT_BYTES];
	const char *candidates[JOB_KEYS_MAX];
	uint32_t count = children_of(map, names, known);
	for (uint32_t i = 0; i < count; i++)
		candidates[i] = names[i];
	snprintf(path, sizeof path, "%s%s%.80s", map, *map ? "." : "", name);
	const char *nearest = job_nearest(name, candidates, count);
	const char *elsewhere = same_name_elsewhere(name);
	if (nearest) {
		char meant[JOB_KEY_BYTES_MAX];
		snprintf(meant, sizeof meant, "%s%s%s", map, *map ? "." : "", nearest);
		job_mark_wrong(r, meant);
		return job_fail(r, place, path, WEIR_E_INVALID,
		                "unknown key (value %s); the nearest valid key is '%s%s%s' (valid here: %s)", value, map, *map ? "." : "",
		                nearest, known);
	}
	if (elsewhere) {
		job_mark_wrong(r, elsewhere);
		return job_fail(r, place, path, WEIR_E_INVALID, "unknown key (value %s); the nearest valid key is '%s' (valid here: %s)",
		                value, elsewhere, known);
	}
	return job_fail(r, place, path, WEIR_E_INVALID, "unknown key (value %s); valid here: %s", value, known);
}

/* --- Values */

static uint32_t index_of(const struct key *key)
{
	uint32_t count;
	return (uint32_t)(key - job_schema(&count));
}

static bool is_list(const struct key *key)
{
	return key->type == KEY_U32_LIST || key->type == KEY_TEXT_LIST || key->type == KEY_FLOAT_LIST || key->type == KEY_COLUMNS;
}

static weir_status fail_type(struct reading *r, const struct place *place, const struct key *key, const char *value)
{
	char expected[JOB_EXPECTED_BYTES];
	job_schema_expected(key, expected);
	return job_fail(r, place, key->path, WEIR_E_INVALID, "is %s; expected %s", value, expected);
}

static bool is_null(const yaml_node_t *node)
{
	const char *text = text_of(node);
	return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (*text == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static weir_status read_scalar(struct document *d, const struct key *key, const yaml_node_t *node, const char **item)
{
	struct place place = place_of(d, node);
	char value[VALUE_SHOWN + 16];
	describe(node, value, sizeof value);
	if (node->type != YAML_SCALAR_NODE)
		return fail_type(d->r, &place, key, value);
	if (is_null(node))
		return fail_type(d->r, &place, key, "empty");
	if (strlen(text_of(node)) != node->data.scalar.length)
		return fail_type(d->r, &place, key, "a text with a zero byte in it");
	*item = arena_strdup(d->r->arena, text_of(node));
	return *item ? WEIR_OK : out_of_memory(d->r);
}

static weir_status read_leaf(struct document *d, const struct key *key, struct raw *raw, yaml_node_t *node)
{
	bool list = node->type == YAML_SEQUENCE_NODE && is_list(key);
	const yaml_node_item_t *first = list ? node->data.sequence.items.start : NULL;
	size_t count = list ? (size_t)(node->data.sequence.items.top - first) : 1;
	*raw = (struct raw){.given = true, .list = list, .count = (uint32_t)count, .place = place_of(d, node)};
	if (list && count > key->size) {
		char value[64];
		snprintf(value, sizeof value, "a list of %zu", count);
		const struct place place = raw->place;
		*raw = (struct raw){.wrong = true};
		return fail_type(d->r, &place, key, value);
	}
	raw->items = arena_alloc(d->r->arena, count * sizeof *raw->items);
	if (!raw->items)
		return out_of_memory(d->r);
	for (size_t i = 0; i < count; i++) {
		yaml_node_t *item = list ? yaml_document_get_node(&d->yaml, first[i]) : node;
		weir_status status = read_scalar(d, key, item, &raw->items[i]);
		if (status != WEIR_OK) {
			*raw = (struct raw){.wrong = true};
			return status;
		}
	}
	return WEIR_OK;
}

static weir_status check_duplicate(struct document *d, const char *path, const yaml_node_t *map, const yaml_node_pair_t *pair)
{
	yaml_node_t *key = yaml_document_get_node(&d->yaml, pair->key);
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
		const yaml_node_t *earlier = yaml_document_get_node(&d->yaml, p->key);
		if (strcmp(text_of(earlier), text_of(key)) == 0) {
			struct place place = place_of(d, key);
			return job_fail(d->r, &place, path, WEIR_E_INVALID, "duplicate key: it was given on line %zu already",
			                earlier->start_mark.line + 1);
		}
	}
	return WEIR_OK;
}

/* --- Columns: a list of maps, each with the keys of job_column_schema */

static weir_status read_column_pair(struct document *d, uint32_t column, struct raw_column *out, const yaml_node_t *map,
                                    const yaml_node_pair_t *pair)
{
	yaml_node_t *name = yaml_document_get_node(&d->yaml, pair->key), *node = yaml_document_get_node(&d->yaml, pair->value);
	const struct place place = place_of(d, name);
	char path[JOB_KEY_BYTES_MAX], value[VALUE_SHOWN + 16];
	if (name->type != YAML_SCALAR_NODE)
		return job_fail(d->r, &place, "data.columns", WEIR_E_INVALID, "a key must be a word, not a list or a map");
	const uint32_t row = job_column_key_row(text_of(name));
	if (row == COLUMN_KEYS) {
		describe(node, value, sizeof value);
		return job_column_fail_unknown(d->r, &place, column, text_of(name), value);
	}
	const struct key key = job_column_key(column, row, path);
	const weir_status status = check_duplicate(d, path, map, pair);
	return status == WEIR_OK ? read_leaf(d, &key, &out->raws[row], node) : status;
}

static weir_status read_column(struct document *d, uint32_t column, struct raw_column *out, const yaml_node_t *node)
{
	char path[JOB_KEY_BYTES_MAX], value[VALUE_SHOWN + 16];
	weir_status worst = WEIR_OK;
	*out = (struct raw_column){.place = place_of(d, node)};
	if (node->type != YAML_MAPPING_NODE) {
		describe(node, value, sizeof value);
		snprintf(path, sizeof path, "data.columns[%u]", column);
		return job_fail(d->r, &out->place, path, WEIR_E_INVALID,
		                "is %s; expected a map with at least name and kind, such as {name: user, kind: categorical}", value);
	}
	for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
		const weir_status status = read_column_pair(d, column, out, node, p);
		if (status == WEIR_E_MEMORY)
			return status;
		worst = status != WEIR_OK ? status : worst;
	}
	return worst;
}

static weir_status read_columns(struct document *d, const struct key *key, struct raw *raw, const yaml_node_t *node)
{
	char value[VALUE_SHOWN + 16];
	const bool list = node->type == YAML_SEQUENCE_NODE;
	const yaml_node_item_t *first = list ? node->data.sequence.items.start : NULL;
	const size_t count = list ? (size_t)(node->data.sequence.items.top - first) : 0;
	*raw = (struct raw){.given = true, .list = true, .count = (uint32_t)count, .place = place_of(d, node)};
	if (!list || count > key->size) {
		describe(node, value, sizeof value);
		if (list)
			snprintf(value, sizeof value, "a list of %zu", count);
		const struct place place = raw->place;
		*raw = (struct raw){.wrong = true};
		return fail_type(d->r, &place, key, value);
	}
	raw->columns = arena_alloc(d->r->arena, (count + 1) * sizeof *raw->columns);
	if (!raw->columns)
		return out_of_memory(d->r);
	for (uint32_t i = 0; i < count; i++) {
		const weir_status status = read_column(d, i, &raw->columns[i], yaml_document_get_node(&d->yaml, first[i]));
		raw->columns[i].wrong = status != WEIR_OK;
		if (status == WEIR_E_MEMORY)
			return status;
	}
	return WEIR_OK;
}

/* --- Maps. The schema bounds the depth, so an alias that contains itself ends here too. */

static weir_status read_at(struct document *d, const char *path, yaml_node_t *node)
{
	const struct key *key = job_schema_find(path);
	if (!key)
		return read_map(d, path, node);
	struct raw *raw = &d->r->raws[index_of(key)];
	return key->type == KEY_COLUMNS ? read_columns(d, key, raw, node) : read_leaf(d, key, raw, node);
}

static weir_status read_pair(struct document *d, const char *path, const yaml_node_t *map, const yaml_node_pair_t *pair)
{
	yaml_node_t *key = yaml_document_get_node(&d->yaml, pair->key), *node = yaml_document_get_node(&d->yaml, pair->value);
	struct place place = place_of(d, key);
	char full[JOB_KEY_BYTES_MAX], value[VALUE_SHOWN + 16];
	if (key->type != YAML_SCALAR_NODE)
		return job_fail(d->r, &place, path, WEIR_E_INVALID, "a key must be a word, not a list or a map");
	int length = snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", text_of(key));
	bool fits = length > 0 && (size_t)length < sizeof full;
	if (!fits || strchr(text_of(key), '.') || (!job_schema_find(full) && !job_schema_is_map(full))) {
		describe(node, value, sizeof value);
		return fail_unknown(d->r, &place, path, text_of(key), value);
	}
	weir_status status = check_duplicate(d, full, map, pair);
	return status == WEIR_OK ? read_at(d, full, node) : status;
}

static weir_status read_map(struct document *d, const char *path, const yaml_node_t *node)
{
	if (node->type != YAML_MAPPING_NODE) {
		struct place place = place_of(d, node);
		char names[JOB_KEYS_MAX][JOB_KEY_BYTES_MAX], known[JOB_EXPECTED_BYTES], value[VALUE_SHOWN + 16];
		describe(node, value, sizeof value);
		children_of(path, names, known);
		job_mark_wrong(d->r, path);
		return job_fail(d->r, &place, path, WEIR_E_INVALID, "is %s; expected a map with the keys %s", value, known);
	}
	for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
		const weir_status status = read_pair(d, path, node, p);
		if (status == WEIR_E_MEMORY)
			return status;
	}
	return WEIR_OK;
}

/* --- Documents */

static weir_status fail_syntax(struct reading *r, const yaml_parser_t *parser, const char *set)
{
	struct place place = {
	    .set = set, .line = (uint32_t)parser->problem_mark.line + 1, .column = (uint32_t)parser->problem_mark.column + 1};
	if (parser->error == YAML_MEMORY_ERROR)
		return out_of_memory(r);
	const char *problem = parser->problem ? parser->problem : "unreadable";
	if (!parser->context)
		return job_fail(r, &place, "", WEIR_E_PARSE, "not valid YAML: %s", problem);
	return job_fail(r, &place, "", WEIR_E_PARSE, "not valid YAML: %s %s (line %zu)", problem, parser->context,
	                parser->context_mark.line + 1);
}

static weir_status read_root(struct document *d, const char *path)
{
	yaml_node_t *root = yaml_document_get_root_node(&d->yaml);
	const struct place set = {.set = d->set};
	if (!root && d->set)
		return job_fail(d->r, &set, path, WEIR_E_INVALID, "is empty; expected a value");
	if (!root) {
		job_mark_wrong(d->r, "");
		return job_fail(d->r, NULL, "", WEIR_E_INVALID, "empty; expected at least 'job: NAME' and where the data is");
	}
	return read_at(d, path, root);
}

/* Reads one YAML document as the value of `path`; nothing may follow it. */
static weir_status read_text(struct reading *r, const char *path, const char *text, const char *set)
{
	yaml_parser_t parser;
	if (!yaml_parser_initialize(&parser))
		return out_of_memory(r);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	struct document d = {.r = r, .set = set};
	weir_status status;
	if (!yaml_parser_load(&parser, &d.yaml)) {
		status = fail_syntax(r, &parser, set);
	} else {
		status = read_root(&d, path);
		yaml_document_delete(&d.yaml);
		if (status == WEIR_OK && !yaml_parser_load(&parser, &d.yaml)) {
			status = fail_syntax(r, &parser, set);
		} else if (status == WEIR_OK) {
			yaml_node_t *second = yaml_document_get_root_node(&d.yaml);
			struct place place = second ? place_of(&d, second) : (struct place){0};
			if (second)
				status = job_fail(r, &place, "", WEIR_E_INVALID, "a second YAML document; expected one");
			yaml_document_delete(&d.yaml);
		}
	}
	yaml_parser_delete(&parser);
	return status;
}

weir_status job_read_yaml(struct reading *r, const char *text)
{
	return read_text(r, "", text, NULL);
}

/* Takes the text itself as the value of a key, without YAML, so that `*.tsv` and `a: b` stay as
 * they are. */
static weir_status read_plain(struct reading *r, const struct key *key, const char *text, const char *set)
{
	struct raw *raw = &r->raws[index_of(key)];
	*raw = (struct raw){.given = true, .count = 1, .place = {.set = set}};
	raw->items = arena_alloc(r->arena, sizeof *raw->items);
	if (raw->items)
		raw->items[0] = arena_strdup(r->arena, text);
	return raw->items && raw->items[0] ? WEIR_OK : out_of_memory(r);
}

/* Copies KEY of KEY=VALUE, without the spaces around it. */
static weir_status split_set(struct reading *r, const char *set, char path[JOB_KEY_BYTES_MAX], const char **value)
{
	const struct place place = {.set = set};
	const char *equals = strchr(set, '=');
	size_t length = equals ? (size_t)(equals - set) : 0;
	while (length > 0 && set[length - 1] == ' ')
		length--;
	if (length == 0)
		return job_fail(r, &place, "", WEIR_E_INVALID, "expected KEY=VALUE, such as model.dim=16");
	if (length >= JOB_KEY_BYTES_MAX)
		return job_fail(r, &place, "", WEIR_E_INVALID, "no key is as long as that");
	memcpy(path, set, length);
	path[length] = 0;
	*value = equals + 1 + strspn(equals + 1, " ");
	return WEIR_OK;
}

/* Whether a value is YAML: a quoted text, or a list if the key takes one. Otherwise [::1]:0 and
 * {a,b}.tsv are texts. */
static bool is_yaml(const struct key *key, const char *value)
{
	const size_t length = strlen(value);
	if (key->type == KEY_COLUMNS)
		return true;
	if (*value == '[')
		return key->type == KEY_U32_LIST || key->type == KEY_FLOAT_LIST ||
		       (key->type == KEY_TEXT_LIST && value[length - 1] == ']');
	return *value == '\'' || *value == '"';
}

static weir_status read_set(struct reading *r, const char *set)
{
	struct place place = {.set = set};
	char path[JOB_KEY_BYTES_MAX];
	const char *value = NULL;
	const weir_status split = split_set(r, set, path, &value);
	if (split != WEIR_OK)
		return split;
	const struct key *key = job_schema_find(path);
	if (key && !is_yaml(key, value))
		return read_plain(r, key, value, set);
	if (key || job_schema_is_map(path))
		return read_text(r, path, value, set);
	char shown[VALUE_SHOWN + 16];
	snprintf(shown, sizeof shown, "'%.*s'", VALUE_SHOWN, value);
	/* shorten the path to an existing map */
	for (char *dot = strrchr(path, '.'); dot; dot = strrchr(path, '.')) {
		*dot = 0;
		if (job_schema_is_map(path))
			return fail_unknown(r, &place, path, dot + 1, shown);
	}
	return fail_unknown(r, &place, "", path, shown);
}

weir_status job_read_sets(struct reading *r, const char *const *sets, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const weir_status status = read_set(r, sets[i]);
		if (status == WEIR_E_MEMORY)
			return status;
	}
	return WEIR_OK;
}

weir_status job_read_default(struct reading *r, uint32_t row)
{
	uint32_t count;
	const struct key *key = &job_schema(&count)[row];
	struct raw *raw = &r->raws[row];
	const bool wrong = raw->wrong;
	weir_status status = WEIR_OK;
	if (is_list(key) && key->fallback[0] == 0)
		*raw = (struct raw){0};
	else
		status = key->fallback[0] == '[' ? read_text(r, key->path, key->fallback, NULL) : read_plain(r, key, key->fallback, NULL);
	assert(status == WEIR_OK || status == WEIR_E_MEMORY);
	raw->given = false;
	raw->wrong = wrong;
	raw->place = (struct place){0};
	return status;
}

/* Reports a required key that was not given; reading goes on with an empty text. */
static weir_status miss(struct reading *r, const struct key *key)
{
	char expected[JOB_EXPECTED_BYTES];
	struct raw *raw = &r->raws[index_of(key)];
	job_schema_expected(key, expected);
	if (!raw->wrong)
		(void)job_fail(r, NULL, key->path, WEIR_E_INVALID, "missing; expected %s", expected);
	const weir_status status = read_plain(r, key, "", NULL);
	raw->wrong = true;
	return status;
}

weir_status job_read_defaults(struct reading *r)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		if (!r->raws[i].given && keys[i].type != KEY_LATER)
			status = keys[i].fallback ? job_read_default(r, i) : miss(r, &keys[i]);
	return status;
}
