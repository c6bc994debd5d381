/* The state of the job: the ledger's numbers, and those of all servers for the audit. */
#include <math.h>
#include <stdio.h>

#include "overview/audit.h"
#include "overview/overview_read.h"
#include "worker/client/api_struct.h"
#include "worker/client/client.h"

#define ANSWER_MS 2000u /* for the status of one server */

_Static_assert(sizeof(((weir_job *)0)->checkpoint) == WEIR_CHECKPOINT_NAME_BYTES_MAX, "a checkpoint's name must fit");

static weir_status read_ledger(weir_client *c, struct overview *s, weir_error *err)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	Weir__V1__JobId job;
	ProtobufCMessage *reply = NULL;
	client_fill_job(c, &job);
	q.job = &job;
	weir_status status = ledger_call_again(c, RPC_JOB_STATUS, &q.base, &weir__v1__ledger_status__descriptor, &reply, err);
	if (status == WEIR_OK)
		status = overview_read_ledger(s, (const Weir__V1__LedgerStatus *)reply, err);
	wire_destroy(reply);
	return status;
}

/* A server that does not answer is left out. */
static void read_server(weir_client *c, struct overview *s, uint32_t server)
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	struct rpc_channel *channel;
	ProtobufCMessage *reply = NULL;
	if (client_channel(c, server, &channel, NULL) != WEIR_OK ||
	    client_call(c, channel, RPC_STATUS, &q.base, ANSWER_MS, &weir__v1__server_status__descriptor, &reply, NULL) != WEIR_OK)
		return;
	overview_read_server(s, server, (const Weir__V1__ServerStatus *)reply);
	wire_destroy(reply);
}

static weir_job_state state_of(const struct overview *s)
{
	if (s->state == JOB_FAILED || s->lost[0])
		return WEIR_JOB_FAILED;
	if (s->state == JOB_FINISHED)
		return WEIR_JOB_FINISHED;
	return s->units ? WEIR_JOB_RUNNING : WEIR_JOB_NEW;
}

static void fill_audit(weir_job *j, const struct overview *s)
{
	const struct audit a = audit_run(s);
	const bool complete = s->state == JOB_FINISHED && s->servers_answered == s->servers_count;
	j->parts_expected = a.parts_expected;
	j->parts_skipped = a.skipped;
	j->parts_applied = a.applied;
	j->parts_dropped = a.dropped;
	if (complete) {
		j->audit = a.ok ? WEIR_AUDIT_EXACT : WEIR_AUDIT_WRONG;
		j->parts_missing = a.missing;
		j->parts_double = a.doubled;
		return;
	}
	for (uint32_t p = 0; p < s->partitions_count; p++)
		j->parts_double += s->partitions[p].twice;
	j->audit = j->parts_double ? WEIR_AUDIT_WRONG : WEIR_AUDIT_OPEN;
}

static void fill_job(weir_job *j, const struct overview *s)
{
	*j = (weir_job){.state = state_of(s),
	                .pass = s->pass,
	                .passes = s->passes,
	                .units = s->units,
	                .committed = s->committed,
	                .trainers = s->workers_live,
	                .servers = s->servers_count,
	                .servers_answered = s->servers_answered,
	                .tables = s->tables_count,
	                .partitions = s->partitions_count,
	                .generation = s->generation,
	                .rows = s->rows,
	                .batches = s->batches,
	                .loss = s->loss_rows ? s->loss_sum / (double)s->loss_rows : NAN,
	                .rows_per_s = s->rows_per_s,
	                .evaluated_batches = s->evaluated_batches,
	                .auc = s->auc,
	                .logloss = s->logloss,
	                .workers_lost = s->workers_lost,
	                .units_given_up = s->units_quarantined,
	                .batches_dropped = s->batches_dropped};
	snprintf(j->checkpoint, sizeof j->checkpoint, "%s", s->checkpoint);
	snprintf(j->failure, sizeof j->failure, "%s", s->failure[0] ? s->failure : s->lost);
	fill_audit(j, s);
}

weir_status weir_job_read(weir_client *c, weir_job *out, weir_error *err)
{
	struct overview s = {0};
	weir_job job;
	weir_status status = api_struct_check(API_weir_job, out, err);
	if (status == WEIR_OK)
		status = read_ledger(c, &s, err);
	for (uint32_t i = 0; i < s.servers_count && status == WEIR_OK; i++)
		read_server(c, &s, i);
	if (status == WEIR_OK) {
		fill_job(&job, &s);
		api_struct_write(API_weir_job, out, &job);
	}
	overview_destroy(&s);
	return status;
}
