#include "cli/sweep/search_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS_DEFAULT = 20, STARTUP_DEFAULT = 10, STARTUP_MEDIAN = 5, ETA_DEFAULT = 3, PARALLEL_MAX = 64 };
#define QUANTILE_DEFAULT 0.2

static struct sweep_search *search_of(struct reader *r)
{
	struct sweep *s = r->sweep;
	if (!s->search && (s->search = calloc(1, sizeof *s->search))) {
		s->search->options.first = 1;
		s->search->options.seed = 1;
		s->search->parallel = 1;
	}
	return s->search;
}

static weir_status no_memory(struct reader *r)
{
	return weir_fail(r->err, WEIR_E_MEMORY, "%s: no memory for its search", r->sweep->path);
}

/* --- Numbers */

static bool parse_number(const yaml_node_t *node, double *out)
{
	const char *text = node->type == YAML_SCALAR_NODE ? reader_text_of(node) : "";
	char *end = NULL;
	*out = strtod(text, &end);
	return *text && *end == '\0' && isfinite(*out);
}

static weir_status read_number(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	return parse_number(node, out) ? WEIR_OK : reader_fail_value(r, node, path, "a number");
}

static weir_status read_positive(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	return parse_number(node, out) && *(double *)out > 0 ? WEIR_OK : reader_fail_value(r, node, path, "a number above 0");
}

static weir_status read_count(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	double x;
	if (!parse_number(node, &x) || x < 1 || x > UINT32_MAX || x != floor(x))
		return reader_fail_value(r, node, path, "a whole number from 1");
	*(uint32_t *)out = (uint32_t)x;
	return WEIR_OK;
}

static weir_status read_flag(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	const char *text = node->type == YAML_SCALAR_NODE ? reader_text_of(node) : "";
	*(bool *)out = strcmp(text, "true") == 0;
	return *(bool *)out || strcmp(text, "false") == 0 ? WEIR_OK : reader_fail_value(r, node, path, "true or false");
}

static weir_status read_word(struct reader *r, const char *path, const yaml_node_t *node, const char *const *words,
                             uint32_t count, const char *expected, uint32_t *out)
{
	for (*out = 0; *out < count && node->type == YAML_SCALAR_NODE; ++*out)
		if (strcmp(reader_text_of(node), words[*out]) == 0)
			return WEIR_OK;
	return reader_fail_value(r, node, path, expected);
}

/* The readers of fields of a search: `out` is the search. */
#define SEARCH_FIELD(name, read, member)                                                            \
	static weir_status name(struct reader *r, const char *path, const yaml_node_t *node, void *out) \
	{                                                                                               \
		return read(r, path, node, &((struct sweep_search *)out)->member);                          \
	}
SEARCH_FIELD(read_trials, read_count, options.trials)
SEARCH_FIELD(read_passes, read_count, options.steps)
SEARCH_FIELD(read_first, read_count, options.first)
SEARCH_FIELD(read_eta, read_count, options.eta)
SEARCH_FIELD(read_startup, read_count, options.startup)
SEARCH_FIELD(read_quantile, read_positive, options.quantile)
SEARCH_FIELD(read_parallel, read_count, parallel)
SEARCH_FIELD(read_budget_seconds, read_positive, seconds_most)
SEARCH_FIELD(read_budget_samples, read_positive, samples_most)
SEARCH_FIELD(read_budget_bytes, read_positive, bytes_most)
SEARCH_FIELD(read_budget_joules, read_positive, joules_most)
#undef SEARCH_FIELD

/* --- Measures */

/* Whether more of a figure is better. */
static bool grows(const char *path)
{
	static const char *const names[] = {"auc",      "pr_auc",        "gauc",         "ndcg", "recall",
	                                    "hit_rate", "samples_per_s", "tokens_per_s", "mfu"};
	const char *dot = strrchr(path, '.');
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(dot ? dot + 1 : path, names[i]) == 0)
			return true;
	return false;
}

