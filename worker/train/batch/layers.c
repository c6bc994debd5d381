#include "worker/train/batch/layers.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "worker/client/push_stream.h"

/* Pulls of a batch at most, and chunks of one at least: about a message. */
#define PULLS_MAX   64u
#define PULL_CHUNKS 4u

/* PLANNING: the sender plans the batch's push, which takes a while, before any chunk is final. */
enum sending { NOT_SENDING, PLANNING, SENDING, CLOSING, ABORTING };

struct layers {
	struct layer_flow flow;
	uint64_t elements, chunks, pull_chunks;
	uint64_t *numbers; /* (chunks) 0, 1, ...: pulls name their chunks by a part of it */

	/* --- pulls, the trainer's thread */
	weir_client *client;
	weir_ticket tickets[PULLS_MAX]; /* [awaited, pulls) are to be waited for; [0]: the caller's */
	uint32_t pulls, awaited;
	weir_error failure; /* of the first pull that failed */

	/* --- pushes, the trainer's thread */
	const struct layers_push *push; /* NULL: not by layers */
	bool planned, named;            /* the sender has this batch; some chunk of it */
	uint32_t *left;                 /* (chunks) elements that are not final */

	/* --- pushes, shared with the sender */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum sending sending;
	const struct layers_push *sent; /* the sender's batch */
	bool ends;
	uint64_t *ready, *taken; /* (chunks) final and not sent; those that the sender has in hand */
	size_t ready_count;
	weir_ticket ticket;
	weir_error result;
};

/* --- The sender */

struct sender {
	struct push_stream *stream;
	bool begun;
	weir_error err;
};

static void plan_push(const struct layers *l, struct sender *j)
{
	const struct layers_push *p = l->sent;
	if (!j->stream && j->err.status == WEIR_OK)
		(void)push_stream_open(&j->stream, l->client, p->items, p->count, p->layered, &p->options, &j->err);
}

static void send_ready(struct layers *l, struct sender *j, size_t count)
{
	if (!j->begun && j->err.status == WEIR_OK)
		j->begun = push_stream_begin(j->stream, &l->sent->batch, &l->ticket, &j->err) == WEIR_OK;
	if (j->begun && j->err.status == WEIR_OK)
		(void)push_stream_chunks(j->stream, l->taken, count, &j->err);
}

/* The end of a batch's push. A push with a NaN is closed like any other; others cannot go on. */
static void end_push(struct sender *j, bool abort)
{
	if (j->begun && !abort && (j->err.status == WEIR_OK || j->err.status == WEIR_E_NOT_FINITE))
		(void)push_stream_close(j->stream, &j->err);
	else
		push_stream_abort(j->stream);
}

/* Waits for work, and takes the chunks that are ready into l->taken. Returns false at the end. */
static bool next_work(struct layers *l, size_t *count)
{
	while (!l->ends && l->ready_count == 0 && (l->sending == NOT_SENDING || l->sending == SENDING))
		pthread_cond_wait(&l->changed, &l->lock);
	*count = l->sending == ABORTING ? 0 : l->ready_count;
	uint64_t *ready = l->ready;
	l->ready = l->taken;
	l->taken = ready;
	l->ready_count = 0;
	return !l->ends;
}

