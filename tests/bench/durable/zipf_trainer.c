/* A trainer that uses libweir alone: logistic regression on embeddings of one table with keys by Zipf's law, for measuring servers whose table is
 * larger than their memory, or that recover.
 *
 *   zipf_trainer LEDGER ROWS load                        assigns rows 1 to ROWS
 *   zipf_trainer LEDGER ROWS train SECONDS [EXPONENT]    trains; pulls run two batches ahead, pushes two behind
 *
 * Prints one JSON object: samples and distinct rows a second, of the second half of the time; look-ups and, batch by batch, distinct keys of all of it. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/weir.h>

enum {
	FIELDS = 26,
	SAMPLES = 2048,
	DRAWS = SAMPLES * FIELDS,
	WIDTH = 16,
	UNIT_BATCHES = 128,
	UNITS = 1 << 20,
	RING = 5,  /* batches under way */
	AHEAD = 2, /* of them pulled before their turn */
	LOAD_ROWS = 16384,
	SLOTS = 1 << 17 /* of the table that finds a batch's distinct keys; more than DRAWS */
};
#define ZIPF_DEFAULT 1.05

struct batch {
	weir_batch id;
	size_t rows;
	uint64_t *keys;    /* (rows) distinct */
	uint32_t *of_draw; /* (DRAWS) row of each draw */
	float *values, *gradients;
	weir_ticket pulled, pushed; /* 0: none */
};

static weir_client *client;
static uint32_t table;
static double zipf = ZIPF_DEFAULT; /* the exponent, not 1 */
static uint64_t rows_count, state = 88172645463325252u;
static uint32_t slots[SLOTS]; /* row + 1 */

static void check(weir_status status, const weir_error *e, const char *what)
{
	if (status == WEIR_OK)
		return;
	fprintf(stderr, "zipf_trainer: %s: %s: %s\n", what, weir_status_name(status), e->text);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double unit_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) / 9007199254740992.0;
}

/* Neighbours in rank are no neighbours in key. */
static uint64_t key_of(uint64_t rank)
{
	uint64_t x = rank * 0x9e3779b97f4a7c15u;
	return x ^ x >> 32;
}

/* By inversion of the continuous law: rank 1 to rows_count. */
static uint64_t zipf_rank(void)
{
	double top = pow((double)rows_count + 1, 1 - zipf);
	uint64_t rank = (uint64_t)pow(1 + unit_random() * (top - 1), 1 / (1 - zipf));
	return rank < 1 ? 1 : rank > rows_count ? rows_count : rank;
}

static void draw(struct batch *b)
{
	memset(slots, 0, sizeof slots);
	b->rows = 0;
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint64_t key = key_of(zipf_rank());
		uint32_t at = (uint32_t)(key >> 20) % SLOTS;
		while (slots[at] && b->keys[slots[at] - 1] != key)
			at = (at + 1) % SLOTS;
		if (!slots[at]) {
			b->keys[b->rows++] = key;
			slots[at] = (uint32_t)b->rows;
		}
		b->of_draw[i] = slots[at] - 1;
	}
}

static void compute(struct batch *b)
{
	memset(b->gradients, 0, b->rows * WIDTH * sizeof(float));
	for (uint32_t s = 0; s < SAMPLES; s++) {
		const uint32_t *row = b->of_draw + (size_t)s * FIELDS;
		float logit = 0;
		for (uint32_t f = 0; f < FIELDS; f++)
			for (uint32_t k = 0; k < WIDTH; k++)
				logit += b->values[(size_t)row[f] * WIDTH + k];
		float error = (1 / (1 + expf(-logit)) - (float)(b->keys[row[0]] >> 13 & 1)) / SAMPLES;
		for (uint32_t f = 0; f < FIELDS; f++)
			for (uint32_t k = 0; k < WIDTH; k++)
				b->gradients[(size_t)row[f] * WIDTH + k] += error;
	}
}

static void start_pull(struct batch *b)
{
	weir_error e = {0};
	weir_pull_item item = {.table = table, .keys = b->keys, .rows = b->rows, .values = b->values};
	check(weir_pull(client, &b->id, &item, 1, NULL, NULL, &b->pulled, &e), &e, "pull");
}

static void await(weir_ticket *ticket, const char *what)
{
	weir_error e = {0};
	if (*ticket)
		check(weir_wait(client, *ticket, -1, &e), &e, what);
	*ticket = 0;
}

static void train_batch(struct batch *b)
{
	weir_error e = {0};
	await(&b->pulled, "pull");
	compute(b);
	weir_push_item item = {.table = table, .keys = b->keys, .rows = b->rows, .values = b->gradients};
	check(weir_push(client, &b->id, &item, 1, NULL, NULL, NULL, &b->pushed, &e), &e, "push");
	weir_report report = {.rows = SAMPLES, .batches = 1};
	weir_progress(client, &report);
}