bool measure_parse(struct arena *arena, const char *name, struct measure *out)
{
	static const struct {
		const char *name;
		enum measure_kind kind;
	} own[] = {{"bytes", MEASURE_BYTES}, {"seconds", MEASURE_SECONDS}, {"samples", MEASURE_SAMPLES}, {"joules", MEASURE_JOULES}};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
	*out = (struct measure){.name = arena_strdup(arena, name), .kind = MEASURE_REPORT};
	if (!out->name || !*name || name[strspn(name, letters)])
		return false;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		out->kind = strcmp(name, own[i].name) == 0 ? own[i].kind : out->kind;
	out->path = out->name;
	if (strncmp(name, "valid.", 6) == 0) {
		out->kind = MEASURE_VALID;
		out->path = out->name + 6;
	}
	out->maximize = grows(out->path);
	if (out->kind != MEASURE_VALID)
		return true;
	for (enum quality_figure f = 0; f < QUALITY_FIGURES; f++)
		if (strcmp(out->path, quality_figure_names[f]) == 0)
			return true;
	return strcmp(out->path, "loss") == 0;
}

static weir_status read_objective(struct reader *r, const char *path, const yaml_node_t *node, struct measure *out)
{
	const char *name = NULL;
	static const char expected[] =
	    "valid.auc, valid.logloss or another figure of the validation part, bytes, seconds, samples, joules, or "
	    "the path of a number in the report";
	const weir_status status = reader_text(r, path, node, expected, &name);
	return status == WEIR_OK && !measure_parse(r->sweep->arena, name, out) ? reader_fail_value(r, node, path, expected) : status;
}

static weir_status read_metrics(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	struct sweep_search *s = out;
	uint32_t count = 1;
	weir_status status = WEIR_OK;
	if (node->type != YAML_SEQUENCE_NODE)
		status = read_objective(r, path, node, &s->objectives[0]);
	else
		status = reader_list(r, path, node, RANKING_COSTS_MAX, "objectives", &count);
	for (uint32_t i = 0; i < count && status == WEIR_OK && node->type == YAML_SEQUENCE_NODE; i++)
		status = read_objective(r, path, reader_item(r, node, i), &s->objectives[i]);
	s->options.costs = count;
	return status;
}

static weir_status read_direction(struct reader *r, const char *path, const yaml_node_t *node, bool *maximize)
{
	static const char *const words[] = {"minimize", "maximize"};
	uint32_t word = 0;
	const weir_status status = read_word(r, path, node, words, 2, "maximize or minimize", &word);
	*maximize = word == 1;
	return status;
}

/* After `metric`: the directions are of its objectives. */
static weir_status read_directions(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	struct sweep_search *s = out;
	uint32_t count = 1;
	if (s->options.costs == 0)
		return reader_fail_at(r, node, path, "comes before metric; expected after it");
	if (node->type != YAML_SEQUENCE_NODE && s->options.costs == 1)
		return read_direction(r, path, node, &s->objectives[0].maximize);
	weir_status status = reader_list(r, path, node, RANKING_COSTS_MAX, "a direction for each objective", &count);
	if (status == WEIR_OK && count != s->options.costs)
		status = reader_fail_at(r, node, path, "has %u items; expected %u, one for each objective", count, s->options.costs);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		status = read_direction(r, path, reader_item(r, node, i), &s->objectives[i].maximize);
	return status;
}

static weir_status read_constraint(struct reader *r, const char *path, const yaml_node_t *node, struct constraint *out)
{
	static const char expected[] = "'MEASURE <= NUMBER' or 'MEASURE >= NUMBER', such as 'bytes <= 1e9'";
	char name[VALUE_SHOWN + 1], sign[3], end;
	weir_status status = reader_text(r, path, node, expected, &out->text);
	if (status != WEIR_OK)
		return status;
	if (sscanf(out->text, "%60s %2s %lf%c", name, sign, &out->bound, &end) != 3 ||
	    !measure_parse(r->sweep->arena, name, &out->measure))
		return reader_fail_value(r, node, path, expected);
	out->at_least = strcmp(sign, ">=") == 0;
	return out->at_least || strcmp(sign, "<=") == 0 ? WEIR_OK : reader_fail_value(r, node, path, expected);
}

static weir_status read_constraints(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	struct sweep_search *s = out;
	weir_status status = reader_list(r, path, node, SEARCH_CONSTRAINTS_MAX, "a list of constraints", &s->constraints_count);
	for (uint32_t i = 0; i < s->constraints_count && status == WEIR_OK; i++)
		status = read_constraint(r, path, reader_item(r, node, i), &s->constraints[i]);
	return status;
}

