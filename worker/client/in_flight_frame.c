/* A lane's unanswered requests: frames in flight, and requests that wait to be packed. Also their
 * move to another server when the map says so: a record is cut out of its frame as it lies there.
 * The frame stays until its remaining records are answered. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"

static void in_flight_frame_unlink(struct lane *lane, struct in_flight_frame *p)
{
	*(p->prev ? &p->prev->next : &lane->first) = p->next;
	*(p->next ? &p->next->prev : &lane->last) = p->prev;
	lane->bytes -= p->bytes;
	lane->requests -= p->count;
	if (p->sent) {
		lane->sent_bytes -= p->bytes;
		lane->sent_requests -= p->count;
	}
	message_release(p->message);
	free(p);
	pthread_cond_broadcast(&lane->link->client->changed);
}

/* Inserts before frame `next`; NULL: at the end. */
static void in_flight_frame_insert(struct lane *lane, struct in_flight_frame *p, struct in_flight_frame *next)
{
	lane_is_asked(lane);
	p->next = next;
	p->prev = next ? next->prev : lane->last;
	*(p->prev ? &p->prev->next : &lane->first) = p;
	*(next ? &next->prev : &lane->last) = p;
	lane->bytes += p->bytes;
	lane->requests += p->count;
}

struct in_flight_frame *in_flight_frame_add(struct lane *lane, struct message *message, const uint64_t *ids, uint32_t count,
                                            bool first)
{
	struct in_flight_frame *p = calloc(1, sizeof *p + count * sizeof *p->ids);
	if (!p) {
		message_release(message);
		return NULL;
	}
	p->message = message;
	p->bytes = message->bytes;
	p->count = p->left = count;
	memcpy(p->ids, ids, count * sizeof *ids);
	for (uint32_t i = 0; i < count; i++) {
		struct request *q = operation_find(lane->link->client, ids[i]);
		assert(q);
		q->frame = p;
		q->server = lane->link->index;
		lane->reply_bytes += q->reply_bytes;
	}
	in_flight_frame_insert(lane, p, first ? lane->first : NULL);
	return p;
}

void request_done(struct lane *lane, struct request *q)
{
	struct in_flight_frame *p = q->frame;
	if (!p)
		return;
	q->frame = NULL;
	lane->reply_bytes -= q->reply_bytes;
	if (--p->left == 0)
		in_flight_frame_unlink(lane, p);
}

/* The request of its i-th record; NULL: it is answered, or in another frame by now. */
static struct request *request_in(const struct lane *lane, const struct in_flight_frame *p, uint32_t i)
{
	struct request *q = operation_find(lane->link->client, p->ids[i]);
	return q && q->frame == p ? q : NULL;
}

/* Takes all requests that are not packed yet; the caller may put them back. */
static struct request *queue_take(struct lane *lane)
{
	struct request *first = lane->queue_first;
	lane->queue_first = lane->queue_last = NULL;
	return first;
}

/* --- The end of requests */

static void request_fail(struct request *q, weir_status status, const char *text)
{
	operation_fail(q->op, status, text);
	request_answer(q);
}

static uint32_t fail_in_frame(struct lane *lane, struct in_flight_frame *p, uint32_t partition, weir_status status,
                              const char *text)
{
	uint32_t failed = 0;
	for (uint32_t i = 0, left = p->left; failed < left && i < p->count; i++) {
		struct request *q = request_in(lane, p, i);
		if (!q || (partition != FRAME_PARTITION_ALL && q->partition != partition))
			continue;
		failed++;
		request_done(lane, q); /* the last one frees p */
		request_fail(q, status, text);
	}
	return failed;
}

static uint32_t fail_in_queue(struct lane *lane, uint32_t partition, weir_status status, const char *text)
{
	const int64_t since_ms = lane->progress_ms;
	uint32_t failed = 0;
	for (struct request *waiting = queue_take(lane), *q; (q = waiting);) {
		waiting = q->next;
		if (partition != FRAME_PARTITION_ALL && q->partition != partition) {
			link_queue_pull(lane->link, q);
			continue;
		}
		failed++;
		request_fail(q, status, text);
	}
	lane->progress_ms = since_ms;
	return failed;
}

uint32_t lane_drop(struct lane *lane, uint32_t partition, weir_status status, const char *text)
{
	uint32_t failed = 0;
	for (struct in_flight_frame *p = lane->first, *next; p; p = next) {
		next = p->next;
		failed += fail_in_frame(lane, p, partition, status, text);
	}
	return failed + fail_in_queue(lane, partition, status, text);
}

