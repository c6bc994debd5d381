/* Operations: tickets, holds, finishing, waiting. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"
#include "worker/client/client_trace.h"

/* A ticket is slot | generation << 16; a request id is ticket << 20 | index of the request. */
enum { SLOT_BITS = 16, REQUEST_BITS = 20, GENERATION_BITS = 28 };
enum { SLOTS_MAX = 1 << SLOT_BITS, REQUESTS_MAX = 1 << REQUEST_BITS };

static bool slots_grow(weir_client *c)
{
	uint32_t count = c->slots_count ? 2 * c->slots_count : 256;
	if (count > SLOTS_MAX)
		return false;
	struct operation **slots = realloc(c->slots, count * sizeof(struct operation *));
	if (slots)
		c->slots = slots;
	uint32_t *generation = realloc(c->slot_generation, count * sizeof *generation);
	if (generation)
		c->slot_generation = generation;
	if (!slots || !generation)
		return false;
	memset(slots + c->slots_count, 0, (count - c->slots_count) * sizeof(struct operation *));
	memset(generation + c->slots_count, 0, (count - c->slots_count) * sizeof *generation);
	c->free_hint = c->slots_count;
	c->slots_count = count;
	return true;
}

static bool slot_take(weir_client *c, struct operation *op)
{
	if (c->operations == c->slots_count && !slots_grow(c))
		return false;
	uint32_t slot = c->free_hint;
	while (c->slots[slot])
		slot = (slot + 1) & (c->slots_count - 1);
	c->slots[slot] = op;
	c->free_hint = (slot + 1) & (c->slots_count - 1);
	c->slot_generation[slot] = (c->slot_generation[slot] + 1) & ((1u << GENERATION_BITS) - 1);
	if (!c->slot_generation[slot])
		c->slot_generation[slot] = 1;
	op->ticket = slot | (uint64_t)c->slot_generation[slot] << SLOT_BITS;
	c->operations++;
	return true;
}

static struct operation *find_ticket(weir_client *c, weir_ticket ticket)
{
	uint32_t slot = (uint32_t)(ticket & (SLOTS_MAX - 1));
	if (slot >= c->slots_count || !c->slots[slot] || c->slots[slot]->ticket != ticket)
		return NULL;
	return c->slots[slot];
}

struct operation *operation_create_locked(weir_client *c, const char *what, uint32_t requests, weir_error *err)
{
	if (requests > REQUESTS_MAX) {
		(void)weir_fail(err, WEIR_E_LIMIT, "%s: %u requests in one operation, the most is %u", what, requests, REQUESTS_MAX);
		return NULL;
	}
	struct operation *op = calloc(1, sizeof *op + requests * sizeof *op->requests);
	if (!op) {
		(void)weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", what);
		return NULL;
	}
	op->client = c;
	op->what = what;
	op->stream = RPC_PUSH_STREAM;
	op->begun_ns = clock_ns(c->clock);
	op->requests = (struct request *)(op + 1);
	op->requests_count = requests;
	for (uint32_t i = 0; i < requests; i++)
		op->requests[i].op = op;
	atomic_init(&op->holds, 1 + requests);
	weir_status status = client_usable(c, err);
	if (status == WEIR_OK && !slot_take(c, op))
		status = weir_fail(err, WEIR_E_BUSY, "%s: %u operations are in flight, the most there may be", what, c->operations);
	if (status == WEIR_OK)
		return op;
	free(op);
	return NULL;
}

struct operation *operation_create(weir_client *c, const char *what, uint32_t requests, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	struct operation *op = operation_create_locked(c, what, requests, err);
	pthread_mutex_unlock(&c->lock);
	return op;
}

uint64_t operation_request_id(const struct operation *op, const struct request *q)
{
	return op->ticket << REQUEST_BITS | (uint64_t)(q - op->requests);
}

