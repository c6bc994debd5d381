/* A worker's process: uses libweir as a trainer does. Gradients are whole numbers, so that the
 * final weights show whether every batch was applied exactly once. */
#include <stdlib.h>
#include <string.h>

#include "tests/integer_batches.h"
#include "tests/sim/hour/hour.h"
#include "worker/client/client.h"

struct worker {
	struct machine *machine;
	weir_client *client;
	uint32_t rows, dense; /* table ids */
	/* Buffers of the client, valid as long as the process lives. */
	uint64_t keys[KEYS];
	float pulled_rows[KEYS * WIDTH], pulled_dense[DENSE], pushed_rows[KEYS * WIDTH], pushed_dense[DENSE];
};

static weir_status add_table(struct worker *w, const char *name, uint32_t width, uint32_t elements, uint32_t *id, weir_error *err)
{
	const weir_init_segment zero = {.elements = width + elements, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = width ? WEIR_EMBEDDING : WEIR_DENSE,
	                        .width = width,
	                        .elements = elements,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .segments_count = 1,
	                        .segments = &zero};
	strcpy(spec.name, name);
	return weir_table_register(w->client, &spec, id, err);
}

static weir_status join(struct worker *w, weir_error *err)
{
	const struct machine *m = w->machine;
	const weir_options options = {
	    .ledger = m->hour->ledger, .name = m->name, .dataset_fingerprint = 77, .dataset_units = m->hour->units};
	weir_status status = client_open(&w->client, &options, rpc_sim_create(NULL), err);
	if (!status)
		status = add_table(w, "rows", WIDTH, 0, &w->rows, err);
	if (!status)
		status = add_table(w, "dense", 0, DENSE, &w->dense, err);
	return status;
}

static weir_status pull(struct worker *w, const weir_batch *id, weir_error *err)
{
	weir_ticket ticket;
	const weir_pull_item items[] = {{.table = w->rows, .keys = w->keys, .rows = KEYS, .values = w->pulled_rows},
	                                {.table = w->dense, .values = w->pulled_dense}};
	weir_status status = weir_pull(w->client, id, items, 2, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(w->client, ticket, -1, err);
}

static weir_status push(struct worker *w, const weir_batch *id, float value, weir_error *err)
{
	weir_ticket ticket;
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		w->pushed_rows[i] = -value;
	for (uint32_t i = 0; i < DENSE; i++)
		w->pushed_dense[i] = -value;
	const weir_push_item items[] = {{.table = w->rows, .keys = w->keys, .rows = KEYS, .values = w->pushed_rows},
	                                {.table = w->dense, .values = w->pushed_dense}};
	weir_status status = weir_push(w->client, id, items, 2, NULL, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(w->client, ticket, -1, err);
}

static weir_status run_batch(struct worker *w, const weir_unit *u, uint32_t batch, weir_error *err)
{
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	const int64_t compute_ns = w->machine->hour->costs.compute_ns;
	integer_batch_keys(u->data_unit, batch, KEY_SPACE, KEYS, w->keys);
	weir_status status = pull(w, &id, err);
	thread_sleep(world_between(compute_ns * 9 / 10, compute_ns * 11 / 10));
	return status ? status : push(w, &id, integer_batch_value(u->data_unit, batch), err);
}

static weir_status run_unit(struct worker *w, const weir_unit *u, weir_error *err)
{
	weir_status status = weir_unit_begin(w->client, u, BATCHES, err);
	for (uint32_t batch = u->watermark; !status && batch < BATCHES; batch++)
		status = run_batch(w, u, batch, err);
	return status ? status : weir_unit_commit(w->client, u, err);
}

static weir_status train(struct worker *w, weir_error *err)
{
	while (true) {
		weir_unit u = {0};
		weir_status status = weir_unit_lease(w->client, &u, -1, err);
		if (!status && u.state == WEIR_UNIT_FINISHED)
			return WEIR_OK;
		if (!status)
			status = run_unit(w, &u, err);
		if (status == WEIR_E_STALE)
			status = weir_rejoin(w->client, err);
		if (status)
			return status;
	}
}

void worker_main(void *machine)
{
	struct machine *m = machine;
	struct worker *w = calloc(1, sizeof *w);
	weir_error err = {0};
	w->machine = m;
	weir_status status = join(w, &err);
	if (!status)
		status = train(w, &err);
	if (status)
		hour_fail(m->hour, "%s: %s", m->name, err.text);
	m->finished = true;
}

/* --- The sums */

static void compare(struct hour *h, const float *rows, const float *dense)
{
	float expected[KEY_SPACE] = {0}, all = 0;
	uint64_t keys[KEYS];
	for (uint32_t u = 0; u < h->units; u++)
		for (uint32_t b = 0; b < BATCHES; b++) {
			integer_batch_keys(u, b, KEY_SPACE, KEYS, keys);
			all += integer_batch_value(u, b);
			for (uint32_t i = 0; i < KEYS; i++)
				expected[keys[i]] += integer_batch_value(u, b);
		}
	for (uint32_t i = 0; i < KEY_SPACE * WIDTH; i++)
		if (rows[i] != expected[i / WIDTH])
			hour_fail(h, "row %u is %.0f, not %.0f", i / WIDTH, (double)rows[i], (double)expected[i / WIDTH]);
	for (uint32_t i = 0; i < DENSE; i++)
		if (dense[i] != all)
			hour_fail(h, "dense[%u] is %.0f, not %.0f", i, (double)dense[i], (double)all);
}

void check_main(void *hour)
{
	static float rows[KEY_SPACE * WIDTH], dense[DENSE];
	static uint64_t keys[KEY_SPACE];
	struct hour *h = hour;
	const weir_options options = {.ledger = h->ledger, .name = "check", .role = WEIR_OBSERVER};
	weir_client *c = NULL;
	weir_table_spec spec = {0};
	weir_ticket ticket;
	weir_error err = {0};
	uint32_t rows_id = 0, dense_id = 0;
	for (uint64_t k = 0; k < KEY_SPACE; k++)
		keys[k] = k;
	weir_status status = client_open(&c, &options, rpc_sim_create(NULL), &err);
	if (!status)
		status = weir_table_find(c, "rows", &spec, &rows_id, &err);
	if (!status)
		status = weir_table_find(c, "dense", &spec, &dense_id, &err);
	const weir_pull_item items[] = {{.table = rows_id, .keys = keys, .rows = KEY_SPACE, .values = rows},
	                                {.table = dense_id, .values = dense}};
	if (!status)
		status = weir_pull(c, NULL, items, 2, NULL, NULL, &ticket, &err);
	if (!status)
		status = weir_wait(c, ticket, -1, &err);
	if (status)
		hour_fail(h, "the tables cannot be read: %s", err.text);
	else
		compare(h, rows, dense);
	h->checked = true;
}
