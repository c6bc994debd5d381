#include "tests/unit/worker/client/integer_trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/integer_batches.h"

void trainer_open(struct trainer *t, struct cluster *c, const char *name, weir_mode dense_mode)
{
	*t = (struct trainer){.client = cluster_trainer(c, name, UNITS)};
	t->embedding = cluster_table(t->client, "rows", WEIR_EMBEDDING, WIDTH, (weir_mode){WEIR_ASYNC});
	t->dense = cluster_table(t->client, "dense", WEIR_DENSE, DENSE, dense_mode);
	t->values = malloc(DENSE * sizeof *t->values);
	t->gradient = malloc(DENSE * sizeof *t->gradient);
}

static void trainer_free(struct trainer *t)
{
	free(t->values);
	free(t->gradient);
}

void trainer_close(struct trainer *t)
{
	weir_error err = {0};
	assert_ok(weir_close(t->client, &err), &err);
	trainer_free(t);
}

void trainer_abandon(struct trainer *t)
{
	weir_abandon(t->client);
	trainer_free(t);
}

void trainer_lease(struct trainer *t, weir_unit *u)
{
	weir_error err = {0};
	assert_ok(weir_unit_lease(t->client, u, PATIENCE_MS, &err), &err);
	assert_int_equal(u->state, WEIR_UNIT_LEASED);
	assert_ok(weir_unit_begin(t->client, u, BATCHES, &err), &err);
}

static float round_value(const weir_unit *u, uint32_t batch)
{
	float sum = 0;
	for (uint32_t b = u->local_steps ? batch / u->local_steps * u->local_steps : batch; b <= batch; b++)
		sum += integer_batch_value(u->data_unit, b);
	return sum;
}

/* A round starts with a pull for the batch that pushes its result. */
static weir_status pull_round(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err)
{
	const weir_batch id = integer_batch_id(u, integer_round_end(u, batch, BATCHES));
	const weir_pull_item pull = {.table = t->dense, .values = t->values};
	weir_ticket ticket;
	if (batch % u->local_steps)
		return WEIR_OK;
	weir_status status = weir_pull(t->client, &id, &pull, 1, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(t->client, ticket, PATIENCE_MS, err);
}

static weir_status pull_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err)
{
	uint64_t keys[KEYS];
	float rows[KEYS * WIDTH];
	const weir_batch id = integer_batch_id(u, batch);
	weir_ticket ticket;
	integer_batch_keys(u->data_unit, batch, KEY_SPACE, KEYS, keys);
	weir_pull_item pull[] = {{.table = t->embedding, .keys = keys, .rows = KEYS, .values = rows},
	                         {.table = t->dense, .values = t->values}};
	weir_status status = u->local_steps ? pull_round(t, u, batch, err) : WEIR_OK;
	if (status == WEIR_OK)
		status = weir_pull(t->client, &id, pull, u->local_steps ? 1 : 2, NULL, NULL, &ticket, err);
	return status ? status : weir_wait(t->client, ticket, PATIENCE_MS, err);
}

weir_status push_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err)
{
	uint64_t keys[KEYS];
	float add[KEYS * WIDTH];
	const weir_batch id = integer_batch_id(u, batch);
	weir_ticket ticket;
	integer_batch_keys(u->data_unit, batch, KEY_SPACE, KEYS, keys);
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		add[i] = -integer_batch_value(u->data_unit, batch);
	for (uint32_t i = 0; i < DENSE; i++)
		t->gradient[i] = -round_value(u, batch);
	if (t->not_finite)
		t->gradient[batch] = 0.0f / 0.0f;
	weir_push_item push[] = {{.table = t->embedding, .keys = keys, .rows = KEYS, .values = add},
	                         {.table = t->dense, .values = t->gradient}};
	weir_status status =
	    weir_push(t->client, &id, push, integer_round_end(u, batch, BATCHES) == batch ? 2 : 1, NULL, NULL, NULL, &ticket, err);
	if (status == WEIR_OK)
		status = weir_wait(t->client, ticket, PATIENCE_MS, err);
	t->executed += status == WEIR_OK;
	return status;
}

weir_status run_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err)
{
	weir_status status = pull_batch(t, u, batch, err);
	return status ? status : push_batch(t, u, batch, err);
}

