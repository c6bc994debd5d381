/* weir bench: selects a benchmark, runs its subjects in interleaved rounds, and prints medians and
 * ratios. */
#include "cli/bench/bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/verbs.h"
#include "common/base/clock.h"

double bench_now_s(void)
{
	return (double)clock_ns(clock_system()) / 1e9;
}

uint32_t bench_add(struct bench *b, const char *unit, double (*run)(void *arg, weir_error *err), void *arg, uint32_t limit,
                   double limit_scale, const char *name, ...)
{
	if (b->count == BENCH_SUBJECTS_MAX)
		abort();
	struct bench_subject *s = &b->subjects[b->count];
	*s = (struct bench_subject){.unit = unit,
	                            .run = run,
	                            .arg = arg,
	                            .limit = limit,
	                            .limit_scale = limit_scale > 0 ? limit_scale : 1,
	                            .floor = BENCH_NO_LIMIT};
	va_list args;
	va_start(args, name);
	vsnprintf(s->name, sizeof s->name, name, args);
	va_end(args);
	return b->count++;
}

void bench_set_floor(struct bench *b, uint32_t subject, uint32_t floor)
{
	b->subjects[subject].floor = floor;
}

void bench_note(const struct bench *b, const char *format, ...)
{
	va_list args;
	if (b->json)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void show(const struct bench *b, const struct bench_subject *s)
{
	char median[24], low[24], high[24];
	format_count(median, sizeof median, s->median);
	format_count(low, sizeof low, s->low);
	format_count(high, sizeof high, s->high);
	printf("%-44s %9s%-12s (%s to %s)", s->name, median, s->unit, low, high);
	if (s->limit != BENCH_NO_LIMIT)
		printf("  %.2f of %s", s->ratio, b->subjects[s->limit].name);
	if (s->floor != BENCH_NO_LIMIT)
		printf(", %.2f of %s", s->floor_ratio, b->subjects[s->floor].name);
	putchar('\n');
}

static void put(const struct bench *b, const struct bench_subject *s)
{
	struct json *item = json_create();
	json_set_text(item, "name", s->name);
	json_set_text(item, "unit", s->unit);
	json_set_real(item, "value", s->median);
	json_set_real(item, "low", s->low);
	json_set_real(item, "high", s->high);
	if (s->limit != BENCH_NO_LIMIT) {
		json_set_text(item, "limit", b->subjects[s->limit].name);
		json_set_real(item, "ratio", s->ratio);
	}
	json_append(b->json, "results", item);
}

/* Writes a measurement and flushes it, so that an interrupted benchmark keeps its measurements. */
static void write_value(struct bench *b, uint32_t round, const struct bench_subject *s, double value)
{
	if (!b->values)
		return;
	fprintf(b->values, "%u\t%s\t%.9g\t%s\n", round, s->name, value, s->unit);
	fflush(b->values);
}

/* Measures every subject once, into values[i * stride]. Round 0 does not count. */
static weir_status run_round(struct bench *b, uint32_t round, double *values, uint32_t stride, weir_error *err)
{
	for (uint32_t i = 0; i < b->count; i++) {
		double v = b->subjects[i].run(b->subjects[i].arg, err);
		if (v < 0)
			return err->status != WEIR_OK ? err->status
			                              : weir_fail(err, WEIR_E_INTERNAL, "%s could not be measured", b->subjects[i].name);
		values[i * stride] = v;
		write_value(b, round, &b->subjects[i], v);
	}
	return WEIR_OK;
}

/* Sorts values (rounds) and returns the middle one. */
static double median(double *values, uint32_t rounds)
{
	qsort(values, rounds, sizeof *values, compare);
	return values[rounds / 2];
}

/* Returns the median over the rounds of the ratio of subject i to another subject: a slowdown of a
 * whole round cancels out. values (count, rounds) */
static double ratio_to(const double *values, uint32_t rounds, uint32_t i, uint32_t other, double scale)
{
	double ratios[BENCH_ROUNDS_MAX];
	if (other == BENCH_NO_LIMIT)
		return 0;
	for (uint32_t r = 0; r < rounds; r++)
		ratios[r] = values[i * rounds + r] * scale / values[other * rounds + r];
	return median(ratios, rounds);
}

/* values (count, rounds) are sorted afterwards. */
static void summarise(struct bench *b, double *values, uint32_t rounds)
{
	for (uint32_t i = 0; i < b->count; i++) {
		struct bench_subject *s = &b->subjects[i];
		s->ratio = ratio_to(values, rounds, i, s->limit, s->limit_scale);
		s->floor_ratio = ratio_to(values, rounds, i, s->floor, 1);
	}
	for (uint32_t i = 0; i < b->count; i++) {
		struct bench_subject *s = &b->subjects[i];
		s->median = median(values + i * rounds, rounds);
		s->low = values[i * rounds];
		s->high = values[i * rounds + rounds - 1];
	}
}

weir_status bench_run(struct bench *b, uint32_t rounds, weir_error *err)
{
	static const uint32_t rounds_quick = 1;
	if (b->rounds > 0)
		rounds = b->rounds < BENCH_ROUNDS_MAX ? (uint32_t)b->rounds : BENCH_ROUNDS_MAX;
	else if (b->quick)
		rounds = rounds_quick;
	double *values = calloc((size_t)b->count * rounds, sizeof *values); /* (count, rounds) */
	if (!values)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %u measurements", b->count * rounds);
	/* The first round warms caches, memory and connections, and does not count. */
	weir_status status = b->quick ? WEIR_OK : run_round(b, 0, values, rounds, err);
	for (uint32_t r = 0; r < rounds && status == WEIR_OK; r++)
		status = run_round(b, r + 1, values + r, rounds, err);
	if (status == WEIR_OK)
		summarise(b, values, rounds);
	free(values);
	for (uint32_t i = 0; i < b->count && status == WEIR_OK; i++) {
		if (b->json)
			put(b, &b->subjects[i]);
		else
			show(b, &b->subjects[i]);
	}
	fflush(stdout);
	if (status == WEIR_OK)
		b->count = 0;
	return status;
}

/* --- The verb */

struct benchmark {
	const char *name;
	weir_status (*run)(struct bench *b, weir_error *err);
};
static const struct benchmark benchmarks[] = {
#define BENCH_ROW(name) {#name, bench_##name},
    BENCH_MAP(BENCH_ROW)
#undef BENCH_ROW
};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };

