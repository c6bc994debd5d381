/* A step in C, for comparison with step.py: pulls rows of an embedding table and a dense table, pushes gradients of both, waits. Prints the
 * median of a step's time and of the calling thread's CPU time, in microseconds.
 *   step LEDGER_ADDRESS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weir/weir.h>

enum { STEPS = 2000, ROWS = 64, WIDTH = 16, ELEMENTS = 1000 };

static double now_us(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int rises(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, STEPS, sizeof *values, rises);
	return values[STEPS / 2];
}

static void check(weir_status status, const weir_error *e)
{
	if (status == WEIR_OK)
		return;
	fprintf(stderr, "step: %s: %s\n", weir_status_name(status), e->text);
	exit(1);
}

int main(int argc, char **argv)
{
	static uint64_t keys[ROWS];
	static float rows[ROWS * WIDTH], flat[ELEMENTS], row_gradients[ROWS * WIDTH], flat_gradients[ELEMENTS];
	static double wall[STEPS], cpu[STEPS];
	weir_error e = {0};
	weir_client *c;
	weir_unit u;
	weir_options options;
	weir_table_spec embedding, dense;
	weir_pull_item pulls[2] = {{.keys = keys, .rows = ROWS, .values = rows}, {.values = flat}};
	weir_push_item pushes[2] = {{.keys = keys, .rows = ROWS, .values = row_gradients}, {.values = flat_gradients}};
	if (argc != 2) {
		fprintf(stderr, "usage: %s LEDGER_ADDRESS\n", argv[0]);
		return 2;
	}
	for (int i = 0; i < ROWS; i++)
		keys[i] = (uint64_t)i * 7919;
	weir_options_init(&options, sizeof options);
	options.ledger = argv[1];
	options.name = "step";
	options.dataset_units = 1;
	check(weir_open(&c, &options, &e), &e);
	weir_table_spec_init(&embedding, sizeof embedding);
	weir_table_spec_init(&dense, sizeof dense);
	snprintf(embedding.name, sizeof embedding.name, "rows");
	embedding.width = WIDTH;
	snprintf(dense.name, sizeof dense.name, "flat");
	dense.kind = WEIR_DENSE;
	dense.elements = ELEMENTS;
	check(weir_table_register(c, &embedding, &pulls[0].table, &e), &e);
	check(weir_table_register(c, &dense, &pulls[1].table, &e), &e);
	pushes[0].table = pulls[0].table;
	pushes[1].table = pulls[1].table;
	check(weir_unit_lease(c, &u, -1, &e), &e);
	check(weir_unit_begin(c, &u, STEPS, &e), &e);
	for (uint32_t b = 0; b < STEPS; b++) {
		const weir_batch batch = {.pass = u.pass, .unit = u.unit, .batch = b, .attempt = u.attempt};
		const double wall_us = now_us(CLOCK_MONOTONIC), cpu_us = now_us(CLOCK_THREAD_CPUTIME_ID);
		weir_ticket ticket;
		check(weir_pull(c, &batch, pulls, 2, NULL, NULL, &ticket, &e), &e);
		check(weir_wait(c, ticket, -1, &e), &e);
		check(weir_push(c, &batch, pushes, 2, &(weir_push_options){.copy = 1}, NULL, NULL, &ticket, &e), &e);
		check(weir_wait(c, ticket, -1, &e), &e);
		wall[b] = now_us(CLOCK_MONOTONIC) - wall_us;
		cpu[b] = now_us(CLOCK_THREAD_CPUTIME_ID) - cpu_us;
	}
	check(weir_unit_commit(c, &u, &e), &e);
	check(weir_close(c, &e), &e);
	printf("%.1f %.1f\n", median(wall), median(cpu));
	return 0;
}
