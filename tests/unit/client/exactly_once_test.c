/* Exactly once, proved by integers: every batch adds known whole numbers to known rows under SGD with rate 1, so every element's final value says
 * how often each batch was applied; and the audit of ledger against partitions must agree. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster.h"
#include "prng.h"

enum { UNITS = 12, BATCHES = 6, KEYS = 40, KEY_SPACE = 200, WIDTH = 4, DENSE = 3 * 65536 + 1000 };

/* The keys of a batch (KEYS, distinct) and what it adds to each. */
static void batch_keys(uint32_t data_unit, uint32_t batch, uint64_t *keys)
{
	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = prng_permute(prng_mix(1, data_unit, batch), KEY_SPACE, i);
}

static float batch_value(uint32_t data_unit, uint32_t batch)
{
	return (float)(1 + (data_unit * 7 + batch * 3) % 11);
}

struct trainer {
	weir_client *client;
	uint32_t embedding, dense;
	float *values, *gradient; /* dense */
	uint32_t executed;
};

static void trainer_open(struct trainer *t, struct cluster *c, const char *name, weir_mode dense_mode)
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

/* Pull, compute, push; returns the first failure. Push is waited for when `wait`. */
static weir_status run_batch(struct trainer *t, const weir_unit *u, uint32_t batch, weir_error *err)
{
	uint64_t keys[KEYS];
	float rows[KEYS * WIDTH], add[KEYS * WIDTH];
	weir_batch id = {.pass = u->pass, .unit = u->unit, .batch = batch, .attempt = u->attempt};
	weir_ticket ticket;
	batch_keys(u->data_unit, batch, keys);
	weir_pull_item pull[] = {{.table = t->embedding, .keys = keys, .rows = KEYS, .values = rows}, {.table = t->dense, .values = t->values}};
	weir_status status = weir_pull(t->client, &id, pull, 2, NULL, NULL, &ticket, err);
	if (status == WEIR_OK)
		status = weir_wait(t->client, ticket, 20000, err);
	if (status != WEIR_OK)
		return status;
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		add[i] = -batch_value(u->data_unit, batch);
	for (uint32_t i = 0; i < DENSE; i++)
		t->gradient[i] = -batch_value(u->data_unit, batch);
	weir_push_item push[] = {{.table = t->embedding, .keys = keys, .rows = KEYS, .values = add}, {.table = t->dense, .values = t->gradient}};
	status = weir_push(t->client, &id, push, 2, NULL, NULL, NULL, &ticket, err);
	if (status == WEIR_OK)
		status = weir_wait(t->client, ticket, 20000, err);
	t->executed += status == WEIR_OK;
	return status;
}

/* Executes units until the job is finished, or until `batches_max` batches are done (then it stops in mid-unit). */
static weir_status train(struct trainer *t, uint32_t batches_max, weir_error *err)
{
	for (;;) {
		weir_unit u;
		weir_status status = weir_unit_lease(t->client, &u, -1, err);
		if (status != WEIR_OK || u.state == WEIR_UNIT_FINISHED)
			return status;
		status = weir_unit_begin(t->client, &u, BATCHES, err);
		for (uint32_t b = u.watermark; status == WEIR_OK && b < BATCHES; b++) {
			if (t->executed >= batches_max)
				return WEIR_OK;
			status = run_batch(t, &u, b, err);
		}
		if (status == WEIR_OK)
			status = weir_unit_commit(t->client, &u, err);
		if (status != WEIR_OK)
			return status;
	}
}

static void assert_ok(weir_status status, const weir_error *err)
{
	if (status != WEIR_OK)
		fail_msg("%s: %s", weir_status_name(status), err->text);
}

static void assert_sums(struct trainer *t)
{
	static float rows[KEY_SPACE * WIDTH];
	uint64_t all[KEY_SPACE], keys[KEYS];
	float expected[KEY_SPACE] = {0}, dense = 0;
	for (uint32_t u = 0; u < UNITS; u++)
		for (uint32_t b = 0; b < BATCHES; b++) {
			batch_keys(u, b, keys);
			dense += batch_value(u, b);
			for (uint32_t i = 0; i < KEYS; i++)
				expected[keys[i]] += batch_value(u, b);
		}
	for (uint64_t k = 0; k < KEY_SPACE; k++)
		all[k] = k;
	weir_pull_item pull[] = {{.table = t->embedding, .keys = all, .rows = KEY_SPACE, .values = rows}, {.table = t->dense, .values = t->values}};
	weir_ticket ticket;
	weir_error err = {0};
	assert_ok(weir_pull(t->client, NULL, pull, 2, NULL, NULL, &ticket, &err), &err);
	assert_ok(weir_wait(t->client, ticket, 10000, &err), &err);
	for (uint32_t k = 0; k < KEY_SPACE; k++)
		for (uint32_t w = 0; w < WIDTH; w++)
			assert_float_equal(rows[k * WIDTH + w], expected[k], 0);
	for (uint32_t i = 0; i < DENSE; i++)
		if (t->values[i] != dense)
			fail_msg("dense[%u] is %g, expected %g", i, t->values[i], dense);
}

