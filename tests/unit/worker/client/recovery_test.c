/* Half-done work and its completion: lost answers, batches refused or given up after some of their
 * parts were applied, steps with dead members. Every test ends with the sums and the audit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/worker/client/integer_trainer.h"

static const weir_mode asynchronous = {WEIR_ASYNC}, synchronous = {WEIR_SYNC};

/* The ledger stops answering this client until unmute gets the result of `mute`. */
static struct rpc_channel *mute(struct trainer *t, struct cluster *c)
{
	struct rpc_channel *ledger = t->client->ledger.addresses[0]->channel, *nobody = NULL;
	weir_error err = {0};
	assert_ok(rpc_channel_open(&nobody, c->rpc, t->client->loop, "memory:nobody", &err), &err);
	pthread_mutex_lock(&t->client->lock);
	t->client->ledger.addresses[0]->channel = nobody;
	pthread_mutex_unlock(&t->client->lock);
	return ledger;
}

static void unmute(struct trainer *t, struct rpc_channel *ledger)
{
	pthread_mutex_lock(&t->client->lock);
	struct rpc_channel *nobody = t->client->ledger.addresses[0]->channel;
	t->client->ledger.addresses[0]->channel = ledger;
	while (t->client->reporting)
		(void)client_wait(t->client, client_now(t->client) + 5);
	pthread_mutex_unlock(&t->client->lock);
	rpc_channel_close(nobody);
}

/* Waits for two reports: the ledger then knows what the client knew before. */
static void wait_for_progress(struct trainer *t)
{
	weir_client *c = t->client;
	pthread_mutex_lock(&c->lock);
	uint64_t until = c->report_sequence + 2;
	while (c->report_sequence < until || c->reporting)
		(void)client_wait(c, client_now(c) + 10);
	pthread_mutex_unlock(&c->lock);
}

/* Pushes a batch that the client refuses: nothing is sent. */
static void refuse_push(struct trainer *t, const weir_unit *u, uint32_t batch)
{
	weir_error err = {0};
	t->not_finite = true;
	assert_int_equal(run_batch(t, u, batch, &err), WEIR_E_NOT_FINITE);
	t->not_finite = false;
}

static void a_commit_that_is_tried_again_counts_its_parts_once(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&t, &c, "worker", asynchronous);
	trainer_lease(&t, &u);
	refuse_push(&t, &u, 0); /* the watermark stays below it */
	for (uint32_t batch = 1; batch < BATCHES; batch++)
		assert_ok(run_batch(&t, &u, batch, &err), &err);
	struct rpc_channel *ledger = mute(&t, &c);
	assert_int_equal(weir_unit_commit(t.client, &u, &err), WEIR_E_UNAVAILABLE);
	unmute(&t, ledger);
	wait_for_progress(&t); /* reports cover only batches below the watermark */
	assert_ok(weir_unit_commit(t.client, &u, &err), &err);
	finish_by(&t, &c);
	trainer_close(&t);
	cluster_stop(&c);
}

static void on_lease(void *arg, weir_status status, const char *text, struct message *m)
{
	(void)text;
	(void)m;
	assert_int_equal(status, WEIR_OK);
	atomic_store((atomic_bool *)arg, true);
}

static void a_lease_whose_answer_was_lost_is_asked_for_again(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&t, &c, "worker", asynchronous);
	/* The request of weir_unit_lease, with a lost answer. */
	Weir__V1__LeaseRequest q = WEIR__V1__LEASE_REQUEST__INIT;
	Weir__V1__JobId job;
	atomic_bool answered = false;
	client_fill_job(t.client, &job);
	q.job = &job;
	q.worker = t.client->worker;
	q.incarnation = t.client->incarnation;
	q.sequence = 1;
	assert_ok(rpc_call_start(t.client->ledger.addresses[0]->channel, RPC_LEASE, wire_pack(&q.base), 5000, on_lease, &answered),
	          &err);
	while (!atomic_load(&answered))
		assert_int_equal(weir_wait(t.client, 1, 0, &err), WEIR_E_NOT_FOUND);
	struct rpc_channel *ledger = mute(&t, &c);
	assert_int_equal(weir_unit_lease(t.client, &u, 0, &err), WEIR_E_UNAVAILABLE);
	unmute(&t, ledger);
	trainer_lease(&t, &u);
	assert_int_equal(u.unit, 0);
	finish_unit(&t, &u);
	finish_by(&t, &c);
	assert_sums(&t);
	trainer_close(&t);
	cluster_stop(&c);
}

