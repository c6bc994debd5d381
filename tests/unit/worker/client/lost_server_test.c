/* Servers with logs in memory return empty. Clients that know them, and later ones, get an error
 * with the server's name at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/client/integer_trainer.h"

static const weir_mode asynchronous = {WEIR_ASYNC};

/* E_LOST; the sentence names the server and the reason. */
static void assert_lost(weir_status status, const weir_error *err, const char *server)
{
	if (status != WEIR_E_LOST || !strstr(err->text, server) || !strstr(err->text, "cluster.log: memory"))
		fail_msg("%s: %s", weir_status_name(status), err->text);
}

/* Waits for the answer to a report made after this call. */
static void wait_for_report(weir_client *c)
{
	pthread_mutex_lock(&c->lock);
	const uint64_t until = c->report_sequence + 2;
	while (c->report_sequence < until || c->reporting)
		(void)client_wait(c, client_now(c) + 10);
	pthread_mutex_unlock(&c->lock);
}

static void a_client_that_trains_learns_of_it(void **state)
{
	(void)state;
	for (uint32_t lost = 0; lost < 2; lost++) {
		struct cluster c;
		struct trainer t;
		weir_error err = {0};
		weir_unit u;
		char name[16] = "memory:0";
		name[7] += (char)lost;
		cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
		trainer_open(&t, &c, "worker", asynchronous);
		trainer_lease(&t, &u);
		assert_ok(run_batch(&t, &u, 0, &err), &err);
		cluster_restart(&c, lost);
		assert_lost(run_batch(&t, &u, 1, &err), &err, name);
		assert_lost(run_batch(&t, &u, 2, &err), &err, name); /* the error is permanent */
		assert_lost(weir_unit_commit(t.client, &u, &err), &err, name);
		assert_lost(weir_unit_lease(t.client, &u, PATIENCE_MS, &err), &err, name);
		assert_lost(weir_rejoin(t.client, &err), &err, name);
		trainer_abandon(&t);
		cluster_stop(&c);
	}
}

/* None of this client's pushes are lost; its next batch would find rows in their initial state. */
static void a_client_that_sent_nothing_learns_of_it(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&t, &c, "worker", asynchronous);
	trainer_lease(&t, &u);
	wait_for_report(t.client); /* the streams are open */
	cluster_restart(&c, 1);
	assert_lost(run_batch(&t, &u, 0, &err), &err, "memory:1");
	assert_lost(weir_close(t.client, &err), &err, "memory:1");
	free(t.values);
	free(t.gradient);
	cluster_stop(&c);
}

static void a_client_that_only_waits_learns_of_it(void **state)
{
	(void)state;
	struct cluster c;
	weir_client *evaluator;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){0});
	const weir_options options = {.ledger = "memory:0", .name = "evaluator", .role = WEIR_EVALUATOR};
	assert_ok(client_open(&evaluator, &options, c.rpc, &err), &err);
	wait_for_report(evaluator);
	cluster_restart(&c, 1);
	assert_lost(weir_unit_lease(evaluator, &u, PATIENCE_MS, &err), &err, "memory:1");
	weir_abandon(evaluator);
	cluster_stop(&c);
}

static weir_status try_to_train(struct cluster *c, const char *name, weir_error *err)
{
	struct trainer t = {0};
	const weir_options options = {
	    .ledger = "memory:0", .name = name, .role = WEIR_TRAINER, .dataset_fingerprint = 77, .dataset_units = UNITS};
	weir_status status = client_open(&t.client, &options, c->rpc, err);
	const weir_table_spec spec = {.name = "rows",
	                              .kind = WEIR_EMBEDDING,
	                              .width = WIDTH,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .mode = asynchronous,
	                              .segments_count = 1,
	                              .segments = &(weir_init_segment){.elements = WIDTH, .kind = WEIR_INIT_ZERO}};
	if (!status)
		status = weir_table_register(t.client, &spec, &t.embedding, err);
	for (uint64_t key = 0; key < KEYS && !status; key++) { /* in all partitions */
		float row[WIDTH];
		weir_ticket ticket;
		weir_pull_item pull = {.table = t.embedding, .keys = &key, .rows = 1, .values = row};
		status = weir_pull(t.client, NULL, &pull, 1, NULL, NULL, &ticket, err);
		if (!status)
			status = weir_wait(t.client, ticket, PATIENCE_MS, err);
	}
	if (t.client)
		weir_abandon(t.client);
	return status;
}

/* All clients of the server are gone; they have told the ledger. */
static void a_later_client_learns_of_it(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	weir_unit u;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&t, &c, "worker", asynchronous);
	trainer_lease(&t, &u);
	assert_ok(run_batch(&t, &u, 0, &err), &err);
	wait_for_report(t.client);
	trainer_abandon(&t);
	assert_ok(try_to_train(&c, "second", &err), &err);
	cluster_restart(&c, 1);
	assert_lost(try_to_train(&c, "third", &err), &err, "memory:1");
	cluster_stop(&c);
}

/* The ledger is lost with its server; other servers still have rows of the job. */
static void a_client_of_a_new_ledger_learns_of_it(void **state)
{
	(void)state;
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){.lease_ms = 60000});
	trainer_open(&t, &c, "worker", asynchronous);
	trainer_abandon(&t);
	cluster_restart(&c, 0);
	assert_lost(try_to_train(&c, "second", &err), &err, "server 0 was started again");
	cluster_restart(&c, 0); /* it may have been told of server 1 */
	cluster_restart(&c, 1);
	assert_ok(try_to_train(&c, "third", &err), &err);
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_that_trains_learns_of_it),     cmocka_unit_test(a_client_that_sent_nothing_learns_of_it),
	    cmocka_unit_test(a_client_that_only_waits_learns_of_it), cmocka_unit_test(a_later_client_learns_of_it),
	    cmocka_unit_test(a_client_of_a_new_ledger_learns_of_it),
	};
	return cmocka_run_group_tests_name("lost_server", tests, NULL, NULL);
}
