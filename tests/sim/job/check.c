/* Checks at the end of the job: each batch counts once, in the ledger, in the partitions and in
 * every element. The checks know what trainers do (batch_keys, batch_value), and nothing of the
 * faults. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/key_partition.h"
#include "server/service/server_internal.h"
#include "tests/integer_batches.h"
#include "tests/sim/job/job.h"
#include "worker/client/client.h"

enum { ASK_MS = 60000, AUDITS = 100 };

struct audit {
	uint64_t expected, skipped, applied, dropped, twice, quarantined;
	uint64_t expected_fingerprint, applied_fingerprint, dropped_fingerprint;
	uint64_t partitions; /* partitions that have a primary */
	bool finished;
};

/* Returns NULL on failure. With may_move, E_MOVED is not a failure. */
static ProtobufCMessage *ask(struct job *job, weir_client *c, const char *address, bool may_move, enum rpc_method method,
                             const ProtobufCMessageDescriptor *type)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	struct rpc_channel *channel = NULL;
	struct message *answer = NULL;
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	weir_status status = rpc_channel_open(&channel, c->rpc, c->loop, address, &err);
	if (!status)
		status = rpc_call_wait(channel, method, wire_pack(&q.base), ASK_MS, &answer, &err);
	if (!status)
		status = wire_unpack(type, answer, &reply, &err);
	if (status && !(may_move && (status == WEIR_E_MOVED || status == WEIR_E_NOT_FOUND)))
		job_fail(job, "status of %s: %s", address, err.text);
	message_release(answer);
	rpc_channel_close(channel);
	return reply;
}

static void audit_ledger(struct job *job, weir_client *c, struct audit *a)
{
	ProtobufCMessage *m = NULL;
	for (uint32_t i = 0; i < job->servers && !m && !job->failure[0]; i++)
		if (!job->cast[i].gone)
			m = ask(job, c, job->addresses[i], job->replicas > 1, RPC_JOB_STATUS, &weir__v1__ledger_status__descriptor);
	const Weir__V1__LedgerStatus *l = (const Weir__V1__LedgerStatus *)m;
	if (!l)
		job_fail(job, "no server has the ledger");
	if (!l)
		return;
	for (size_t p = 0; p < l->expected->n_count; p++) {
		a->expected += l->expected->count[p];
		a->skipped += l->skipped->count[p];
		a->expected_fingerprint += l->expected->fingerprint[p] + l->skipped->fingerprint[p];
	}
	a->quarantined = l->units_quarantined;
	job->stalled = l->workers_stalled;
	a->finished = l->state == WEIR__V1__LEASE_STATE__FINISHED;
	wire_destroy(m);
}

static void audit_server(struct job *job, weir_client *c, uint32_t server, struct audit *a)
{
	ProtobufCMessage *m = ask(job, c, job->addresses[server], false, RPC_STATUS, &weir__v1__server_status__descriptor);
	const Weir__V1__ServerStatus *s = (const Weir__V1__ServerStatus *)m;
	if (!s)
		return;
	a->partitions += s->n_partitions;
	for (size_t p = 0; p < s->n_partitions; p++) {
		a->applied += s->partitions[p]->parts_applied;
		a->applied_fingerprint += s->partitions[p]->fingerprint;
		a->dropped += s->partitions[p]->parts_dropped;
		a->dropped_fingerprint += s->partitions[p]->dropped_fingerprint;
		a->twice += s->partitions[p]->parts_double;
	}
	wire_destroy(m);
}

static void check_audit(struct job *job, const struct audit *a)
{
	if (!a->finished)
		job_fail(job, "trainers have finished, but not the ledger's job");
	if (a->partitions != PARTITIONS)
		job_fail(job, "%" PRIu64 " of %d partitions have a primary", a->partitions, PARTITIONS);
	if (job->stalled > job->stalls)
		job_fail(job, "%" PRIu64 " times a trainer was taken for one that does not move; %" PRIu64 " times one stood still",
		         job->stalled, job->stalls);
	if (a->twice)
		job_fail(job, "%" PRIu64 " parts were applied twice", a->twice);
	if (a->applied + a->dropped != a->expected + a->skipped)
		job_fail(job, "%" PRIu64 " parts applied and %" PRIu64 " dropped; the ledger expects %" PRIu64 " and %" PRIu64 " skipped",
		         a->applied, a->dropped, a->expected, a->skipped);
	if (a->applied_fingerprint + a->dropped_fingerprint != a->expected_fingerprint)
		job_fail(job, "other parts were applied than the ledger expects, though as many");
}

/* --- Every element */