/* --- The search */

#define SEARCH_KINDS "grid, random, tpe, evolution, pbt or external"

static weir_status read_kind(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const struct {
		enum search_sampler sampler;
		enum search_policy policy; /* POLICY_WHOLE: as `stop` says */
	} kinds[] = {{SAMPLER_GRID, POLICY_WHOLE},      {SAMPLER_RANDOM, POLICY_WHOLE}, {SAMPLER_TPE, POLICY_WHOLE},
	             {SAMPLER_EVOLUTION, POLICY_WHOLE}, {SAMPLER_RANDOM, POLICY_PBT},   {SAMPLER_EXTERNAL, POLICY_EXTERNAL}};
	static const char *const words[] = {"grid", "random", "tpe", "evolution", "pbt", "external"};
	struct search_options *o = &((struct sweep_search *)out)->options;
	uint32_t word = 0;
	const weir_status status = read_word(r, path, node, words, sizeof words / sizeof *words, SEARCH_KINDS, &word);
	if (status != WEIR_OK)
		return status;
	o->sampler = kinds[word].sampler;
	o->policy = kinds[word].policy != POLICY_WHOLE ? kinds[word].policy : o->policy;
	return WEIR_OK;
}

static weir_status read_seed(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	double x;
	if (!parse_number(node, &x) || x < 0 || x > UINT32_MAX || x != floor(x))
		return reader_fail_value(r, node, path, "a whole number");
	((struct sweep_search *)out)->options.seed = (uint64_t)x;
	return WEIR_OK;
}

static weir_status read_stop_kind(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const char *const words[] = {"none", "median", "asha", "hyperband"};
	struct search_options *o = &((struct sweep_search *)out)->options;
	uint32_t word = 0;
	const weir_status status = read_word(r, path, node, words, 4, "none, median, asha or hyperband", &word);
	if (status == WEIR_OK && (o->policy == POLICY_PBT || o->policy == POLICY_EXTERNAL))
		return reader_fail_at(r, node, path, "goes with grid, random, tpe and evolution: %s",
		                      o->policy == POLICY_PBT ? "a population has a rule of its own" : "the program outside ends trials");
	o->policy = (enum search_policy)word;
	return status;
}

static weir_status read_stop(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const struct field fields[] = {{"kind", read_stop_kind, "none, median, asha or hyperband"},
	                                      {"first", read_first, NULL},
	                                      {"every", read_first, NULL},
	                                      {"eta", read_eta, NULL},
	                                      {"startup", read_startup, NULL}};
	return reader_map(r, path, node, fields, sizeof fields / sizeof *fields, out);
}

static weir_status read_budget(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const struct field fields[] = {{"seconds", read_budget_seconds, NULL},
	                                      {"samples", read_budget_samples, NULL},
	                                      {"bytes", read_budget_bytes, NULL},
	                                      {"joules", read_budget_joules, NULL}};
	return reader_map(r, path, node, fields, sizeof fields / sizeof *fields, out);
}

weir_status search_file_read(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const struct field fields[] = {{"kind", read_kind, SEARCH_KINDS},
	                                      {"trials", read_trials, NULL},
	                                      {"seed", read_seed, NULL},
	                                      {"metric", read_metrics, "valid.auc, or another measure, or a list of them"},
	                                      {"direction", read_directions, NULL},
	                                      {"passes", read_passes, NULL},
	                                      {"stop", read_stop, NULL},
	                                      {"every", read_first, NULL},
	                                      {"quantile", read_quantile, NULL},
	                                      {"startup", read_startup, NULL},
	                                      {"parallel", read_parallel, NULL},
	                                      {"budget", read_budget, NULL},
	                                      {"constraints", read_constraints, NULL}};
	(void)out;
	struct sweep_search *s = search_of(r);
	return s ? reader_map(r, path, node, fields, sizeof fields / sizeof *fields, s) : no_memory(r);
}

/* --- The space */

/* A dimension, with what its conditions wait for: they name another one. */
struct dim_reader {
	struct space *space;
	struct space_dim *dim;
	bool min, max;
};

