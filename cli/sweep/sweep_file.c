/* Reads a sweep file with libyaml, as common/job/job_read.c reads job files. */
#include "cli/sweep/sweep_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/system/disk.h"

enum { VALUE_SHOWN = 60, ARENA_BYTES_MAX = 64 * WEIR_CONFIG_BYTES_MAX, KEYS_MAX = 8 };

struct reader {
	struct sweep *sweep;
	yaml_document_t yaml;
	weir_error *err;
};

/* One key of a map. */
struct field {
	const char *name;
	weir_status (*read)(struct reader *r, const char *path, const yaml_node_t *node, void *out);
	const char *expected; /* the expected value of a required key; NULL for an optional key */
};

WEIR_PRINTF(4, 5)
static weir_status fail_at(struct reader *r, const yaml_node_t *node, const char *path, const char *format, ...)
{
	char what[WEIR_ERROR_TEXT_BYTES / 2];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	return weir_fail(r->err, WEIR_E_INVALID, "%s:%zu:%zu: %s%s%s", r->sweep->path, node->start_mark.line + 1,
	                 node->start_mark.column + 1, path, *path ? ": " : "", what);
}

static const char *text_of(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

static weir_status fail_value(struct reader *r, const yaml_node_t *node, const char *path, const char *expected)
{
	if (node->type != YAML_SCALAR_NODE)
		return fail_at(r, node, path, "is %s; expected %s", node->type == YAML_MAPPING_NODE ? "a map" : "a list", expected);
	return fail_at(r, node, path, "is '%.*s'; expected %s", VALUE_SHOWN, text_of(node), expected);
}

/* --- Values */

static weir_status keep_text(struct reader *r, const char *path, const yaml_node_t *node, const char *expected, const char **out)
{
	if (node->type != YAML_SCALAR_NODE || node->data.scalar.length == 0 || strlen(text_of(node)) != node->data.scalar.length)
		return fail_value(r, node, path, expected);
	*out = arena_strdup(r->sweep->arena, text_of(node));
	return *out ? WEIR_OK : weir_fail(r->err, WEIR_E_MEMORY, "%s: no memory for its values", r->sweep->path);
}

static weir_status read_base(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	return keep_text(r, path, node, "a job file", &r->sweep->base);
}

static weir_status read_out(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	weir_status status = keep_text(r, path, node, "a folder", &r->sweep->out);
	return status == WEIR_OK && strlen(r->sweep->out) > WEIR_PATH_BYTES_MAX / 2 ? fail_value(r, node, path, "a shorter path")
	                                                                            : status;
}

static weir_status read_metric(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	const bool is_text = node->type == YAML_SCALAR_NODE;
	for (enum quality_figure f = 0; f < QUALITY_FIGURES && is_text; f++)
		if (strcmp(text_of(node), quality_figure_names[f]) == 0) {
			r->sweep->metric = f;
			return WEIR_OK;
		}
	return fail_value(r, node, path,
	                  "auc, logloss, pr_auc, normalized_entropy, calibration, calibration_error, gauc, ndcg, recall or hit_rate");
}

/* Returns the items of a list of 1 to `most` items. */
static weir_status list_of(struct reader *r, const char *path, const yaml_node_t *node, uint32_t most, const char *what,
                           uint32_t *count)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return fail_value(r, node, path, what);
	const size_t n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (n < 1 || n > most)
		return fail_at(r, node, path, "has %zu items; expected %s, from 1 to %u of them", n, what, most);
	*count = (uint32_t)n;
	return WEIR_OK;
}

static yaml_node_t *item_of(struct reader *r, const yaml_node_t *list, uint32_t i)
{
	return yaml_document_get_node(&r->yaml, list->data.sequence.items.start[i]);
}

static bool parse_seed(const yaml_node_t *node, uint64_t *out)
{
	const char *text = node->type == YAML_SCALAR_NODE ? text_of(node) : "";
	char *end = NULL;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text && text[strspn(text, "0123456789")] == '\0' && errno == 0;
}