/* Attempt 1 has applied a batch; attempt 2 computes a NaN for it. The applied parts stay and are in
 * the audit. */
static void a_batch_refused_by_a_later_attempt_is_accounted_for(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	weir_unit u, v;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&a, &c, "worker", asynchronous);
	trainer_lease(&a, &u);
	/* batch 0 is missing, so the watermark cannot pass */
	assert_ok(run_batch(&a, &u, 1, &err), &err);
	cluster_displace(a.client);
	trainer_open(&b, &c, "worker", asynchronous);
	trainer_lease(&b, &v);
	assert_int_equal(v.unit, u.unit);
	assert_int_equal(v.watermark, 0);
	refuse_push(&b, &v, 1);
	for (uint32_t batch = 0; batch < BATCHES; batch++)
		if (batch != 1)
			assert_ok(run_batch(&b, &v, batch, &err), &err);
	assert_ok(weir_unit_commit(b.client, &v, &err), &err);
	finish_by(&b, &c);
	assert_sums(&b);
	trainer_abandon(&a);
	trainer_close(&b);
	cluster_stop(&c);
}

/* Only servers can check encoded bytes. Their refusal is an outcome: the batch is done without
 * effect. */
static void a_push_that_servers_refuse_as_not_finite_is_done(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	weir_ticket ticket;
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&t, &c, "worker", asynchronous);
	trainer_lease(&t, &u);
	weir_batch id = {.pass = u.pass, .unit = u.unit, .batch = 0, .attempt = u.attempt};
	for (uint32_t i = 0; i < DENSE; i++)
		t.gradient[i] = 0.0f / 0.0f;
	weir_push_item item = {.table = t.dense, .encoded = t.gradient, .encoded_bytes = DENSE * sizeof(float)};
	assert_ok(weir_push(t.client, &id, &item, 1, NULL, NULL, NULL, &ticket, &err), &err);
	assert_int_equal(weir_wait(t.client, ticket, PATIENCE_MS, &err), WEIR_E_NOT_FINITE);
	for (uint32_t batch = 1; batch < BATCHES; batch++)
		assert_ok(run_batch(&t, &u, batch, &err), &err);
	assert_ok(weir_unit_commit(t.client, &u, &err), &err);
	finish_by(&t, &c);
	trainer_close(&t);
	cluster_stop(&c);
}

/* All parts of a batch are acknowledged but wait in an open step when the worker dies. The batch
 * must be executed again, or it would be in no step. */
static void the_watermark_waits_for_the_step(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 4000});
	trainer_open(&a, &c, "worker", synchronous);
	trainer_lease(&a, &u);
	assert_ok(run_batch(&a, &u, 0, &err), &err);
	wait_for_progress(&a);
	cluster_displace(a.client);
	trainer_open(&b, &c, "worker", synchronous);
	finish_by(&b, &c);
	assert_sums(&b);
	assert_int_equal(cluster_audit(&c).dropped, 0);
	trainer_abandon(&a);
	trainer_close(&b);
	cluster_stop(&c);
}

/* Batch 0 is closed and batch 1 in flight when the worker dies before a report. Both are executed
 * again and count once. */
static void a_closed_batch_that_is_executed_again_counts_once(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	weir_unit u, v;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&a, &c, "worker", synchronous);
	trainer_lease(&a, &u);
	assert_ok(run_batch(&a, &u, 0, &err), &err);
	assert_ok(run_batch(&a, &u, 1, &err), &err);
	assert_int_equal(cluster_audit(&c).steps_closed, 1);
	cluster_displace(a.client);
	trainer_open(&b, &c, "worker", synchronous);
	trainer_lease(&b, &v);
	assert_int_equal(v.unit, u.unit);
	finish_unit(&b, &v);
	finish_by(&b, &c);
	assert_sums(&b);
	/* each batch is in one step */
	assert_int_equal(cluster_audit(&c).steps_closed, UNITS * BATCHES);
	trainer_abandon(&a);
	trainer_close(&b);
	cluster_stop(&c);
}

