/* A trainer whose gradients are small integers, so that the final weights are an exact sum known in
 * advance. Every batch applied exactly once gives the sum; a missing or doubled one does not. SGD
 * with rate 1 adds minus the gradient, and fp32 is exact to 2^24.
 *
 *     exact_sum worker LEDGER NAME GATE [UNITS [PUSHES]]
 *         leases, pushes and commits until the job is done
 *     exact_sum check LEDGER [UNITS]
 *         compares every weight with the sum; exits 0 when all are equal
 *
 * UNITS (110) units of 32 batches. The file PUSHES gets a line per push: the times when it was sent
 * and acknowledged, in milliseconds since 1970. GATE is a FIFO. Workers stop in the middle of each
 * of the last ten units until it is open for reading and writing, so that the job lasts; meanwhile
 * they report progress. Before that they run at full speed. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/prng.h"
#include "tests/integration/trainer_tool.h"
#include "weir/weir.h"

enum {
	UNITS = 110,
	UNITS_MAX = 100000 /* limit of exact sums in fp32 */,
	UNITS_GATED = 10,
	GATE_POLL_MS = 20,
	BATCHES = 32,
	KEYS = 1024,
	ROWS = 32,
	WIDTH = 4,
	DENSE = 70000
};

struct tables {
	uint32_t rows, dense;
};

struct worker {
	weir_client *client;
	uint32_t units;
	struct tables tables;
	const char *gate;
	FILE *pushes;       /* NULL: not recorded */
	float dense[DENSE]; /* the gradient */
};

static void tell(void *arg, weir_log_level level, const char *line)
{
	struct timespec now;
	struct tm tm;
	char date[32];
	(void)arg;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(stderr, "%s.%03ldZ %s %s\n", date, now.tv_nsec / 1000000, level >= WEIR_LOG_WARN ? "warn " : "info ", line);
}

/* Distinct keys of a batch, and the number that all its gradients are equal to. */
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

static weir_status push_batch(struct worker *w, const weir_unit *u, uint32_t batch, weir_error *e)
{
	uint64_t keys[ROWS];
	float values[ROWS * WIDTH];
	weir_ticket ticket;
	float g = batch_keys(u->data_unit, batch, keys);
	for (uint32_t i = 0; i < ROWS * WIDTH; i++)
		values[i] = -g;
	for (uint32_t i = 0; i < DENSE; i++)
		w->dense[i] = -g;
	weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	weir_push_item items[] = {{.table = w->tables.rows, .keys = keys, .rows = ROWS, .values = values},
	                          {.table = w->tables.dense, .values = w->dense}};
	const double sent = trainer_wall_ms();
	weir_status s = weir_push(w->client, &id, items, 2, &(weir_push_options){.copy = 1}, NULL, NULL, &ticket, e);
	s = s == WEIR_OK ? weir_wait(w->client, ticket, -1, e) : s;
	if (s == WEIR_OK && w->pushes)
		fprintf(w->pushes, "%.3f %.3f\n", sent, trainer_wall_ms());
	return s;
}

/* An empty pull, which fails once the unit is lost. */
static weir_status check_unit(struct worker *w, const weir_unit *u, uint32_t batch, weir_error *e)
{
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	weir_ticket ticket;
	weir_status s = weir_pull(w->client, &id, NULL, 0, NULL, NULL, &ticket, e);
	return s == WEIR_OK ? weir_wait(w->client, ticket, -1, e) : s;
}

/* Calls weir_progress, as a trainer between two pushes does. */
static weir_status wait_at_gate(struct worker *w, const weir_unit *u, uint32_t batch, weir_error *e)
{
	const struct timespec pause = {.tv_nsec = GATE_POLL_MS * 1000000l};
	weir_status s = WEIR_OK;
	int fd;
	/* No reader yet. */
	while ((fd = open(w->gate, O_WRONLY | O_NONBLOCK)) < 0 && errno == ENXIO && s == WEIR_OK) {
		weir_progress(w->client, &(weir_report){.batches = 1});
		nanosleep(&pause, NULL);
		s = check_unit(w, u, batch, e);
	}
	if (s != WEIR_OK)
		return s;
	if (fd < 0)
		return weir_fail(e, WEIR_E_IO, "cannot open %s: %s", w->gate, strerror(errno));
	close(fd);
	return WEIR_OK;
}

static weir_status do_unit(struct worker *w, const weir_unit *u, weir_error *e)
{
	weir_status s = weir_unit_begin(w->client, u, BATCHES, e);
	for (uint32_t b = u->watermark; b < BATCHES && s == WEIR_OK; b++) {
		if (u->unit >= w->units - UNITS_GATED && b >= BATCHES / 2)
			s = wait_at_gate(w, u, b, e);
		if (s == WEIR_OK)
			s = push_batch(w, u, b, e);
	}
	return s == WEIR_OK ? weir_unit_commit(w->client, u, e) : s;
}