static weir_status read_seeds(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	struct sweep *s = r->sweep;
	weir_status status = list_of(r, path, node, SWEEP_SEEDS_MAX, "a list of whole numbers", &s->seeds_count);
	for (uint32_t i = 0; i < s->seeds_count && status == WEIR_OK; i++) {
		const yaml_node_t *item = item_of(r, node, i);
		if (!parse_seed(item, &s->seeds[i]))
			status = fail_value(r, item, path, "a whole number");
		for (uint32_t j = 0; j < i && status == WEIR_OK; j++)
			if (s->seeds[j] == s->seeds[i])
				status = fail_value(r, item, path, "a seed once");
	}
	return status;
}

/* --- Maps */

static weir_status fail_unknown(struct reader *r, const yaml_node_t *key, const struct field *fields, uint32_t count,
                                const char *path)
{
	const char *names[KEYS_MAX];
	char known[VALUE_SHOWN * 2] = "";
	size_t used = 0;
	for (uint32_t i = 0; i < count; i++) {
		names[i] = fields[i].name;
		used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
	}
	const char *near = job_nearest(text_of(key), names, count);
	if (near)
		return fail_at(r, key, path, "unknown key '%.*s'; the nearest valid key is '%s' (valid here: %s)", VALUE_SHOWN,
		               text_of(key), near, known);
	return fail_at(r, key, path, "unknown key '%.*s'; valid here: %s", VALUE_SHOWN, text_of(key), known);
}

static weir_status read_pair(struct reader *r, const char *path, const yaml_node_pair_t *pair, const struct field *fields,
                             uint32_t count, bool *given, void *out)
{
	const yaml_node_t *key = yaml_document_get_node(&r->yaml, pair->key), *value = yaml_document_get_node(&r->yaml, pair->value);
	char full[VALUE_SHOWN];
	if (key->type != YAML_SCALAR_NODE)
		return fail_at(r, key, path, "a key must be a word, not a list or a map");
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(text_of(key), fields[i].name) != 0)
			continue;
		snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", fields[i].name);
		if (given[i])
			return fail_at(r, key, full, "duplicate key");
		given[i] = true;
		return fields[i].read(r, full, value, out);
	}
	return fail_unknown(r, key, fields, count, path);
}

static weir_status read_map(struct reader *r, const char *path, const yaml_node_t *node, const struct field *fields,
                            uint32_t count, void *out)
{
	bool given[KEYS_MAX] = {false};
	weir_status status = WEIR_OK;
	if (node->type != YAML_MAPPING_NODE)
		return fail_value(r, node, path, "a map");
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top && status == WEIR_OK; p++)
		status = read_pair(r, path, p, fields, count, given, out);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		if (fields[i].expected && !given[i])
			status = fail_at(r, node, path, "%s is missing; expected %s", fields[i].name, fields[i].expected);
	return status;
}

/* --- Runs */

static weir_status read_name(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	static const char expected[] = "at most 40 letters, digits, '_', '-' and '.', not starting with '.'";
	struct sweep_run *run = out;
	const struct sweep *s = r->sweep;
	weir_status status = keep_text(r, path, node, expected, &run->name);
	if (status != WEIR_OK)
		return status;
	if (run->name[0] == '.' || run->name[strspn(run->name, letters)] || strlen(run->name) >= SWEEP_NAME_BYTES_MAX)
		return fail_value(r, node, path, expected);
	for (const struct sweep_run *other = s->runs; other < run; other++)
		if (strcmp(other->name, run->name) == 0)
			return fail_at(r, node, path, "'%s' is the name of the run on line %u, too", run->name, other->line);
	return WEIR_OK;
}

static bool sets_key(const char *set, const char *key)
{
	return strncmp(set, key, strlen(key)) == 0 && set[strlen(key)] == '=';
}

/* Reads a list of settings. An item such as {a: b} is a map, and an unquoted a.b=[1, 2] breaks at
 * its comma; quotes turn both into texts. */