/* A stale worker lost a close with everything in flight. It is sent again after the rejoin. */
static void a_close_lost_by_a_stale_worker_is_sent_again(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	weir_ticket ticket;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&t, &c, "worker", synchronous);
	trainer_lease(&t, &u);
	assert_ok(run_batch(&t, &u, 0, &err), &err);
	pthread_mutex_lock(&t.client->lock);
	/* the client believes that it sent the close of step 1; no server gets it */
	t.client->steps.closes_sent = 1;
	pthread_mutex_unlock(&t.client->lock);
	weir_batch id = {.pass = u.pass, .unit = u.unit, .batch = 1, .attempt = u.attempt};
	weir_pull_item item = {.table = t.dense, .values = t.values};
	assert_ok(weir_pull(t.client, &id, &item, 1, NULL, NULL, &ticket, &err), &err);
	while (cluster_audit(&c).steps_closed == 0)
		;
	pthread_mutex_lock(&t.client->lock);
	while (t.client->steps.number < 2)
		(void)client_wait(t.client, client_now(t.client) + 5);
	client_become_stale(t.client, "the test says so");
	pthread_mutex_unlock(&t.client->lock);
	assert_int_equal(weir_wait(t.client, ticket, PATIENCE_MS, &err), WEIR_E_STALE);
	assert_ok(weir_rejoin(t.client, &err), &err);
	finish_by(&t, &c);
	assert_sums(&t);
	trainer_close(&t);
	cluster_stop(&c);
}

/* A seat for a batch that the worker cannot push would hold the step open. */
static void a_batch_that_is_not_held_gets_no_step(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&t, &c, "worker", synchronous);
	assert_ok(weir_unit_lease(t.client, &u, -1, &err), &err);
	assert_int_equal(run_batch(&t, &u, 0, &err), WEIR_E_STATE); /* the unit is not begun */
	assert_ok(weir_unit_begin(t.client, &u, BATCHES, &err), &err);
	assert_int_equal(run_batch(&t, &u, BATCHES, &err), WEIR_E_STATE);
	finish_unit(&t, &u);
	assert_int_equal(run_batch(&t, &u, 0, &err), WEIR_E_STATE);
	finish_by(&t, &c);
	assert_sums(&t);
	trainer_close(&t);
	cluster_stop(&c);
}

/* A living worker gives up a unit with a batch in the open step, and holds nobody up. */
static void a_unit_given_up_holds_no_step_open(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer a, b;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){0});
	trainer_open(&a, &c, "worker-0", synchronous);
	trainer_lease(&a, &u);
	assert_ok(run_batch(&a, &u, 0, &err), &err);
	assert_ok(weir_unit_fail(a.client, &u, "the rest cannot be read", &err), &err);
	trainer_open(&b, &c, "worker-1", synchronous);
	finish_by(&b, &c);
	assert_sums(&b);
	trainer_close(&a);
	trainer_close(&b);
	cluster_stop(&c);
}

/* allow_skip: parts of a skipped unit are in the audit, separately. */
static void give_up(const weir_mode mode)
{
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){.allow_skip = 1});
	trainer_open(&t, &c, "worker", mode);
	for (uint32_t i = 0; i < WEIR_UNIT_FAILURES_MAX; i++) {
		trainer_lease(&t, &u);
		assert_int_equal(u.unit, 0);
		for (uint32_t batch = u.watermark; batch <= i; batch++)
			assert_ok(run_batch(&t, &u, batch, &err), &err);
		assert_ok(weir_unit_fail(t.client, &u, "the rest cannot be read", &err), &err);
	}
	finish_by(&t, &c);
	struct audit a = cluster_audit(&c);
	assert_true(a.skipped > 0);
	assert_int_equal(a.units_quarantined, 1);
	trainer_close(&t);
	cluster_stop(&c);
}

static void parts_of_a_unit_that_is_skipped_are_accounted_for(void **state)
{
	(void)state;
	give_up(asynchronous);
	give_up(synchronous);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_commit_that_is_tried_again_counts_its_parts_once),
	    cmocka_unit_test(a_lease_whose_answer_was_lost_is_asked_for_again),
	    cmocka_unit_test(a_batch_refused_by_a_later_attempt_is_accounted_for),
	    cmocka_unit_test(a_push_that_servers_refuse_as_not_finite_is_done),
	    cmocka_unit_test(the_watermark_waits_for_the_step),
	    cmocka_unit_test(a_closed_batch_that_is_executed_again_counts_once),
	    cmocka_unit_test(a_close_lost_by_a_stale_worker_is_sent_again),
	    cmocka_unit_test(a_batch_that_is_not_held_gets_no_step),
	    cmocka_unit_test(a_unit_given_up_holds_no_step_open),
	    cmocka_unit_test(parts_of_a_unit_that_is_skipped_are_accounted_for),
	};
	return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
