/* A foreign trainer: linear regression with only weir/weir.h and libweir.so.
 *
 * y = w . x + bias with known w. The weights are one dense table. The "dataset" is UNITS work
 * units, whose examples are a function of their number, so that any worker can generate any of
 * them. Exits 0 when the learnt weights are the true ones and the audit is exact.
 *
 *     linear_regression LEDGER_ADDRESS    one trainer
 *     linear_regression                   as `weir launch` starts it: WEIR_LEDGER, WEIR_NAME */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

enum { FEATURES = 16, UNITS = 20, BATCHES = 10, ROWS = 32, PASSES = 5 };

static const float *true_weights(void)
{
	static float w[FEATURES + 1];
	for (int i = 0; i <= FEATURES; i++)
		w[i] = (float)(i - 8) / 4;
	return w;
}

/* Generates example `row`: x (FEATURES) in [-1, 1); returns its target. */
static float example(uint64_t row, float *x)
{
	const float *w = true_weights();
	float y = w[FEATURES];
	for (int i = 0; i < FEATURES; i++) {
		uint64_t h = (row * 31 + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
		x[i] = (float)((h ^ h >> 29) >> 40) / (float)(1 << 23) - 1;
		y += w[i] * x[i];
	}
	return y;
}

/* Writes the mean gradient of the squared error over a batch to g (FEATURES + 1); returns the sum
 * of losses. */
static double gradient(uint32_t data_unit, uint32_t batch, const float *w, float *g)
{
	double loss = 0;
	memset(g, 0, (FEATURES + 1) * sizeof *g);
	for (uint64_t r = 0; r < ROWS; r++) {
		float x[FEATURES], y = example((data_unit * (uint64_t)BATCHES + batch) * ROWS + r, x), error = w[FEATURES] - y;
		for (int i = 0; i < FEATURES; i++)
			error += w[i] * x[i];
		for (int i = 0; i < FEATURES; i++)
			g[i] += 2 * error * x[i] / ROWS;
		g[FEATURES] += 2 * error / ROWS;
		loss += error * error;
	}
	return loss;
}

static void check(weir_status status, const weir_error *e, const char *what)
{
	if (status == WEIR_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, weir_status_name(status), e->text);
	exit(1);
}

/* PACE_MS: a batch takes at least this long. Tests that kill trainers set it. */
static void pace(void)
{
	const char *ms = getenv("PACE_MS");
	if (ms)
		usleep((useconds_t)atoi(ms) * 1000);
}

static void pull(weir_client *c, const weir_batch *batch, uint32_t table, float *w)
{
	weir_error e = {0};
	weir_ticket ticket;
	weir_pull_item item = {.table = table, .values = w};
	check(weir_pull(c, batch, &item, 1, NULL, NULL, &ticket, &e), &e, "pull");
	check(weir_wait(c, ticket, 10000, &e), &e, "pull");
}

static void train_unit(weir_client *c, const weir_unit *u, uint32_t table)
{
	weir_error e = {0};
	check(weir_unit_begin(c, u, BATCHES, &e), &e, "begin");
	for (uint32_t b = u->watermark; b < BATCHES; b++) {
		float w[FEATURES + 1], g[FEATURES + 1];
		weir_batch batch = {.pass = u->pass, .unit = u->unit, .batch = b, .attempt = u->attempt};
		weir_ticket ticket;
		pull(c, &batch, table, w);
		weir_report report;
		weir_report_init(&report, sizeof report);
		report.rows = ROWS;
		report.batches = 1;
		report.loss_sum = gradient(u->data_unit, b, w, g);
		weir_push_item item = {.table = table, .values = g};
		check(weir_push(c, &batch, &item, 1, NULL, NULL, NULL, &ticket, &e), &e, "push");
		check(weir_wait(c, ticket, 10000, &e), &e, "push");
		check(weir_progress(c, &report), &e, "progress");
		pace();
	}
	check(weir_unit_commit(c, u, &e), &e, "commit");
}

static weir_client *join(const char *ledger, const char *name)
{
	weir_error e = {0};
	weir_client *c;
	weir_options options;
	weir_options_init(&options, sizeof options);
	options.ledger = ledger;
	options.name = name;
	options.dataset_fingerprint = 42;
	options.dataset_units = UNITS;
	options.dataset_rows = UNITS * BATCHES * ROWS;
	options.passes = PASSES;
	check(weir_open(&c, &options, &e), &e, "open");
	return c;
}

static uint32_t make_table(weir_client *c)
{
	weir_error e = {0};
	weir_table_spec spec;
	uint32_t table;
	weir_table_spec_init(&spec, sizeof spec);
	strcpy(spec.name, "weights");
	spec.kind = WEIR_DENSE;
	spec.elements = FEATURES + 1;
	spec.optimizer.kind = WEIR_OPT_SGD;
	spec.optimizer.lr = 0.2f;
	check(weir_table_register(c, &spec, &table, &e), &e, "table");
	return table;
}

/* Whether the job is finished, and every part was applied once. */
static int is_exact(weir_client *c)
{
	weir_error e = {0};
	weir_job job;
	weir_job_init(&job, sizeof job);
	check(weir_job_read(c, &job, &e), &e, "job");
	printf("expected %llu applied %llu missing %llu double %llu\n", (unsigned long long)job.parts_expected,
	       (unsigned long long)job.parts_applied, (unsigned long long)job.parts_missing, (unsigned long long)job.parts_double);
	return job.state == WEIR_JOB_FINISHED && job.audit == WEIR_AUDIT_EXACT && job.passes == PASSES;
}

int main(int argc, char **argv)
{
	weir_error e = {0};
	weir_unit u;
	float w[FEATURES + 1], worst = 0;
	const char *ledger = argc == 2 ? argv[1] : getenv("WEIR_LEDGER"), *name = getenv("WEIR_NAME");
	if (argc > 2 || !ledger) {
		fprintf(stderr, "usage: %s LEDGER_ADDRESS\n", argv[0]);
		return 2;
	}
	if (weir_api_version() != WEIR_API_VERSION) {
		fprintf(stderr, "libweir %s has API version %u, not %u\n", weir_version(), weir_api_version(), WEIR_API_VERSION);
		return 2;
	}
	weir_client *c = join(ledger, name ? name : "regression");
	const uint32_t table = make_table(c);
	while (weir_unit_lease(c, &u, -1, &e) == WEIR_OK && u.state == WEIR_UNIT_LEASED)
		train_unit(c, &u, table);
	check(e.status, &e, "lease");
	pull(c, NULL, table, w);
	for (int i = 0; i <= FEATURES; i++)
		worst = fmaxf(worst, fabsf(w[i] - true_weights()[i]));
	const int exact = is_exact(c);
	check(weir_close(c, &e), &e, "close");
	printf("largest error of a weight: %g\n", (double)worst);
	return worst < 1e-3f && exact ? 0 : 1;
}