static weir_status read_set(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	struct sweep_run *run = out;
	weir_status status = list_of(r, path, node, SWEEP_SETS_MAX, "a list of 'KEY=VALUE'", &run->sets_count);
	for (uint32_t i = 0; i < run->sets_count && status == WEIR_OK; i++) {
		const yaml_node_t *item = item_of(r, node, i);
		status = keep_text(r, path, item, "KEY=VALUE, such as model.dim=16", &run->sets[i]);
		if (status == WEIR_OK && (!strchr(run->sets[i], '=') || run->sets[i][0] == '='))
			status = fail_value(r, item, path, "KEY=VALUE, such as model.dim=16");
		if (status == WEIR_OK && (sets_key(run->sets[i], "run_dir") || sets_key(run->sets[i], "train.seed")))
			status =
			    fail_at(r, item, path, "'%.*s': run_dir and train.seed are the sweep's own to set", VALUE_SHOWN, run->sets[i]);
	}
	return status;
}

static weir_status read_set_of_all(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	return read_set(r, path, node, &r->sweep->all);
}

static weir_status read_runs(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const struct field fields[] = {{"name", read_name, "a word for the table"}, {"set", read_set, NULL}};
	(void)out;
	struct sweep *s = r->sweep;
	weir_status status = list_of(r, path, node, SWEEP_RUNS_MAX, "a list of {name: NAME, set: [KEY=VALUE, ...]}", &s->runs_count);
	for (uint32_t i = 0; i < s->runs_count && status == WEIR_OK; i++) {
		const yaml_node_t *item = item_of(r, node, i);
		char at[VALUE_SHOWN / 2];
		snprintf(at, sizeof at, "%s[%u]", path, i);
		s->runs[i].line = (uint32_t)item->start_mark.line + 1;
		status = read_map(r, at, item, fields, sizeof fields / sizeof *fields, &s->runs[i]);
	}
	return status;
}

/* --- The file */

static weir_status read_document(struct reader *r)
{
	static const struct field fields[] = {
	    {"base", read_base, "a job file"}, {"seeds", read_seeds, NULL},
	    {"metric", read_metric, NULL},     {"out", read_out, "a folder for the results"},
	    {"set", read_set_of_all, NULL},    {"runs", read_runs, "a list of {name: NAME, set: [KEY=VALUE, ...]}"}};
	yaml_node_t *root = yaml_document_get_root_node(&r->yaml);
	if (!root)
		return weir_fail(r->err, WEIR_E_INVALID, "%s: empty; expected base, out and runs", r->sweep->path);
	return read_map(r, "", root, fields, sizeof fields / sizeof *fields, NULL);
}

static weir_status load_document(struct reader *r, yaml_parser_t *parser)
{
	if (yaml_parser_load(parser, &r->yaml))
		return WEIR_OK;
	return weir_fail(r->err, WEIR_E_PARSE, "%s:%zu:%zu: not valid YAML: %s", r->sweep->path, parser->problem_mark.line + 1,
	                 parser->problem_mark.column + 1, parser->problem ? parser->problem : "unreadable");
}

static weir_status load(struct reader *r, const char *text)
{
	yaml_parser_t parser;
	if (!yaml_parser_initialize(&parser))
		return weir_fail(r->err, WEIR_E_MEMORY, "%s: no memory to read it", r->sweep->path);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	weir_status status = load_document(r, &parser);
	if (status == WEIR_OK) {
		status = read_document(r);
		yaml_document_delete(&r->yaml);
	}
	if (status == WEIR_OK)
		status = load_document(r, &parser);
	if (status == WEIR_OK) {
		const yaml_node_t *second = yaml_document_get_root_node(&r->yaml);
		status = second ? fail_at(r, second, "", "a second YAML document; expected one") : WEIR_OK;
		yaml_document_delete(&r->yaml);
	}
	yaml_parser_delete(&parser);
	return status;
}