struct sums {
	float rows[KEY_SPACE], dense;
};

static void expect(const struct job *job, struct sums *s)
{
	uint64_t keys[KEYS];
	for (uint32_t u = 0; u < UNITS; u++)
		for (uint32_t b = 0; b < BATCHES; b++) {
			const float value = integer_batch_value(u, b) * (float)job->passes;
			integer_batch_keys(u, b, KEY_SPACE, KEYS, keys);
			s->dense += value;
			for (uint32_t i = 0; i < KEYS; i++)
				s->rows[keys[i]] += value;
		}
}

static void compare(struct job *job, const float *rows, const float *dense)
{
	struct sums s = {0};
	expect(job, &s);
	for (uint32_t i = 0; i < KEY_SPACE * WIDTH; i++)
		if (rows[i] != s.rows[i / WIDTH])
			job_fail(job, "row %u is %g, expected %g", i / WIDTH, (double)rows[i], (double)s.rows[i / WIDTH]);
	if (job->mode.kind == WEIR_SYNC && job->trainers > 1)
		return; /* a step applies the mean of its members' gradients, and membership is random */
	for (uint32_t i = 0; i < DENSE; i++)
		if (dense[i] != s.dense)
			job_fail(job, "dense[%u] is %g, expected %g", i, (double)dense[i], (double)s.dense);
}

static float rows[KEY_SPACE * WIDTH], dense[DENSE];

/* Reads every element from the stores of the primaries. */
static void read_stores(struct job *job)
{
	const float *row;
	memset(rows, 0, sizeof rows);
	memset(dense, 0, sizeof dense);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		const struct server *s = actor_server(job_server(job, records_get(p)->primary));
		const struct store_table *embedding = store_table(partition_store(s->partitions[p]), 0);
		const struct store_table *chunks = store_table(partition_store(s->partitions[p]), 1);
		for (uint64_t key = 0; key < KEY_SPACE; key++)
			if (store_find(embedding, key, &row))
				memcpy(rows + key * WIDTH, row, WIDTH * sizeof *row);
		/* The table has one chunk. */
		if (placement_dense(1, 0, PARTITIONS) == p && store_find(chunks, 0, &row))
			memcpy(dense, row, sizeof dense);
	}
	compare(job, rows, dense);
}

static void check_sums(struct job *job, weir_client *c)
{
	uint64_t keys[KEY_SPACE];
	weir_table_spec spec = {0};
	uint32_t rows_id = 0, dense_id = 0;
	weir_ticket ticket;
	weir_error err = {0};
	for (uint64_t k = 0; k < KEY_SPACE; k++)
		keys[k] = k;
	weir_status status = weir_table_find(c, "rows", &spec, &rows_id, &err);
	if (!status)
		status = weir_table_find(c, "dense", &spec, &dense_id, &err);
	const weir_pull_item items[] = {{.table = rows_id, .keys = keys, .rows = KEY_SPACE, .values = rows},
	                                {.table = dense_id, .values = dense}};
	if (!status)
		status = weir_pull(c, NULL, items, 2, NULL, NULL, &ticket, &err);
	if (!status)
		status = weir_wait(c, ticket, ASK_MS, &err);
	if (status)
		job_fail(job, "the tables cannot be read: %s", err.text);
	else
		compare(job, rows, dense);
}

/* While a partition moves, neither server or both may count it. The audit then asks again. */
static struct audit take_audit(struct job *job, weir_client *c)
{
	struct audit a = {0};
	for (uint32_t n = 0; n < AUDITS && a.partitions != PARTITIONS && !job->failure[0]; n++) {
		if (n > 0)
			thread_sleep(100 * SIM_MS);
		a = (struct audit){0};
		audit_ledger(job, c, &a);
		for (uint32_t i = 0; i < job->servers; i++)
			if (!job->cast[i].gone)
				audit_server(job, c, i, &a);
	}
	return a;
}

void check_main(void *arg)
{
	struct job *job = arg;
	weir_client *c = NULL;
	weir_error err = {0};
	const weir_options options = {.ledger = job->ledger, .name = "auditor", .role = WEIR_OBSERVER};
	if (client_open(&c, &options, rpc_sim_create(NULL), &err)) {
		job_fail(job, "auditor: %s", err.text);
		return;
	}
	const struct audit a = take_audit(job, c);
	check_audit(job, &a);
	job->exact = !a.quarantined && !a.dropped && !a.skipped;
	if (job->exact && job->replicas > 1)
		read_stores(job);
	if (job->exact)
		check_sums(job, c);
	job->checked = true;
}