static void load(void)
{
	static float values[LOAD_ROWS * WIDTH];
	static uint64_t keys[LOAD_ROWS];
	weir_error e = {0};
	double start = now();
	for (uint64_t at = 0; at < rows_count; at += LOAD_ROWS) {
		size_t n = rows_count - at < LOAD_ROWS ? (size_t)(rows_count - at) : LOAD_ROWS;
		for (size_t i = 0; i < n; i++)
			keys[i] = key_of(rows_count - at - i); /* the most frequent last: memory begins with them */
		for (size_t i = 0; i < n * WIDTH; i++)
			values[i] = (float)unit_random() * 0.02f - 0.01f;
		check(weir_assign(client, table, keys, n, values, &e), &e, "assign");
	}
	printf("{\"rows\": %llu, \"seconds\": %.2f}\n", (unsigned long long)rows_count, now() - start);
}

static void train(double seconds)
{
	struct batch ring[RING] = {0};
	weir_error e = {0};
	weir_unit unit;
	for (unsigned i = 0; i < RING; i++)
		ring[i] = (struct batch){.keys = malloc(DRAWS * sizeof(uint64_t)),
		                         .of_draw = malloc(DRAWS * sizeof(uint32_t)),
		                         .values = malloc((size_t)DRAWS * WIDTH * sizeof(float)),
		                         .gradients = malloc((size_t)DRAWS * WIDTH * sizeof(float))};
	double start = now(), half = 0;
	uint64_t samples = 0, rows = 0, all_samples = 0, all_rows = 0;
	while (now() - start < seconds) {
		check(weir_unit_lease(client, &unit, -1, &e), &e, "lease");
		check(weir_unit_begin(client, &unit, UNIT_BATCHES, &e), &e, "begin");
		for (uint32_t b = unit.watermark; b < UNIT_BATCHES + AHEAD; b++) {
			if (b < UNIT_BATCHES) {
				struct batch *next = &ring[b % RING];
				await(&next->pushed, "push");
				next->id = (weir_batch){.pass = unit.pass, .unit = unit.unit, .batch = b, .attempt = unit.attempt};
				draw(next);
				start_pull(next);
			}
			if (b < unit.watermark + AHEAD)
				continue;
			struct batch *due = &ring[(b - AHEAD) % RING];
			train_batch(due);
			all_samples += SAMPLES;
			all_rows += due->rows;
			if (!half && now() - start >= seconds / 2)
				half = now();
			else if (half) {
				samples += SAMPLES;
				rows += due->rows;
			}
		}
		for (unsigned i = 0; i < RING; i++)
			await(&ring[i].pushed, "push");
		check(weir_unit_commit(client, &unit, &e), &e, "commit");
	}
	double elapsed = now() - half;
	printf("{\"seconds\": %.2f, \"samples_per_s\": %.0f, \"rows_per_s\": %.0f, \"lookups\": %llu, \"keys\": %llu}\n", elapsed,
	       (double)samples / elapsed, (double)rows / elapsed, (unsigned long long)all_samples * FIELDS,
	       (unsigned long long)all_rows);
}

int main(int argc, char **argv)
{
	weir_error e = {0};
	bool loads = argc == 4 && strcmp(argv[3], "load") == 0;
	bool trains = (argc == 5 || argc == 6) && strcmp(argv[3], "train") == 0;
	if (argc == 6)
		zipf = strtod(argv[5], NULL);
	if ((!loads && !trains) || zipf <= 0 || zipf == 1) {
		fprintf(stderr, "usage: %s LEDGER ROWS load | train SECONDS [EXPONENT]\n", argv[0]);
		return 2;
	}
	rows_count = strtoull(argv[2], NULL, 10);
	weir_options options = {.ledger = argv[1], .name = "zipf", .dataset_fingerprint = 1, .dataset_units = UNITS};
	check(weir_open(&client, &options, &e), &e, "open");
	weir_init_segment normal = {.elements = WIDTH, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	weir_table_spec spec = {.name = "zipf",
	                        .kind = WEIR_EMBEDDING,
	                        .width = WIDTH,
	                        .optimizer = {.kind = WEIR_OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f},
	                        .segments_count = 1,
	                        .segments = &normal};
	check(weir_table_register(client, &spec, &table, &e), &e, "table");
	if (loads)
		load();
	else
		train(strtod(argv[4], NULL));
	check(weir_close(client, &e), &e, "close");
	return 0;
}