static void *send_thread(void *arg)
{
	struct layers *l = arg;
	struct sender j = {0};
	size_t count;
	pthread_mutex_lock(&l->lock);
	while (next_work(l, &count)) {
		const enum sending sending = l->sending;
		if (sending == PLANNING)
			l->sending = SENDING;
		pthread_mutex_unlock(&l->lock);
		if (sending != ABORTING)
			plan_push(l, &j);
		if (count > 0)
			send_ready(l, &j, count);
		const bool last = count == 0 && (sending == CLOSING || sending == ABORTING);
		if (last)
			end_push(&j, sending == ABORTING);
		pthread_mutex_lock(&l->lock);
		if (!last)
			continue;
		l->result = j.err;
		l->sending = NOT_SENDING;
		j = (struct sender){0};
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* Tells the sender how this batch's push ends, and waits until it has. */
static void end_sending(struct layers *l, enum sending how)
{
	pthread_mutex_lock(&l->lock);
	l->sending = how;
	pthread_cond_broadcast(&l->changed);
	while (l->sending != NOT_SENDING)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
	l->planned = l->named = false;
}

/* --- Pulls */

const uint64_t *layers_first(const struct layers *l, size_t *count)
{
	*count = l->pull_chunks < l->chunks ? l->pull_chunks : l->chunks;
	return l->numbers;
}

weir_status layers_pull(struct layers *l, weir_client *client, const weir_batch *batch, uint32_t table, float *values,
                        weir_error *err)
{
	weir_status status = WEIR_OK;
	l->client = client;
	l->failure = (weir_error){0};
	l->pulls = l->awaited = 1;
	for (uint64_t at = l->pull_chunks; at < l->chunks && status == WEIR_OK; at += l->pull_chunks) {
		const uint64_t left = l->chunks - at;
		const weir_pull_item item = {
		    .table = table, .keys = l->numbers + at, .rows = left < l->pull_chunks ? left : l->pull_chunks, .values = values};
		status = weir_pull(client, batch, &item, 1, NULL, NULL, &l->tickets[l->pulls], err);
		l->pulls += status == WEIR_OK;
	}
	return status;
}

/* Waits for the pulls below the `end`-th. */
static void await_pulls(struct layers *l, uint32_t end)
{
	for (; l->awaited < end && l->awaited < l->pulls; l->awaited++) {
		weir_error err = {0};
		if (weir_wait(l->client, l->tickets[l->awaited], -1, &err) != WEIR_OK && l->failure.status == WEIR_OK)
			l->failure = err;
	}
}

static void await_layer(void *arg, uint64_t offset, uint64_t elements)
{
	struct layers *l = arg;
	await_pulls(l, (uint32_t)((offset + elements - 1) / WEIR_CHUNK / l->pull_chunks) + 1);
}

/* --- Gradients */

/* The first gradients are final: decides whether they leave now. */
static bool may_leave(struct layers *l)
{
	await_pulls(l, l->pulls);
	if (l->failure.status == WEIR_OK && isfinite(*l->push->loss))
		return true;
	l->push = NULL;
	return false;
}

static void layer_done(void *arg, uint64_t offset, uint64_t elements)
{
	struct layers *l = arg;
	if (!l->push || (!l->named && !may_leave(l)))
		return;
	for (uint64_t at = offset, end = offset + elements; at < end;) {
		const uint64_t chunk = at / WEIR_CHUNK, next = (chunk + 1) * WEIR_CHUNK, n = (next < end ? next : end) - at;
		assert(l->left[chunk] >= n);
		l->left[chunk] -= (uint32_t)n;
		at += n;
		if (l->left[chunk] > 0)
			continue;
		l->named = true;
		pthread_mutex_lock(&l->lock);
		l->ready[l->ready_count++] = chunk;
		pthread_cond_broadcast(&l->changed);
		pthread_mutex_unlock(&l->lock);
	}
}

/* --- A batch */

static void begin_sending(struct layers *l, const struct layers_push *push)
{
	l->planned = true;
	pthread_mutex_lock(&l->lock);
	l->sent = push;
	l->sending = PLANNING;
	l->ticket = 0;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

const struct layer_flow *layers_begin(struct layers *l, const struct layers_push *push)
{
	l->push = push;
	if (push)
		begin_sending(l, push);
	for (uint64_t i = 0; i < l->chunks; i++)
		l->left[i] = (uint32_t)weir_chunk_elements(l->elements, i);
	return &l->flow;
}

weir_status layers_computed(struct layers *l, weir_error *err)
{
	await_pulls(l, l->pulls);
	return l->failure.status == WEIR_OK ? WEIR_OK : weir_fail(err, l->failure.status, "%s", l->failure.text);
}

weir_status layers_finish(struct layers *l, bool *begun, weir_ticket *ticket, weir_error *err)
{
	*begun = l->named;
	if (!l->planned)
		return WEIR_OK;
	end_sending(l, l->named ? CLOSING : ABORTING);
	if (!*begun)
		return WEIR_OK;
	*ticket = l->ticket;
	return l->result.status == WEIR_OK ? WEIR_OK : weir_fail(err, l->result.status, "%s", l->result.text);
}

void layers_drop(struct layers *l, bool wait)
{
	if (wait)
		await_pulls(l, l->pulls);
	l->pulls = l->awaited = 0;
	if (!l->planned)
		return;
	end_sending(l, ABORTING);
	if (wait && l->ticket != 0)
		(void)weir_wait(l->client, l->ticket, -1, NULL);
}

weir_status layers_create(struct layers **out, uint64_t elements, weir_error *err)
{
	struct layers *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	l->flow = (struct layer_flow){.await = await_layer, .done = layer_done, .arg = l};
	l->elements = elements;
	l->chunks = weir_chunks(elements);
	l->pull_chunks = (l->chunks + PULLS_MAX - 1) / PULLS_MAX;
	if (l->pull_chunks < PULL_CHUNKS)
		l->pull_chunks = PULL_CHUNKS;
	l->numbers = malloc(l->chunks * sizeof *l->numbers);
	l->left = malloc(l->chunks * sizeof *l->left);
	l->ready = malloc(l->chunks * sizeof *l->ready);
	l->taken = malloc(l->chunks * sizeof *l->taken);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	bool whole = l->numbers && l->left && l->ready && l->taken;
	for (uint64_t i = 0; whole && i < l->chunks; i++)
		l->numbers[i] = i;
	if (whole && pthread_create(&l->thread, NULL, send_thread, l) == 0) {
		*out = l;
		return WEIR_OK;
	}
	l->ends = true;
	layers_destroy(l);
	return weir_fail(err, WEIR_E_MEMORY, "out of memory");
}

void layers_destroy(struct layers *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	const bool started = !l->ends;
	l->ends = true;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (started)
		(void)pthread_join(l->thread, NULL);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	free(l->numbers);
	free(l->left);
	free(l->ready);
	free(l->taken);
	free(l);
}
