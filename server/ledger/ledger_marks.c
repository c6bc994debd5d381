/* Servers' low-water marks in the ledger's log (see mark.h for their purpose), and the number of
 * parts that partitions must have, which marks.h asks for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/ledger/ledger_state.h"

#define GO_BACK "Go back to a checkpoint: `weir restore --from latest`, then `weir train --resume`"

/* Whether the report is consistent with the server's mark in the log. An honest disk's epochs and
 * positions only grow, and an epoch belongs to one process. */
static bool follows(const struct server_mark *m, const Weir__V1__MarkRequest *q)
{
	if (q->epoch == m->epoch)
		return q->began == m->began && q->position >= m->position;
	return q->epoch > m->epoch && q->began >= m->position;
}

static void check_mark(struct ledger *l, const Weir__V1__MarkRequest *q, weir_error *err)
{
	struct server_mark *m = &l->marks[q->server];
	if (m->epoch && !follows(m, q)) {
		weir_fail(err, WEIR_E_STALE,
		          "server %u has gone back in time: start %" PRIu64 " found its log up to position %" PRIu64 " and is at %" PRIu64
		          "; by the ledger start %" PRIu64 " had %" PRIu64
		          " on disk. Its folder is an old copy, or its log was cut short",
		          q->server, q->epoch, q->began, q->position, m->epoch, m->position);
		return;
	}
	if (q->epoch == m->epoch && q->position == m->position)
		return;
	*m = (struct server_mark){.epoch = q->epoch, .began = q->began, .position = q->position, .changed = true};
	l->changes.marks = true;
}

static bool is_above(const Weir__V1__UnitMark *a, const Weir__V1__UnitMark *b)
{
	return a->pass != b->pass ? a->pass > b->pass : a->unit > b->unit;
}

/* Partitions close units only after the ledger has announced, for good, that it closed them. */
static void check_ledger(const struct ledger *l, const Weir__V1__MarkRequest *q, weir_error *err)
{
	const Weir__V1__UnitMark own = ledger_closed_low(l);
	if (q->closed_low && is_above(q->closed_low, &own))
		weir_fail(err, WEIR_E_STALE,
		          "the ledger has gone back in time: server %u has closed all units below unit %u of pass %u, and the ledger "
		          "those below unit "
		          "%u of pass %u. The folder of the ledger's server is an old copy, or its log was cut short",
		          q->server, q->closed_low->unit, q->closed_low->pass, own.unit, own.pass);
}

static weir_status check_request(const struct ledger *l, const Weir__V1__MarkRequest *q, weir_error *err)
{
	weir_status status = ledger_check_job(l, q->job, err);
	if (!status && q->epoch && q->server >= l->options.servers_count)
		status = weir_fail(err, WEIR_E_INVALID, "a mark of server %u: the job has %u", q->server, l->options.servers_count);
	for (size_t i = 0; i < q->n_partitions && !status; i++)
		if (q->partitions[i] >= l->options.partitions)
			status =
			    weir_fail(err, WEIR_E_INVALID, "totals of partition %u: the job has %u", q->partitions[i], l->options.partitions);
	return status;
}

static weir_status check_disks(struct ledger *l, const Weir__V1__MarkRequest *q, weir_error *err)
{
	check_ledger(l, q, err);
	if (!err->status && q->epoch)
		check_mark(l, q, err);
	return err->status;
}

/* Fails the job. A report may arrive late, behind newer ones, after its sender has given it up or
 * is gone. So a comparison alone changes nothing: the sender that receives its verdict reports it
 * again, in `amiss`. */
static void hear(struct ledger *l, const Weir__V1__MarkRequest *q)
{
	char text[WEIR_ERROR_TEXT_BYTES];
	snprintf(text, sizeof text, "%s. " GO_BACK, q->amiss);
	if (!l->failed)
		ledger_fail(l, text);
}

void ledger_server_mark(struct ledger *l, const Weir__V1__MarkRequest *q, ledger_reply_fn reply, void *arg)
{
	Weir__V1__MarkReply r = WEIR__V1__MARK_REPLY__INIT;
	Weir__V1__Status status;
	weir_error err = {0};
	Weir__V1__PartitionTotal *totals = calloc(q->n_partitions + 1, sizeof *totals),
	                         **list = calloc(q->n_partitions + 1, sizeof *list);
	if (!totals || !list)
		weir_fail(&err, WEIR_E_MEMORY, "the ledger has no memory for the totals of %zu partitions", q->n_partitions);
	else if (!check_request(l, q, &err) && q->amiss[0])
		hear(l, q);
	else if (!err.status && !check_disks(l, q, &err))
		r.n_totals = q->n_partitions;
	for (size_t i = 0; i < r.n_totals; i++) {
		const uint32_t p = q->partitions[i];
		weir__v1__partition_total__init(&totals[i]);
		totals[i].partition = p;
		totals[i].parts = l->expected.count[p] + l->skipped.count[p];
		totals[i].fingerprint = l->expected.fingerprint[p] + l->skipped.fingerprint[p];
		list[i] = &totals[i];
	}
	ledger_fill_status(&status, err.status, err.text);
	r.status = &status;
	r.totals = list;
	reply(arg, &r.base);
	free(totals);
	free(list);
}