weir_status sweep_file_parse(struct sweep **out, const char *text, const char *path, weir_error *err)
{
	static const uint64_t seeds[] = {1, 2, 3};
	struct sweep *s = calloc(1, sizeof *s);
	if (!s || !(s->arena = arena_create(ARENA_BYTES_MAX)) || !(s->path = arena_strdup(s->arena, path))) {
		sweep_destroy(s);
		return weir_fail(err, WEIR_E_MEMORY, "%s: no memory to read it", path);
	}
	memcpy(s->seeds, seeds, sizeof seeds);
	s->seeds_count = sizeof seeds / sizeof *seeds;
	struct reader r = {.sweep = s, .err = err};
	weir_status status = load(&r, text);
	if (status == WEIR_OK)
		*out = s;
	else
		sweep_destroy(s);
	return status;
}

weir_status sweep_file_read(struct sweep **out, const char *path, weir_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	weir_status status = job_read_file(path, &text, &bytes, err);
	if (status != WEIR_OK)
		return status;
	if (strlen(text) != bytes)
		status = weir_fail(err, WEIR_E_PARSE, "%s: a zero byte at offset %zu: this is not a YAML text", path, strlen(text));
	else
		status = sweep_file_parse(out, text, path, err);
	free(text);
	return status;
}

void sweep_destroy(struct sweep *s)
{
	if (s)
		arena_destroy(s->arena);
	free(s);
}

/* --- Its jobs */

void sweep_sets(const struct sweep *s, const struct sweep_run *run, uint64_t seed, struct sweep_sets *out)
{
	memcpy(out->items, s->all.sets, s->all.sets_count * sizeof *run->sets);
	memcpy(out->items + s->all.sets_count, run->sets, run->sets_count * sizeof *run->sets);
	out->count = s->all.sets_count + run->sets_count;
	snprintf(out->own[0], sizeof out->own[0], "run_dir=%s/" SWEEP_RUN_DIR, s->out);
	snprintf(out->own[1], sizeof out->own[1], "train.seed=%llu", (unsigned long long)seed);
	out->items[out->count++] = out->own[0];
	out->items[out->count++] = out->own[1];
}

static weir_status check_job(struct sweep *s, const struct sweep_run *run, weir_error *err)
{
	struct sweep_sets sets;
	struct job *job = NULL;
	weir_error why = {0};
	if (s->all.sets_count + run->sets_count > SWEEP_SETS_MAX)
		return weir_fail(err, WEIR_E_INVALID, "%s:%u: run %s sets %u keys, with those of all runs; at most %u", s->path,
		                 run->line, run->name, s->all.sets_count + run->sets_count, SWEEP_SETS_MAX);
	sweep_sets(s, run, s->seeds[0], &sets);
	struct job_options base = {.path = s->base, .sets.count = sets.count};
	memcpy(base.sets.items, sets.items, sets.count * sizeof *sets.items);
	weir_status status = job_options_load(&base, &job, &why);
	if (status == WEIR_OK)
		status = job_check_own(job, &why);
	if (status == WEIR_OK && !job_has_valid(job))
		status =
		    weir_fail(&why, WEIR_E_INVALID, "it has no validation part, whose metric after each pass is what the plots show");
	if (status == WEIR_OK && s->metric != FIGURE_LOGLOSS && job_is_language(job))
		status = weir_fail(&why, WEIR_E_INVALID, "text has a loss alone; expected metric: logloss");
	if (status == WEIR_OK) {
		s->has_test &= job_has_test(job);
		s->language |= job_is_language(job);
	}
	job_destroy(job);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s:%u: run %s: %s", s->path, run->line, run->name, why.text);
}

weir_status sweep_check_jobs(struct sweep *s, weir_error *err)
{
	weir_status status = WEIR_OK;
	s->has_test = true;
	s->language = false;
	for (uint32_t i = 0; i < s->runs_count && status == WEIR_OK; i++)
		status = check_job(s, &s->runs[i], err);
	return status;
}
