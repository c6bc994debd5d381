/* Steps of synchronous tables, a worker's side. Before the synchronous pull of a batch, the worker
 * tells the ledger that the batch before is done and this one ready. The answer is this batch's
 * step, and the closes that servers may not know. The pull then asks for the state after the step
 * before. The worker reports a batch done only after every server has acknowledged all closes
 * learnt before it. */
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"

static bool same_batch(const weir_batch *a, const weir_batch *b)
{
	return a->pass == b->pass && a->unit == b->unit && a->batch == b->batch;
}

bool steps_takes_part(const weir_client *c, const weir_batch *batch)
{
	return c->steps.member && same_batch(&c->steps.current, batch);
}

/* The record of the current batch; NULL: its unit is no longer held, or the watermark has passed
 * it. */
static const struct held_batch *current_batch(weir_client *c)
{
	const weir_batch *now = &c->steps.current;
	const struct held_unit *u = unit_find(c, now->pass, now->unit, now->attempt);
	return u && now->batch < u->batches ? u->batch[now->batch] : NULL;
}

/* Whether the current batch may be reported done: its push is through, or it will have none. */
static bool current_is_done(weir_client *c)
{
	const struct held_batch *b = c->steps.member ? current_batch(c) : NULL;
	return !b || b->complete || b->refused;
}

static void fail_waiting(weir_client *c, weir_status status, const char *text)
{
	for (struct operation *op; (op = c->steps.waiting);) {
		c->steps.waiting = op->next;
		operation_end_unsent(op, status, text);
	}
}

void steps_fail(weir_client *c, weir_status status, const char *text)
{
	fail_waiting(c, status, text);
	c->steps.leaving = false;
	c->steps.member = false;
	pthread_cond_broadcast(&c->changed);
}

/* A worker that cannot tell the servers a close must not report that it has gone on. It counts as
 * dead, and learns the close again when it joins. */
static void on_close_known(struct operation *op)
{
	weir_client *c = op->client;
	c->steps.closes_in_flight--;
	if (op->status == WEIR_OK) {
		if (op->floor > c->steps.closed)
			c->steps.closed = op->floor;
		for (struct held_unit *u = c->units; u; u = u->next)
			unit_advance(c, u);
	} else if (client_usable(c, NULL) == WEIR_OK) {
		fail_waiting(c, op->status, op->text ? op->text : "");
		client_become_stale(c, op->text ? op->text : "");
	}
	pthread_cond_broadcast(&c->changed);
	steps_poll(c);
}

static void put_batch(uint8_t **at, const Weir__V1__BatchId *b)
{
	uint32_t id[3] = {b->pass, b->unit, b->batch};
	memcpy(*at, id, sizeof id);
	*at += sizeof id;
}

static bool send_close(weir_client *c, const Weir__V1__StepClose *close)
{
	size_t bytes = (close->n_included + close->n_dropped) * 3 * sizeof(uint32_t) + close->n_weights * sizeof(float);
	uint8_t *ids = malloc(bytes + 1), *at = ids;
	if (!ids)
		return false;
	for (size_t i = 0; i < close->n_included; i++)
		put_batch(&at, close->included[i]);
	for (size_t i = 0; i < close->n_dropped; i++)
		put_batch(&at, close->dropped[i]);
	if (close->n_weights)
		memcpy(at, close->weights, close->n_weights * sizeof *close->weights);
	struct record r = {
	    .kind = RECORD_CLOSE_STEP,
	    .flags = close->n_weights ? RECORD_CLOSE_WEIGHTS : 0,
	    .close = {.rate_scale = rate_bits(close->rate_scale), .step = close->step, .included = (uint32_t)close->n_included}};
	struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = (uint32_t)bytes};
	bool sent = broadcast(c, "closing a step", &r, &s, ids, on_close_known) == WEIR_OK;
	if (sent) {
		c->steps.closes_in_flight++;
		c->steps.closes_sent = close->step;
	}
	free(ids);
	return sent;
}

void steps_learn(weir_client *c, Weir__V1__StepClose *const *closes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (closes[i]->step > c->steps.closes_sent && !send_close(c, closes[i])) {
			client_become_stale(c, "no memory to tell the servers that a step has closed");
			return;
		}
}

/* The ready batch has its step: sends its pulls. */
static void release_waiting(weir_client *c)
{
	struct operation **at = &c->steps.waiting;
	while (*at) {
		struct operation *op = *at;
		if (!same_batch(&op->batch, &c->steps.current)) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		op->floor = c->steps.number - 1;
		pull_start(op);
		operation_unhold(op);
	}
	links_wake(c);
}

static void on_reply(weir_client *c, const ProtobufCMessage *reply)
{
	const Weir__V1__StepReply *r = (const Weir__V1__StepReply *)reply;
	struct steps *s = &c->steps;
	const weir_batch *ready = s->asked_ready ? &s->asked : NULL;
	steps_learn(c, r->closes, r->n_closes);
	if (c->stale)
		return;
	if (r->done_dropped)
		atomic_fetch_add_explicit(&c->batches_dropped, 1, memory_order_relaxed);
	s->leaving = false;
	struct held_batch *b = ready ? batch_find(c, ready, NULL, NULL) : NULL;
	s->member = b && r->step;
	if (!b)
		return;
	/* A batch whose step has closed takes part in no other. It is computed from the present state,
	 * for its asynchronous tables. */
	uint64_t closed = r->n_closes ? r->closes[r->n_closes - 1]->step : 0;
	s->current = *ready;
	s->number = r->step ? r->step : closed + 1;
	b->step = r->step ? r->step : closed;
	release_waiting(c);
}