#define DIM_FIELD(name, read, member, note)                                                         \
	static weir_status name(struct reader *r, const char *path, const yaml_node_t *node, void *out) \
	{                                                                                               \
		struct dim_reader *d = out;                                                                 \
		note;                                                                                       \
		return read(r, path, node, &d->dim->member);                                                \
	}
DIM_FIELD(read_min, read_number, min, d->min = true)
DIM_FIELD(read_max, read_number, max, d->max = true)
DIM_FIELD(read_step, read_positive, step, (void)d)
DIM_FIELD(read_log, read_flag, log, (void)d)
DIM_FIELD(read_int, read_flag, integer, (void)d)
#undef DIM_FIELD

static weir_status read_choices(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	struct space_dim *d = ((struct dim_reader *)out)->dim;
	weir_status status = reader_list(r, path, node, SPACE_CHOICES_MAX, "a list of values", &d->choices_count);
	for (uint32_t i = 0; i < d->choices_count && status == WEIR_OK; i++)
		status = reader_text(r, path, reader_item(r, node, i), "a value, in quotes if it is a list or a map", &d->choices[i]);
	return status;
}

static uint64_t choice_bit(const struct space_dim *d, const char *value)
{
	for (uint32_t i = 0; i < d->choices_count; i++)
		if (strcmp(d->choices[i], value) == 0)
			return UINT64_C(1) << i;
	return 0;
}

static weir_status read_condition(struct reader *r, const char *path, const yaml_node_t *node, struct dim_reader *d)
{
	const struct space_dim *on = &d->space->dims[d->dim->when];
	uint32_t count = 1;
	weir_status status = WEIR_OK;
	const bool several = node->type == YAML_SEQUENCE_NODE;
	if (several)
		status = reader_list(r, path, node, SPACE_CHOICES_MAX, "a list of values", &count);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
		const yaml_node_t *item = several ? reader_item(r, node, i) : node;
		const uint64_t bit = item->type == YAML_SCALAR_NODE ? choice_bit(on, reader_text_of(item)) : 0;
		if (!bit)
			status = reader_fail_value(r, item, path, "one of the other key's values");
		d->dim->when_choices |= bit;
	}
	return status;
}

static weir_status read_when(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	static const char expected[] = "{KEY: VALUE}, or {KEY: [VALUE, ...]}, of a key above with a list of values";
	struct dim_reader *d = out;
	const bool one = node->type == YAML_MAPPING_NODE && node->data.mapping.pairs.top - node->data.mapping.pairs.start == 1;
	if (!one)
		return reader_fail_at(r, node, path, "expected %s", expected);
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	const yaml_node_t *key = yaml_document_get_node(&r->yaml, pair->key);
	for (uint32_t i = 0; key->type == YAML_SCALAR_NODE && &d->space->dims[i] < d->dim; i++) {
		if (strcmp(d->space->dims[i].key, reader_text_of(key)) != 0 || !d->space->dims[i].choices_count)
			continue;
		d->dim->when = i;
		return read_condition(r, path, yaml_document_get_node(&r->yaml, pair->value), d);
	}
	return reader_fail_value(r, key, path, expected);
}

static weir_status check_range(struct reader *r, const char *path, const yaml_node_t *node, const struct dim_reader *d)
{
	const struct space_dim *dim = d->dim;
	if (dim->choices_count)
		return d->min || d->max || dim->step > 0 || dim->log || dim->integer
		           ? reader_fail_at(r, node, path, "has values and a range; expected one of them")
		           : WEIR_OK;
	if (!d->min || !d->max || dim->max < dim->min)
		return reader_fail_at(r, node, path, "expected min and max, with max at least min, or values");
	if (dim->log && !(dim->min > 0))
		return reader_fail_at(r, node, path, "log needs a min above 0");
	if (dim->log && dim->step > 0)
		return reader_fail_at(r, node, path, "log and step exclude each other; list the values instead");
	if (dim->integer && (dim->min != floor(dim->min) || dim->max != floor(dim->max) || dim->step != floor(dim->step)))
		return reader_fail_at(r, node, path, "int needs whole numbers as min, max and step");
	return WEIR_OK;
}