static const struct benchmark *find(const char *word, weir_error *err)
{
	const char *names[BENCHMARKS];
	for (unsigned i = 0; i < BENCHMARKS; i++) {
		names[i] = benchmarks[i].name;
		if (word && strcmp(word, names[i]) == 0)
			return &benchmarks[i];
	}
	const char *near = word ? job_nearest(word, names, BENCHMARKS) : NULL;
	weir_fail(err, WEIR_E_INVALID, "%s%s%s%s",
	          word ? "no benchmark '" : "needs one of push, pull, store, cold, log, optim, gemm, loader, step", word ? word : "",
	          near   ? "': did you mean "
	          : word ? "'"
	                 : "",
	          near ? near : "");
	return NULL;
}

static weir_status open_values(struct bench *b, weir_error *err)
{
	if (!b->values_path)
		return WEIR_OK;
	b->values = fopen(b->values_path, "a");
	return b->values ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot write %s: %s", b->values_path, strerror(errno));
}

static weir_status run(const struct benchmark *chosen, struct bench *b, bool as_json, weir_error *err)
{
	if (as_json && !(b->json = json_create()))
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the results");
	if (as_json)
		json_set_text(b->json, "benchmark", chosen->name);
	weir_status status = open_values(b, err);
	if (status == WEIR_OK)
		status = chosen->run(b, err);
	if (status == WEIR_OK && as_json)
		status = json_print(b->json, stdout, err);
	json_destroy(b->json);
	const bool failed = b->values && ferror(b->values);
	if (b->values && (fclose(b->values) != 0 || failed) && status == WEIR_OK)
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: see whether its disk is full", b->values_path);
	return status;
}

int verb_bench(int count, char **args)
{
	struct bench *b = calloc(1, sizeof *b);
	weir_error err = {0};
	const char *word = NULL;
	bool as_json = false;
	if (!b) {
		weir_fail(&err, WEIR_E_MEMORY, "no memory for a benchmark");
		return verb_fail("bench", &err);
	}
	const struct option options[] = {
	    {"--json", OPTION_FLAG, &as_json, NULL, "as JSON"},
	    {"--values", OPTION_TEXT, &b->values_path, "FILE", "append each measurement as it is made: round, name, value, unit"},
	    {"--rounds", OPTION_COUNT, &b->rounds, "N", "how often each figure is measured"},
	    {"--threads", OPTION_COUNT, &b->threads, "N", "gemm, loader, log, step: with so many threads"},
	    {"--quick", OPTION_FLAG, &b->quick, NULL, "less of everything"},
	    {"--no-apply", OPTION_FLAG, &b->no_apply, NULL, "push: have the server discard what it gets"},
	    {"--tls", OPTION_FLAG, &b->tls, NULL, "push: what TLS leaves of it"},
	    {"--fields", OPTION_COUNT, &b->fields, "N", "step: ids of an example"},
	    {"--ids", OPTION_COUNT, &b->ids, "N", "step: distinct ids of a field"},
	    {"--set", OPTION_LIST, &b->sets, "A.B=C",
	     "step: a value for a key of its job: device, data.batch, model.kind, ..; again and again"}};
	const struct benchmark *chosen = NULL;
	if (options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err) != WEIR_OK ||
	    !(chosen = find(word, &err))) {
		free(b);
		return verb_usage("bench", &err);
	}
	weir_status status = run(chosen, b, as_json, &err);
	free(b);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("bench", &err);
}
