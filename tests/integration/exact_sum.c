/* A trainer whose gradients are small integers, so that the weights at the end are an exact sum known beforehand: every batch applied exactly
 * once gives it, one missing or doubled does not. SGD with rate 1 adds minus the gradient; fp32 is exact to 2^24.
 *
 *     exact_sum worker LEDGER NAME    leases, pushes, commits until the job is done
 *     exact_sum check LEDGER          compares every weight with the sum: exit status 0 when all are equal */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prng.h"
#include "weir/weir.h"

enum { UNITS = 240, BATCHES = 8, KEYS = 1024, ROWS = 32, WIDTH = 4, DENSE = 70000, BATCH_US = 2000 };

struct tables {
	uint32_t rows, dense;
};

static int fail(const char *what, const weir_error *e)
{
	fprintf(stderr, "exact_sum: %s: %s\n", what, e->text);
	return EXIT_FAILURE;
}

/* Distinct keys of a batch, and the one number that all its gradients are. */
static float batch_keys(uint32_t data_unit, uint32_t batch, uint64_t keys[ROWS])
{
	uint64_t seed = prng_mix(11, data_unit, batch);
	for (uint32_t i = 0; i < ROWS; i++)
		keys[i] = prng_permute(seed, KEYS, i);
	return (float)(1 + seed % 3);
}

static weir_status register_tables(weir_client *c, struct tables *t, weir_error *e)
{
	weir_init_segment row = {.elements = WIDTH, .kind = WEIR_INIT_ZERO}, flat = {.elements = DENSE, .kind = WEIR_INIT_ZERO};
	weir_table_spec rows = {.name = "rows", .kind = WEIR_EMBEDDING, .width = WIDTH, .segments_count = 1, .segments = &row};
	weir_table_spec dense = {.name = "dense", .kind = WEIR_DENSE, .elements = DENSE, .segments_count = 1, .segments = &flat};
	rows.optimizer = dense.optimizer = (weir_optimizer){.kind = WEIR_OPT_SGD, .lr = 1};
	weir_status s = weir_table_register(c, &rows, &t->rows, e);
	return s == WEIR_OK ? weir_table_register(c, &dense, &t->dense, e) : s;
}

static weir_status push_batch(weir_client *c, const struct tables *t, const weir_unit *u, uint32_t batch, float *dense,
                              weir_error *e)
{
	uint64_t keys[ROWS];
	float values[ROWS * WIDTH];
	weir_ticket ticket;
	float g = batch_keys(u->data_unit, batch, keys);
	for (uint32_t i = 0; i < ROWS * WIDTH; i++)
		values[i] = -g;
	for (uint32_t i = 0; i < DENSE; i++)
		dense[i] = -g;
	usleep(BATCH_US); /* the work of a trainer */
	weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	weir_push_item items[] = {{.table = t->rows, .keys = keys, .rows = ROWS, .values = values},
	                          {.table = t->dense, .values = dense}};
	weir_status s = weir_push(c, &id, items, 2, &(weir_push_options){.copy = 1}, NULL, NULL, &ticket, e);
	return s == WEIR_OK ? weir_wait(c, ticket, -1, e) : s;
}

static weir_status do_unit(weir_client *c, const struct tables *t, const weir_unit *u, float *dense, weir_error *e)
{
	weir_status s = weir_unit_begin(c, u, BATCHES, e);
	for (uint32_t b = u->watermark; b < BATCHES && s == WEIR_OK; b++)
		s = push_batch(c, t, u, b, dense, e);
	return s == WEIR_OK ? weir_unit_commit(c, u, e) : s;
}

static int work(const char *ledger, const char *name)
{
	weir_client *c = NULL;
	weir_error e = {0};
	struct tables t;
	weir_unit u;
	static float dense[DENSE];
	if (weir_open(&c, &(weir_options){.ledger = ledger, .name = name, .dataset_fingerprint = 7, .dataset_units = UNITS}, &e) !=
	    WEIR_OK)
		return fail("open", &e);
	weir_status s = register_tables(c, &t, &e);
	while (s == WEIR_OK) {
		s = weir_unit_lease(c, &u, -1, &e);
		if (s == WEIR_OK && u.state == WEIR_UNIT_FINISHED)
			break;
		if (s == WEIR_OK)
			s = do_unit(c, &t, &u, dense, &e);
		if (s == WEIR_E_STALE) /* taken for dead: as somebody new */
			s = weir_rejoin(c, &e);
	}
	if (s != WEIR_OK) {
		weir_abandon(c);
		return fail("work", &e);
	}
	return weir_close(c, &e) == WEIR_OK ? EXIT_SUCCESS : fail("close", &e);
}

/* --- The sum */

struct check {
	float rows[KEYS], dense; /* expected */
	uint64_t seen, wrong;
};

static void expect_everything(struct check *k)
{
	uint64_t keys[ROWS];
	memset(k, 0, sizeof *k);
	for (uint32_t u = 0; u < UNITS; u++)
		for (uint32_t b = 0; b < BATCHES; b++) {
			float g = batch_keys(u, b, keys);
			for (uint32_t i = 0; i < ROWS; i++)
				k->rows[keys[i]] += g;
			k->dense += g;
		}
}

static void compare(struct check *k, const char *table, uint64_t key, float value, float expected)
{
	k->seen++;
	if (value == expected)
		return;
	if (k->wrong++ < 5)
		printf("%s %llu is %.0f, not %.0f\n", table, (unsigned long long)key, (double)value, (double)expected);
}

static int check_sums(const char *ledger)
{
	weir_client *c = NULL;
	weir_error e = {0};
	struct check k;
	struct tables t;
	weir_table_spec spec;
	weir_ticket ticket;
	uint64_t keys[KEYS];
	static float rows[KEYS * WIDTH], dense[DENSE];
	expect_everything(&k);
	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = i;
	if (weir_open(&c, &(weir_options){.ledger = ledger, .name = "check", .role = WEIR_OBSERVER}, &e) != WEIR_OK ||
	    weir_table_find(c, "rows", &spec, &t.rows, &e) != WEIR_OK || weir_table_find(c, "dense", &spec, &t.dense, &e) != WEIR_OK)
		return fail("open", &e);
	weir_pull_item items[] = {{.table = t.rows, .keys = keys, .rows = KEYS, .values = rows}, {.table = t.dense, .values = dense}};
	if (weir_pull(c, NULL, items, 2, NULL, NULL, &ticket, &e) != WEIR_OK || weir_wait(c, ticket, -1, &e) != WEIR_OK)
		return fail("pull", &e);
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		compare(&k, "row", i / WIDTH, rows[i], k.rows[i / WIDTH]);
	for (uint32_t i = 0; i < DENSE; i++)
		compare(&k, "dense", i, dense[i], k.dense);
	weir_close(c, NULL);
	printf("%llu weights compared with their exact sums, %llu wrong\n", (unsigned long long)k.seen, (unsigned long long)k.wrong);
	return k.wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "worker") == 0)
		return work(argv[2], argv[3]);
	if (argc == 3 && strcmp(argv[1], "check") == 0)
		return check_sums(argv[2]);
	fprintf(stderr, "usage: exact_sum worker LEDGER NAME | exact_sum check LEDGER\n");
	return 2;
}