void finish_unit(struct trainer *t, const weir_unit *u)
{
	weir_error err = {0};
	for (uint32_t batch = u->watermark; batch < BATCHES; batch++)
		assert_ok(run_batch(t, u, batch, &err), &err);
	assert_ok(weir_unit_commit(t->client, u, &err), &err);
}

weir_status train(struct trainer *t, uint32_t batches_max, weir_error *err)
{
	for (;;) {
		weir_unit u = {0};
		if (t->before_unit)
			t->before_unit(t->before_unit_arg);
		weir_status status = weir_unit_lease(t->client, &u, -1, err);
		if (status == WEIR_OK && u.state == WEIR_UNIT_FINISHED)
			return WEIR_OK;
		if (status == WEIR_OK)
			status = weir_unit_begin(t->client, &u, BATCHES, err);
		for (uint32_t b = u.watermark; status == WEIR_OK && b < BATCHES; b++) {
			if (t->executed >= batches_max)
				return WEIR_OK;
			status = run_batch(t, &u, b, err);
		}
		if (status == WEIR_OK)
			status = weir_unit_commit(t->client, &u, err);
		if (status == WEIR_E_STALE)
			status = weir_rejoin(t->client, err);
		if (status != WEIR_OK)
			return status;
	}
}

void assert_ok(weir_status status, const weir_error *err)
{
	if (status != WEIR_OK)
		fail_msg("%s: %s", weir_status_name(status), err->text);
}

void assert_sums(struct trainer *t)
{
	static float rows[KEY_SPACE * WIDTH];
	uint64_t all[KEY_SPACE], keys[KEYS];
	float expected[KEY_SPACE] = {0}, dense = 0;
	for (uint32_t u = 0; u < UNITS; u++)
		for (uint32_t b = 0; b < BATCHES; b++) {
			integer_batch_keys(u, b, KEY_SPACE, KEYS, keys);
			dense += integer_batch_value(u, b);
			for (uint32_t i = 0; i < KEYS; i++)
				expected[keys[i]] += integer_batch_value(u, b);
		}
	for (uint64_t k = 0; k < KEY_SPACE; k++)
		all[k] = k;
	weir_pull_item pull[] = {{.table = t->embedding, .keys = all, .rows = KEY_SPACE, .values = rows},
	                         {.table = t->dense, .values = t->values}};
	weir_ticket ticket;
	weir_error err = {0};
	assert_ok(weir_pull(t->client, NULL, pull, 2, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(t->client, ticket, PATIENCE_MS, &err), &err);
	for (uint32_t k = 0; k < KEY_SPACE; k++)
		for (uint32_t w = 0; w < WIDTH; w++)
			assert_float_equal(rows[k * WIDTH + w], expected[k], 0);
	for (uint32_t i = 0; i < DENSE; i++)
		if (t->values[i] != dense)
			fail_msg("dense[%u] is %g, expected %g", i, t->values[i], dense);
}

void assert_audit(struct cluster *c)
{
	struct audit a = cluster_audit(c);
	assert_true(a.finished);
	assert_int_equal(a.applied + a.dropped, a.expected + a.skipped);
	assert_int_equal(a.applied_fingerprint + a.dropped_fingerprint, a.expected_fingerprint);
	assert_int_equal(a.twice, 0);
}

void finish_by(struct trainer *t, struct cluster *c)
{
	weir_error err = {0};
	assert_ok(train(t, UINT32_MAX, &err), &err);
	assert_audit(c);
}

void threads_open(struct trainer_thread *t, uint32_t count, struct cluster *c, weir_mode dense_mode)
{
	for (uint32_t i = 0; i < count; i++) {
		t[i] = (struct trainer_thread){.batches_max = UINT32_MAX};
		snprintf(t[i].name, sizeof t[i].name, "worker-%u", i);
		trainer_open(&t[i].trainer, c, t[i].name, dense_mode);
	}
}

static void *thread_main(void *arg)
{
	struct trainer_thread *t = arg;
	t->status = train(&t->trainer, t->batches_max, &t->err);
	if (t->batches_max != UINT32_MAX)
		trainer_abandon(&t->trainer);
	return NULL;
}

void threads_train(struct trainer_thread *t, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(pthread_create(&t[i].id, NULL, thread_main, &t[i]), 0);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(t[i].id, NULL);
	for (uint32_t i = 0; i < count; i++)
		assert_ok(t[i].status, &t[i].err);
}

void threads_close(struct trainer_thread *t, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (t[i].batches_max == UINT32_MAX)
			trainer_close(&t[i].trainer);
}