static void give_up(weir_client *c, weir_status status, const char *text)
{
	fail_waiting(c, status, text);
	if (c->steps.leaving)
		c->steps.failure = status;
	c->steps.leaving = false;
}

static void fill_batch(Weir__V1__BatchId *out, const weir_batch *b)
{
	weir__v1__batch_id__init(out);
	out->pass = b->pass;
	out->unit = b->unit;
	out->batch = b->batch;
}

/* The current batch, which is done, and its weight. */
static void fill_done(const weir_client *c, const struct held_batch *b, struct done_batch *out)
{
	fill_batch(&out->id, &c->steps.current);
	weir__v1__batch_weight__init(&out->weight);
	out->weight.value = b && (!b->pushed || b->withdrawn) ? 0 : b && b->weight > 0 ? b->weight : 1;
}

bool steps_done(weir_client *c, struct done_batch *out)
{
	const struct held_batch *b = c->steps.member ? current_batch(c) : NULL;
	if (b && b->complete)
		fill_done(c, b, out);
	return b && b->complete;
}

static void ask(weir_client *c, const weir_batch *ready)
{
	struct steps *s = &c->steps;
	Weir__V1__StepRequest q = WEIR__V1__STEP_REQUEST__INIT;
	Weir__V1__JobId job;
	Weir__V1__BatchId ready_id;
	struct done_batch done;
	client_fill_job(c, &job);
	q.job = &job;
	q.worker = c->worker;
	q.incarnation = c->incarnation;
	if (s->member) {
		fill_done(c, current_batch(c), &done);
		q.has_done = true;
		q.done = &done.id;
		q.done_weight = &done.weight;
	}
	s->asked_ready = ready != NULL;
	if (ready) {
		s->asked = *ready;
		fill_batch(&ready_id, ready);
		q.has_ready = true;
		q.ready = &ready_id;
	}
	poll_ask(&s->poll, &q.base);
}

void steps_poll(weir_client *c)
{
	struct steps *s = &c->steps;
	if (s->poll.asking || s->closes_in_flight || client_usable(c, NULL) != WEIR_OK)
		return;
	if (s->waiting && s->member && same_batch(&s->waiting->batch, &s->current)) {
		release_waiting(c);
		return;
	}
	if ((s->waiting || s->leaving) && current_is_done(c))
		ask(c, s->waiting ? &s->waiting->batch : NULL);
}

const struct poll_type steps_poll_type = {
    .method = RPC_STEP,
    .reply = &weir__v1__step_reply__descriptor,
    .on_reply = on_reply,
    .give_up = give_up,
    .go_on = steps_poll,
};

void steps_submit(weir_client *c, struct operation *pull)
{
	struct steps *s = &c->steps;
	weir_error err = {0};
	if (!batch_find(c, &pull->batch, NULL, &err)) {
		operation_end_unsent(pull, err.status, err.text);
		return;
	}
	const struct held_batch *b = current_batch(c);
	if (s->member && !same_batch(&pull->batch, &s->current) && b && !b->pushed && !b->refused) {
		operation_end_unsent(pull, WEIR_E_STATE,
		                     "the batch before has a step and was not pushed: synchronous tables are pulled after it");
		return;
	}
	struct operation **at = &s->waiting;
	while (*at)
		at = &(*at)->next;
	pull->next = NULL;
	*at = pull;
	steps_poll(c);
}

void steps_cancel(weir_client *c)
{
	fail_waiting(c, WEIR_E_CANCELLED, "the trainer waits for no step any more");
	if (c->steps.poll.asking && c->steps.asked_ready)
		poll_ask_anew(&c->steps.poll);
}

static void poll_on_loop(void *arg)
{
	weir_client *c = arg;
	pthread_mutex_lock(&c->lock);
	steps_poll(c);
	pthread_mutex_unlock(&c->lock);
}

void steps_forget_unit(weir_client *c, uint32_t pass, uint32_t unit)
{
	struct steps *s = &c->steps;
	if (s->current.pass == pass && s->current.unit == unit)
		s->member = false;
	for (struct operation **at = &s->waiting, *op; (op = *at);) {
		if (op->batch.pass != pass || op->batch.unit != unit) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		operation_end_unsent(op, WEIR_E_CANCELLED, "its unit was given up");
	}
}

/* Under the lock. Before a unit commits: waits until its last step has closed and every server
 * knows. */
weir_status steps_leave(weir_client *c, const struct held_unit *u, weir_error *err)
{
	struct steps *s = &c->steps;
	if (s->member && s->current.pass == u->pass && s->current.unit == u->unit) {
		struct held_batch *b = s->current.batch < u->batches ? u->batch[s->current.batch] : NULL;
		if (b && !b->pushed)
			b->refused = true; /* it will have no push */
		s->leaving = true;
		s->failure = WEIR_OK;
		rpc_loop_post(c->loop, poll_on_loop, c);
	}
	while (client_usable(c, NULL) == WEIR_OK && (s->leaving || s->closes_in_flight))
		(void)client_wait(c, -1);
	weir_status status = client_usable(c, err);
	if (status != WEIR_OK || s->failure == WEIR_OK)
		return status;
	status = s->failure;
	s->failure = WEIR_OK;
	return weir_fail(err, status, "unit %u of pass %u cannot be committed: the step of its last batch is not closed: %s", u->unit,
	                 u->pass, weir_status_text(status));
}