struct request *operation_find(weir_client *c, uint64_t request_id)
{
	struct operation *op = find_ticket(c, request_id >> REQUEST_BITS);
	uint32_t index = (uint32_t)(request_id & (REQUESTS_MAX - 1));
	return op && !op->finished && index < op->requests_count ? &op->requests[index] : NULL;
}

void operation_fail(struct operation *op, weir_status status, const char *text)
{
	if (op->status != WEIR_OK)
		return;
	op->status = status;
	op->text = strdup(text);
}

void request_answer(struct request *q)
{
	if (q->answered)
		return;
	q->answered = true;
	operation_unhold(q->op);
}

void operation_destroy(struct operation *op)
{
	weir_client *c = op->client;
	c->slots[op->ticket & (SLOTS_MAX - 1)] = NULL;
	c->operations--;
	if (op->destroy)
		op->destroy(op);
	free(op->text);
	free(op);
}

static void note_span(const struct operation *op)
{
	if (!op->has_batch || op->status != WEIR_OK)
		return;
	const struct trace_what what = batch_trace(op->stream == RPC_PULL_STREAM ? TRACE_PULL : TRACE_PUSH, &op->batch);
	trace_end(op->client->trace, op->begun_ns, &what);
}

/* On the loop. */
static void finish(void *arg)
{
	struct operation *op = arg;
	weir_client *c = op->client;
	pthread_mutex_lock(&c->lock);
	rpc_note(c->rpc, op->stream, false, clock_ns(c->clock) - op->begun_ns);
	note_span(op);
	if (op->on_finish)
		op->on_finish(op);
	pthread_mutex_unlock(&c->lock);
	if (op->done)
		op->done(op->arg, op->ticket, op->status, op->text ? op->text : "");
	pthread_mutex_lock(&c->lock);
	op->finished = true;
	if (op->done || op->forgotten)
		operation_destroy(op);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

void operation_unhold(struct operation *op)
{
	if (atomic_fetch_sub_explicit(&op->holds, 1, memory_order_acq_rel) == 1)
		rpc_loop_post(op->client->loop, finish, op);
}

void operation_end_unsent(struct operation *op, weir_status status, const char *text)
{
	operation_fail(op, status, text);
	for (uint32_t i = 0; i < op->requests_count; i++)
		request_answer(&op->requests[i]);
	operation_unhold(op);
}

static void describe(const struct operation *op, weir_error *err)
{
	if (op->status != WEIR_OK)
		(void)weir_fail(err, op->status, "%s", op->text ? op->text : weir_status_text(op->status));
}

static weir_status wait_locked(struct operation *op, int64_t timeout_ms, weir_error *err)
{
	weir_client *c = op->client;
	int64_t deadline = timeout_ms < 0 ? -1 : client_now(c) + timeout_ms;
	while (!op->finished)
		if (!client_wait(c, deadline))
			return weir_fail(err, WEIR_E_TIMEOUT, "%s: not complete after %lld ms", op->what, (long long)timeout_ms);
	weir_status status = op->status;
	describe(op, err);
	operation_destroy(op);
	return status;
}

weir_status operation_wait(struct operation *op, int64_t timeout_ms, weir_error *err)
{
	pthread_mutex_lock(&op->client->lock);
	weir_client *c = op->client;
	weir_status status = wait_locked(op, timeout_ms, err);
	pthread_mutex_unlock(&c->lock);
	return status;
}

weir_status weir_wait(weir_client *c, weir_ticket ticket, int64_t timeout_ms, weir_error *err)
{
	assert(!rpc_loop_is_current(c->loop));
	pthread_mutex_lock(&c->lock);
	struct operation *op = find_ticket(c, ticket);
	weir_status status =
	    op && !op->done ? wait_locked(op, timeout_ms, err)
	                    : weir_fail(err, WEIR_E_NOT_FOUND, "no operation has ticket %llu: it was waited for, or had a callback",
	                                (unsigned long long)ticket);
	pthread_mutex_unlock(&c->lock);
	return status;
}