static int work(const char *ledger, const char *name, const char *gate, uint32_t units, const char *pushes)
{
	static struct worker w;
	weir_error e = {0};
	weir_unit u;
	w.gate = gate;
	w.units = units;
	w.pushes = pushes ? fopen(pushes, "a") : NULL;
	if (pushes && !w.pushes) {
		fprintf(stderr, "exact_sum: %s: %s\n", pushes, strerror(errno));
		return EXIT_FAILURE;
	}
	const weir_options o = {
	    .ledger = ledger, .name = name, .dataset_fingerprint = 7, .dataset_units = units, .log = tell, .security.insecure = 1};
	if (weir_open(&w.client, &o, &e) != WEIR_OK)
		return trainer_fail("open", &e);
	weir_status s = register_tables(w.client, &w.tables, &e);
	while (s == WEIR_OK) {
		s = weir_unit_lease(w.client, &u, -1, &e);
		if (s == WEIR_OK && u.state == WEIR_UNIT_FINISHED)
			break;
		if (s == WEIR_OK)
			s = do_unit(&w, &u, &e);
		if (s == WEIR_E_STALE) /* declared dead: rejoin as a new worker */
			s = weir_rejoin(w.client, &e);
	}
	if (s != WEIR_OK) {
		weir_abandon(w.client);
		return trainer_fail("work", &e);
	}
	if (w.pushes)
		fclose(w.pushes);
	return weir_close(w.client, &e) == WEIR_OK ? EXIT_SUCCESS : trainer_fail("close", &e);
}

/* --- The sum */

struct check {
	float rows[KEYS], dense; /* expected */
	uint64_t seen, wrong;
};

static void expect_everything(struct check *k, uint32_t units)
{
	uint64_t keys[ROWS];
	memset(k, 0, sizeof *k);
	for (uint32_t u = 0; u < units; u++)
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

static int check_sums(const char *ledger, uint32_t units)
{
	weir_client *c = NULL;
	weir_error e = {0};
	struct check k;
	struct tables t;
	weir_table_spec spec = {0};
	weir_ticket ticket;
	uint64_t keys[KEYS];
	static float rows[KEYS * WIDTH], dense[DENSE];
	expect_everything(&k, units);
	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = i;
	if (weir_open(&c, &(weir_options){.ledger = ledger, .name = "check", .role = WEIR_OBSERVER, .security.insecure = 1}, &e) !=
	        WEIR_OK ||
	    weir_table_find(c, "rows", &spec, &t.rows, &e) != WEIR_OK || weir_table_find(c, "dense", &spec, &t.dense, &e) != WEIR_OK)
		return trainer_fail("open", &e);
	weir_pull_item items[] = {{.table = t.rows, .keys = keys, .rows = KEYS, .values = rows}, {.table = t.dense, .values = dense}};
	if (weir_pull(c, NULL, items, 2, NULL, NULL, &ticket, &e) != WEIR_OK || weir_wait(c, ticket, -1, &e) != WEIR_OK)
		return trainer_fail("pull", &e);
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		compare(&k, "row", i / WIDTH, rows[i], k.rows[i / WIDTH]);
	for (uint32_t i = 0; i < DENSE; i++)
		compare(&k, "dense", i, dense[i], k.dense);
	weir_close(c, NULL);
	printf("%llu weights compared with their exact sums, %llu wrong\n", (unsigned long long)k.seen, (unsigned long long)k.wrong);
	return k.wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The optional argument. 0: invalid number of units. */
static uint32_t units_of(const char *argument)
{
	char *end;
	const unsigned long units = argument ? strtoul(argument, &end, 10) : UNITS;
	return !argument || (*end == '\0' && units > UNITS_GATED && units <= UNITS_MAX) ? (uint32_t)units : 0;
}

int main(int argc, char **argv)
{
	const bool works = (argc >= 5 && argc <= 7) && strcmp(argv[1], "worker") == 0;
	const bool checks = (argc == 3 || argc == 4) && strcmp(argv[1], "check") == 0;
	const uint32_t units = works ? units_of(argv[5]) : checks ? units_of(argv[3]) : 0;
	if (units && works)
		return work(argv[2], argv[3], argv[4], units, argc == 7 ? argv[6] : NULL);
	if (units)
		return check_sums(argv[2], units);
	fprintf(stderr,
	        "usage: exact_sum worker LEDGER NAME GATE [UNITS [PUSHES]] | exact_sum check LEDGER [UNITS]; UNITS: %d to %d\n",
	        UNITS_GATED + 1, UNITS_MAX);
	return 2;
}