static weir_status read_dim(struct reader *r, const char *path, const yaml_node_t *node, struct dim_reader *d)
{
	static const struct field fields[] = {{"values", read_choices, NULL}, {"min", read_min, NULL}, {"max", read_max, NULL},
	                                      {"step", read_step, NULL},      {"log", read_log, NULL}, {"int", read_int, NULL},
	                                      {"when", read_when, NULL}};
	if (node->type == YAML_SEQUENCE_NODE)
		return read_choices(r, path, node, d);
	const weir_status status = reader_map(r, path, node, fields, sizeof fields / sizeof *fields, d);
	return status == WEIR_OK ? check_range(r, path, node, d) : status;
}

static bool is_sweeps_own(const char *key)
{
	static const char *const own[] = {"run_dir", "train.seed", "train.passes", "checkpoint.dir", "checkpoint.keep"};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (strcmp(key, own[i]) == 0)
			return true;
	return false;
}

static weir_status read_key(struct reader *r, const yaml_node_t *key, struct space *space, const char **out)
{
	weir_status status = reader_text(r, "space", key, "a key of the job file", out);
	if (status == WEIR_OK && is_sweeps_own(*out))
		return reader_fail_at(r, key, "space", "%s is the sweep's own to set", *out);
	for (uint32_t i = 0; i < space->count && status == WEIR_OK; i++)
		if (strcmp(space->dims[i].key, *out) == 0)
			status = reader_fail_at(r, key, "space", "duplicate key %s", *out);
	return status;
}

weir_status search_file_read_space(struct reader *r, const char *path, const yaml_node_t *node, void *out)
{
	(void)out;
	struct sweep_search *s = search_of(r);
	weir_status status = WEIR_OK;
	if (!s)
		return no_memory(r);
	if (node->type != YAML_MAPPING_NODE)
		return reader_fail_value(r, node, path, "a map of keys of the job file");
	struct space *space = &s->options.space;
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top && status == WEIR_OK; p++) {
		struct dim_reader d = {.space = space, .dim = &space->dims[space->count]};
		const char *key = NULL;
		if (space->count == SPACE_DIMS_MAX)
			return reader_fail_at(r, node, path, "has more than %u keys", SPACE_DIMS_MAX);
		status = read_key(r, yaml_document_get_node(&r->yaml, p->key), space, &key);
		*d.dim = (struct space_dim){.key = key, .when = SPACE_ALWAYS};
		if (status == WEIR_OK)
			status = read_dim(r, key, yaml_document_get_node(&r->yaml, p->value), &d);
		space->count++;
	}
	return status;
}

/* --- Both */

static void set_defaults(struct sweep_search *s)
{
	struct search_options *o = &s->options;
	const uint64_t points = o->sampler == SAMPLER_GRID ? space_points(&o->space) : 0;
	if (o->trials == 0)
		o->trials = points > 0 && points < SEARCH_TRIALS_MAX ? (uint32_t)points
		            : o->policy == POLICY_EXTERNAL           ? SEARCH_TRIALS_MAX
		                                                     : TRIALS_DEFAULT;
	if (o->startup == 0)
		o->startup = o->policy == POLICY_MEDIAN ? STARTUP_MEDIAN : STARTUP_DEFAULT;
	o->eta = o->eta ? o->eta : ETA_DEFAULT;
	o->quantile = o->quantile > 0 ? o->quantile : QUANTILE_DEFAULT;
}

weir_status search_file_check(struct reader *r, const yaml_node_t *root)
{
	struct sweep *sweep = r->sweep;
	struct sweep_search *s = sweep->search;
	if (s->options.costs == 0)
		return reader_fail_at(r, root, "", "search is missing; expected {kind: tpe, metric: valid.auc, ...} beside space");
	if (s->options.space.count == 0)
		return reader_fail_at(r, root, "", "space is missing; expected a map of keys of the job file to their values");
	if (s->parallel > PARALLEL_MAX)
		return reader_fail_at(r, root, "search.parallel", "is %u; expected at most %u", s->parallel, PARALLEL_MAX);
	if (sweep->all.sets_count + s->options.space.count + SEARCH_OWN_SETS + SWEEP_TRACK_SETS > OPTION_LIST_MAX)
		return reader_fail_at(r, root, "", "set and space have %u keys; expected at most %u",
		                      sweep->all.sets_count + s->options.space.count,
		                      OPTION_LIST_MAX - SEARCH_OWN_SETS - SWEEP_TRACK_SETS);
	set_defaults(s);
	return WEIR_OK;
}
