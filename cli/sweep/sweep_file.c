#include "cli/sweep/sweep_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep/search_file.h"
#include "cli/sweep/sweep_yaml.h"

enum { ARENA_BYTES_MAX = 64 * WEIR_CONFIG_BYTES_MAX };

static weir_status read_base(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	return reader_text(r, path, node, "a job file", &r->sweep->base);
}

static weir_status read_out(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	weir_status status = reader_text(r, path, node, "a folder", &r->sweep->out);
	return status == WEIR_OK && strlen(r->sweep->out) > WEIR_PATH_BYTES_MAX / 2
	           ? reader_fail_value(r, node, path, "a shorter path")
	           : status;
}

static weir_status read_metric(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	const bool is_text = node->type == YAML_SCALAR_NODE;
	for (enum quality_figure f = 0; f < QUALITY_FIGURES && is_text; f++)
		if (strcmp(reader_text_of(node), quality_figure_names[f]) == 0) {
			r->sweep->metric = f;
			return WEIR_OK;
		}
	return reader_fail_value(
	    r, node, path,
	    "auc, logloss, pr_auc, normalized_entropy, calibration, calibration_error, gauc, ndcg, recall or hit_rate");
}

static bool parse_seed(const yaml_node_t *node, uint64_t *out)
{
	const char *text = node->type == YAML_SCALAR_NODE ? reader_text_of(node) : "";
	char *end = NULL;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text && text[strspn(text, "0123456789")] == '\0' && errno == 0;
}

static weir_status read_seeds(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	struct sweep *s = r->sweep;
	weir_status status = reader_list(r, path, node, SWEEP_SEEDS_MAX, "a list of whole numbers", &s->seeds_count);
	for (uint32_t i = 0; i < s->seeds_count && status == WEIR_OK; i++) {
		const yaml_node_t *item = reader_item(r, node, i);
		if (!parse_seed(item, &s->seeds[i]))
			status = reader_fail_value(r, item, path, "a whole number");
		for (uint32_t j = 0; j < i && status == WEIR_OK; j++)
			if (s->seeds[j] == s->seeds[i])
				status = reader_fail_value(r, item, path, "a seed once");
	}
	return status;
}

/* --- Runs */

static weir_status read_name(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	static const char expected[] = "at most 40 letters, digits, '_', '-' and '.', not starting with '.'";
	struct sweep_run *run = out;
	const struct sweep *s = r->sweep;
	weir_status status = reader_text(r, path, node, expected, &run->name);
	if (status != WEIR_OK)
		return status;
	if (run->name[0] == '.' || run->name[strspn(run->name, letters)] || strlen(run->name) >= SWEEP_NAME_BYTES_MAX)
		return reader_fail_value(r, node, path, expected);
	for (const struct sweep_run *other = s->runs; other < run; other++)
		if (strcmp(other->name, run->name) == 0)
			return reader_fail_at(r, node, path, "'%s' is the name of the run on line %u, too", run->name, other->line);
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
	weir_status status = reader_list(r, path, node, SWEEP_SETS_MAX, "a list of 'KEY=VALUE'", &run->sets_count);
	for (uint32_t i = 0; i < run->sets_count && status == WEIR_OK; i++) {
		const yaml_node_t *item = reader_item(r, node, i);
		status = reader_text(r, path, item, "KEY=VALUE, such as model.dim=16", &run->sets[i]);
		if (status == WEIR_OK && (!strchr(run->sets[i], '=') || run->sets[i][0] == '='))
			status = reader_fail_value(r, item, path, "KEY=VALUE, such as model.dim=16");
		if (status == WEIR_OK && (sets_key(run->sets[i], "run_dir") || sets_key(run->sets[i], "train.seed")))
			status = reader_fail_at(r, item, path, "'%.*s': run_dir and train.seed are the sweep's own to set", VALUE_SHOWN,
			                        run->sets[i]);
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
	weir_status status =
	    reader_list(r, path, node, SWEEP_RUNS_MAX, "a list of {name: NAME, set: [KEY=VALUE, ...]}", &s->runs_count);
	for (uint32_t i = 0; i < s->runs_count && status == WEIR_OK; i++) {
		const yaml_node_t *item = reader_item(r, node, i);
		char at[VALUE_SHOWN / 2];
		snprintf(at, sizeof at, "%s[%u]", path, i);
		s->runs[i].line = (uint32_t)item->start_mark.line + 1;
		status = reader_map(r, at, item, fields, sizeof fields / sizeof *fields, &s->runs[i]);
	}
	return status;
}

/* --- The file */

static weir_status read_document(struct reader *r)
{
	static const struct field fields[] = {{"base", read_base, "a job file"},  {"seeds", read_seeds, NULL},
	                                      {"metric", read_metric, NULL},      {"out", read_out, "a folder for the results"},
	                                      {"set", read_set_of_all, NULL},     {"runs", read_runs, NULL},
	                                      {"search", search_file_read, NULL}, {"space", search_file_read_space, NULL}};
	yaml_node_t *root = yaml_document_get_root_node(&r->yaml);
	if (!root)
		return weir_fail(r->err, WEIR_E_INVALID, "%s: empty; expected base, out and runs", r->sweep->path);
	const weir_status status = reader_map(r, "", root, fields, sizeof fields / sizeof *fields, NULL);
	if (status != WEIR_OK)
		return status;
	const struct sweep *s = r->sweep;
	if (s->search && s->runs_count > 0)
		return reader_fail_at(r, root, "", "has runs and search; expected one of them: a search makes its own runs");
	if (s->search)
		return search_file_check(r, root);
	return s->runs_count > 0
	           ? WEIR_OK
	           : reader_fail_at(r, root, "",
	                            "runs is missing; expected a list of {name: NAME, set: [KEY=VALUE, ...]}, or search and space");
}

weir_status sweep_file_parse(struct sweep **out, const char *text, const char *path, weir_error *err)
{
	static const uint64_t seeds[] = {1, 2, 3};
	struct sweep *s = calloc(1, sizeof *s);
	if (!s || !(s->arena = arena_create(ARENA_BYTES_MAX)) || !(s->path = arena_strdup(s->arena, path))) {
		sweep_destroy(s);
		return weir_fail(err, WEIR_E_MEMORY, "%s: no memory to read it", path);
	}
	struct reader r = {.sweep = s, .err = err};
	weir_status status = reader_load(&r, text, read_document);
	if (s->seeds_count == 0) {
		memcpy(s->seeds, seeds, sizeof seeds);
		s->seeds_count = s->search ? 1 : sizeof seeds / sizeof *seeds;
	}
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
	if (s) {
		free(s->search);
		arena_destroy(s->arena);
	}
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