/* --- Moving */

static struct link *home_of(const struct lane *lane, const struct request *q)
{
	const weir_client *c = lane->link->client;
	return q->elsewhere ? lane->link : c->links[c->map.places[q->partition].server];
}

/* Also requests that are already at the right server, to put them behind the RESUME: that server
 * refused a request there, and with it all of its partition that came later. */
static bool must_move(const struct lane *lane, const struct request *q)
{
	const bool moved = q && !q->elsewhere && lane->link->client->map.places[q->partition].moved;
	return q && (moved || home_of(lane, q) != lane->link);
}

/* Moves its records for partitions at `to` into a frame there. */
static void move_records(struct lane *lane, struct in_flight_frame *p, struct link *to)
{
	weir_client *c = lane->link->client;
	bool keep[WEIR_STREAM_CREDIT_REQUESTS];
	uint64_t ids[WEIR_STREAM_CREDIT_REQUESTS];
	uint32_t count = 0;
	assert(p->count <= WEIR_STREAM_CREDIT_REQUESTS);
	for (uint32_t i = 0; i < p->count; i++) {
		const struct request *q = request_in(lane, p, i);
		keep[i] = must_move(lane, q) && home_of(lane, q) == to;
		if (!keep[i])
			continue;
		map_waits(c, q->partition);
		ids[count++] = p->ids[i];
	}
	struct message *m = count == p->count ? message_retain(p->message) : frame_cut(p->message, keep);
	const bool added = m && in_flight_frame_add(&to->push, m, ids, count, false);
	for (uint32_t i = 0; !added && i < count; i++) {
		struct request *q = operation_find(c, ids[i]);
		q->frame = NULL;
		request_fail(q, WEIR_E_MEMORY, "out of memory");
	}
	p->left -= count;
}

static void move_frame(struct lane *lane, struct in_flight_frame *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		struct request *q = request_in(lane, p, i);
		if (!must_move(lane, q))
			continue;
		/* Just now, for this move. */
		if (q->op->asked_anew && q->op->asked_at == lane->link->client->map.changes)
			continue;
		if (q->op->asked_anew) {
			q->frame = NULL;
			p->left--;
			request_answer(q);
			continue;
		}
		move_records(lane, p, home_of(lane, q)); /* with all others that go there */
	}
	if (!p->left)
		in_flight_frame_unlink(lane, p);
}

void lane_move_last(struct lane *lane)
{
	move_frame(lane, lane->last);
}

void lane_move_pushes(struct lane *lane)
{
	struct in_flight_frame *end = lane->last; /* frames that move within the lane are appended after it */
	for (struct in_flight_frame *p = lane->first, *next; p; p = next) {
		next = p == end ? NULL : p->next;
		move_frame(lane, p);
	}
}

/* Packs its requests anew: pulls have no bytes of their own. */
static void move_packed(struct lane *lane, struct in_flight_frame *p)
{
	for (uint32_t i = 0, left = p->left; left && i < p->count; i++) {
		struct request *q = request_in(lane, p, i);
		left -= q != NULL;
		if (!must_move(lane, q))
			continue;
		map_waits(lane->link->client, q->partition);
		request_done(lane, q); /* the last one frees p */
		link_queue_pull(home_of(lane, q), q);
	}
}

void lane_move_pulls(struct lane *lane)
{
	const int64_t since_ms = lane->progress_ms;
	struct request *waiting = queue_take(lane);
	for (struct in_flight_frame *p = lane->first, *next; p; p = next) {
		next = p->next;
		move_packed(lane, p);
	}
	for (struct request *q; (q = waiting);) {
		waiting = q->next;
		link_queue_pull(home_of(lane, q), q);
	}
	lane->progress_ms = since_ms;
}

bool lane_return_reads(struct lane *lane)
{
	bool any = false;
	for (struct request *q = lane->queue_first; q; q = q->next) {
		any |= q->elsewhere;
		q->elsewhere = false;
	}
	for (struct in_flight_frame *p = lane->first; p; p = p->next)
		for (uint32_t i = 0; i < p->count; i++) {
			struct request *q = request_in(lane, p, i);
			any |= q && q->elsewhere;
			if (q)
				q->elsewhere = false;
		}
	if (any)
		lane_move_pulls(lane);
	return any;
}
