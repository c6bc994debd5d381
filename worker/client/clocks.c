/* Bounded staleness, a worker's side (server/ledger/ledger_clocks.c). A batch gets its number with
 * its first pull of such a table. The pull is sent once the ledger has allowed that number. A batch
 * is through when all its pushes are applied, or when it will push nothing. Only then may the
 * others advance because of it, so that their later pulls contain it. */
#include "worker/client/client.h"

/* The batches up to this one are through. */
static uint64_t finished(const weir_client *c)
{
	uint64_t first = c->clocks.begun + 1;
	for (const struct held_unit *u = c->units; u; u = u->next)
		for (uint32_t i = u->watermark; i < u->batches; i++) {
			const struct held_batch *b = u->batch[i];
			if (b && b->clock && b->clock < first && !b->complete && !b->refused)
				first = b->clock;
		}
	return first - 1;
}

static uint64_t clock_of(weir_client *c, const struct operation *pull)
{
	const struct held_batch *b = batch_find(c, &pull->batch, NULL, NULL);
	return b ? b->clock : 0;
}

static void release(weir_client *c)
{
	for (struct operation **at = &c->clocks.waiting, *op; (op = *at);) {
		if (clock_of(c, op) > c->clocks.limit) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		pull_go_on(op);
	}
	links_wake(c);
}

static void on_reply(weir_client *c, const ProtobufCMessage *reply)
{
	const Weir__V1__ClockReply *r = (const Weir__V1__ClockReply *)reply;
	struct clocks *k = &c->clocks;
	k->placed = true;
	k->shift = r->shift;
	if (r->limit > k->limit) {
		k->limit = r->limit;
		release(c);
	}
}

void clocks_fail(weir_client *c, weir_status status, const char *text)
{
	for (struct operation *op; (op = c->clocks.waiting);) {
		c->clocks.waiting = op->next;
		operation_end_unsent(op, status, text);
	}
}

/* The number of the first batch that waits; 0: none. */
static uint64_t wanted(weir_client *c)
{
	uint64_t first = 0;
	for (const struct operation *op = c->clocks.waiting; op; op = op->next) {
		const uint64_t clock = clock_of(c, op);
		first = !first || clock < first ? clock : first;
	}
	return first;
}

bool clocks_wait_for_others(weir_client *c)
{
	uint64_t bound = UINT32_MAX;
	if (!c->clocks.waiting)
		return false;
	for (uint32_t id = 0; id < WEIR_TABLES_MAX; id++)
		if (c->tables[id] && c->tables[id]->spec.mode.kind == WEIR_SSP && c->tables[id]->spec.mode.bound < bound)
			bound = c->tables[id]->spec.mode.bound;
	return wanted(c) <= finished(c) + bound + 1;
}

void clocks_poll(weir_client *c)
{
	struct clocks *k = &c->clocks;
	if (!k->begun || client_usable(c, NULL) != WEIR_OK)
		return;
	const uint64_t now = finished(c), wants = wanted(c);
	const bool news = !k->told || now > k->asked_finished;
	/* A poll that waits at the ledger would not learn of it; one that does not wait will be
	 * answered at once. */
	if (k->poll.asking ? !news || !k->asked_wants : !news && !wants)
		return;
	Weir__V1__ClockRequest q = WEIR__V1__CLOCK_REQUEST__INIT;
	Weir__V1__JobId job;
	client_fill_job(c, &job);
	q.job = &job;
	q.worker = c->worker;
	q.incarnation = c->incarnation;
	q.finished = k->asked_finished = now;
	q.wants = k->asked_wants = wants;
	k->told = true;
	q.has_shift = k->placed;
	q.shift = k->shift;
	poll_ask(&k->poll, &q.base);
}

/* A new ledger grants nothing until it has heard of every worker, including those that wait for
 * nothing. */
static void on_lost(weir_client *c)
{
	c->clocks.told = false;
}

const struct poll_type clocks_poll_type = {
    .method = RPC_CLOCK,
    .reply = &weir__v1__clock_reply__descriptor,
    .on_reply = on_reply,
    .on_lost = on_lost,
    .give_up = clocks_fail,
    .go_on = clocks_poll,
};

void clocks_submit(weir_client *c, struct operation *pull)
{
	struct clocks *k = &c->clocks;
	weir_error err = {0};
	struct held_batch *b = batch_find(c, &pull->batch, NULL, &err);
	if (!b) {
		operation_end_unsent(pull, err.status, err.text);
		return;
	}
	if (!b->clock)
		b->clock = ++k->begun;
	if (b->clock <= k->limit) {
		pull_go_on(pull);
		return;
	}
	struct operation **at = &k->waiting;
	while (*at)
		at = &(*at)->next;
	pull->next = NULL;
	*at = pull;
	clocks_poll(c);
}

void clocks_leave_unit(weir_client *c, struct held_unit *u)
{
	bool others = false;
	u->ends = true;
	for (const struct held_unit *v = c->units; v; v = v->next)
		others |= !v->ends;
	if (others)
		return;
	c->clocks.placed = false;
	c->clocks.limit = c->clocks.begun;
	c->clocks.poll.asking = NULL; /* its answer would refer to the old place */
}

void clocks_begin(weir_client *c)
{
	c->clocks = (struct clocks){.poll = c->clocks.poll};
	c->clocks.poll.asking = NULL;
}

void clocks_forget_unit(weir_client *c, uint32_t pass, uint32_t unit)
{
	for (struct operation **at = &c->clocks.waiting, *op; (op = *at);) {
		if (op->batch.pass != pass || op->batch.unit != unit) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		operation_end_unsent(op, WEIR_E_CANCELLED, "its unit was given up");
	}
}