static void assert_audit(struct cluster *c)
{
	struct audit a = cluster_audit(c);
	assert_true(a.finished);
	assert_int_equal(a.applied + a.dropped, a.expected);
	assert_int_equal(a.applied_fingerprint + a.dropped_fingerprint, a.expected_fingerprint);
	assert_int_equal(a.twice, 0);
}

struct thread {
	pthread_t id;
	struct trainer trainer;
	weir_status status;
	weir_error err;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	t->status = train(&t->trainer, UINT32_MAX, &t->err);
	return NULL;
}

static void test_two_trainers_apply_every_batch_once(void **state)
{
	(void)state;
	struct cluster c;
	struct thread t[2];
	memset(t, 0, sizeof t);
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&t[0].trainer, &c, "worker-0", (weir_mode){WEIR_ASYNC});
	trainer_open(&t[1].trainer, &c, "worker-1", (weir_mode){WEIR_ASYNC});
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i].id, NULL, thread_main, &t[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i].id, NULL);
		assert_ok(t[i].status, &t[i].err);
	}
	assert_int_equal(t[0].trainer.executed + t[1].trainer.executed, UNITS * BATCHES);
	assert_sums(&t[0].trainer);
	assert_audit(&c);
	for (int i = 0; i < 2; i++) {
		assert_ok(weir_close(t[i].trainer.client, &t[i].err), &t[i].err);
		trainer_free(&t[i].trainer);
	}
	cluster_stop(&c);
}

static void test_a_worker_that_dies_in_mid_unit_is_replaced_exactly(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){.lease_ms = 300});
	for (uint32_t round = 0; round < 3; round++) {
		char name[32];
		snprintf(name, sizeof name, "mortal-%u", round);
		trainer_open(&a, &c, name, (weir_mode){WEIR_ASYNC});
		assert_ok(train(&a, 4 + 5 * round, &err), &err);
		weir_abandon(a.client);
		trainer_free(&a);
	}
	trainer_open(&b, &c, "survivor", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&b, UINT32_MAX, &err), &err);
	assert_sums(&b);
	assert_audit(&c);
	assert_int_equal(cluster_audit(&c).workers_lost, 3);
	assert_ok(weir_close(b.client, &err), &err);
	trainer_free(&b);
	cluster_stop(&c);
}

static void test_a_zombie_is_told_that_it_is_stale_and_may_rejoin(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	weir_unit u, v;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&a, &c, "worker", (weir_mode){WEIR_ASYNC});
	assert_ok(weir_unit_lease(a.client, &u, -1, &err), &err);
	assert_ok(weir_unit_begin(a.client, &u, BATCHES, &err), &err);
	assert_ok(run_batch(&a, &u, 0, &err), &err);
	trainer_open(&b, &c, "worker", (weir_mode){WEIR_ASYNC}); /* the same name takes over */
	assert_ok(weir_unit_lease(b.client, &v, -1, &err), &err);
	assert_int_equal(v.unit, u.unit);
	assert_int_equal(v.attempt, 2);
	assert_int_equal(run_batch(&a, &u, 1, &err), WEIR_E_STALE);
	assert_int_equal(weir_unit_commit(a.client, &u, &err), WEIR_E_STALE);
	assert_ok(weir_unit_begin(b.client, &v, BATCHES, &err), &err);
	for (uint32_t batch = v.watermark; batch < BATCHES; batch++)
		assert_ok(run_batch(&b, &v, batch, &err), &err);
	assert_ok(weir_unit_commit(b.client, &v, &err), &err);
	assert_int_equal(weir_close(b.client, &err), WEIR_OK);
	trainer_free(&b);
	assert_ok(weir_rejoin(a.client, &err), &err);
	assert_ok(train(&a, UINT32_MAX, &err), &err);
	assert_sums(&a);
	assert_audit(&c);
	assert_ok(weir_close(a.client, &err), &err);
	trainer_free(&a);
	cluster_stop(&c);
}

static void test_three_synchronous_trainers_with_a_backup(void **state)
{
	(void)state;
	struct cluster c;
	struct thread t[3];
	memset(t, 0, sizeof t);
	cluster_start(&c, &(struct cluster_options){0});
	for (int i = 0; i < 3; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%d", i);
		trainer_open(&t[i].trainer, &c, name, (weir_mode){WEIR_SYNC, .backup = 1});
	}
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i].id, NULL, thread_main, &t[i]);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i].id, NULL);
		assert_ok(t[i].status, &t[i].err);
	}
	assert_audit(&c);
	struct audit a = cluster_audit(&c);
	assert_true(a.steps_closed > 0);
	for (int i = 0; i < 3; i++) {
		assert_ok(weir_close(t[i].trainer.client, &t[i].err), &t[i].err);
		trainer_free(&t[i].trainer);
	}
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_two_trainers_apply_every_batch_once),
	    cmocka_unit_test(test_a_worker_that_dies_in_mid_unit_is_replaced_exactly),
	    cmocka_unit_test(test_a_zombie_is_told_that_it_is_stale_and_may_rejoin),
	    cmocka_unit_test(test_three_synchronous_trainers_with_a_backup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
