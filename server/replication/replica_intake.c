#include "server/replication/replica_intake.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/log/journal.h"
#include "server/records/member_set.h"

/* The server's end of a link. Belongs to its loop; freed once it is closed and has no delivery
 * under way. */
struct intake_stream {
	const struct replica_intake *in;
	struct rpc_loop *loop;
	struct rpc_stream *stream; /* NULL: closed */
	uint16_t from;             /* MEMBER_NONE: no record yet */
	uint32_t deliveries;       /* under way */
	uint64_t waiting;          /* their bytes */
};

/* Records of one frame for one loop, in order. */
struct delivery {
	struct intake_stream *stream;
	struct rpc_loop *owner;
	struct replica_wire *first, *last;
	uint64_t bytes;
};

static void stream_settle(struct intake_stream *s)
{
	const struct replica_intake *in = s->in;
	if (s->stream || s->deliveries)
		return;
	free(s);
	in->leave(in->arg);
}

/* --- Deliveries */

static void deliver_all(const struct replica_intake *in, struct replica_wire *x)
{
	for (struct replica_wire *next; x; x = next) {
		next = x->next;
		in->deliver(in->arg, x);
		replica_wire_destroy(x);
	}
}

static void delivery_back(void *arg)
{
	struct delivery *p = arg;
	struct intake_stream *s = p->stream;
	s->deliveries--;
	s->waiting -= p->bytes;
	free(p);
	if (s->stream && s->waiting <= WEIR_REPLICA_CREDIT_BYTES / 2)
		rpc_stream_resume(s->stream);
	stream_settle(s);
}

static void delivery_run(void *arg)
{
	struct delivery *p = arg;
	deliver_all(p->stream->in, p->first);
	rpc_loop_post(p->stream->loop, delivery_back, p);
}

/* Hands over the records gathered for a loop; *gathered is empty afterwards. */
static weir_status delivery_send(struct delivery *gathered, weir_error *err)
{
	struct intake_stream *s = gathered->stream;
	struct replica_wire *first = gathered->first;
	gathered->first = NULL;
	if (!first)
		return WEIR_OK;
	if (gathered->owner == s->loop) {
		deliver_all(s->in, first);
		return WEIR_OK;
	}
	struct delivery *p = malloc(sizeof *p);
	if (!p) {
		for (struct replica_wire *next; first; first = next) {
			next = first->next;
			replica_wire_destroy(first);
		}
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for what came from server %u", s->from);
	}
	*p = *gathered;
	p->first = first;
	s->deliveries++;
	s->waiting += p->bytes;
	if (s->waiting > WEIR_REPLICA_CREDIT_BYTES)
		rpc_stream_pause(s->stream);
	rpc_loop_post(p->owner, delivery_run, p);
	return WEIR_OK;
}

static weir_status delivery_add(struct delivery *p, struct rpc_loop *owner, struct replica_wire *x, weir_error *err)
{
	weir_status status = p->owner == owner ? WEIR_OK : delivery_send(p, err);
	if (!p->first) {
		p->owner = owner;
		p->first = x;
		p->bytes = 0;
	} else {
		p->last->next = x;
	}
	p->last = x;
	p->bytes += x->bytes;
	return status;
}

/* --- Frames */

static weir_status check_job(const struct replica_intake *in, const struct frame_header *h, weir_error *err)
{
	if (memcmp(h->uuid, in->uuid, sizeof h->uuid) != 0)
		return weir_fail(err, WEIR_E_GENERATION, "replicas of another job: this is server %u of a job with another identity",
		                 in->self);
	if (h->generation != in->generation)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "replicas of generation %" PRIu64 " of the job, server %u is of generation %" PRIu64, h->generation,
		                 in->self, in->generation);
	return WEIR_OK;
}

/* Whether the stream may bring the record. */
static weir_status check_place(struct intake_stream *s, const struct replica_wire *x, weir_error *err)
{
	const struct replica_intake *in = s->in;
	const uint16_t from = x->message.from, to = x->message.to;
	if (to != in->self || from >= in->servers)
		return weir_fail(err, WEIR_E_INVALID, "a message from server %u to server %u: this is server %u of %u", from, to,
		                 in->self, in->servers);
	if (s->from == MEMBER_NONE)
		s->from = from;
	if (s->from != from)
		return weir_fail(err, WEIR_E_INVALID, "a message from server %u on a stream from server %u", from, s->from);
	if (x->partition >= in->partitions && x->partition != JOURNAL_LEDGER)
		return weir_fail(err, WEIR_E_INVALID, "a message for partition %u: the job has %u", x->partition, in->partitions);
	return WEIR_OK;
}

static weir_status take_record(struct intake_stream *s, struct cursor *c, struct delivery *gathered, weir_error *err)
{
	struct replica_wire *x;
	weir_status status = replica_wire_read(c, &x, err);
	if (status)
		return status;
	status = check_place(s, x, err);
	struct rpc_loop *owner = status ? NULL : s->in->owner(s->in->arg, x->partition);
	if (owner)
		return delivery_add(gathered, owner, x, err);
	replica_wire_destroy(x);
	return status;
}

static weir_status take_frame(struct intake_stream *s, struct message *m, weir_error *err)
{
	struct delivery gathered = {.stream = s};
	struct frame_header h;
	struct cursor c;
	weir_status status = wire_unwrap_frame(m, &c, err);
	if (!status)
		status = frame_open(&c, &h, err);
	if (!status)
		status = check_job(s->in, &h, err);
	for (uint32_t i = 0; !status && i < h.records; i++)
		status = take_record(s, &c, &gathered, err);
	weir_status sent = delivery_send(&gathered, err); /* the records before a bad one are good */
	return status ? status : sent;
}

/* --- The stream */

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct intake_stream *s = arg;
	weir_error err = {0};
	weir_status status = take_frame(s, m, &err);
	if (!status) {
		if (s->in->heard && s->from != MEMBER_NONE)
			s->in->heard(s->in->arg, s->from);
		return;
	}
	LOG_AT(s->in->logger, LOG_WARN, "link refused", "server=%d status=%s reason=\"%s\"",
	       s->from == MEMBER_NONE ? -1 : (int)s->from, weir_status_name(status), err.text);
	rpc_stream_cancel(stream, status, err.text);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct intake_stream *s = arg;
	(void)stream, (void)status, (void)text; /* the other server reports it */
	s->stream = NULL;
	stream_settle(s);
}

const struct rpc_stream_handler *replica_intake_open(const struct replica_intake *in, struct rpc_stream *stream, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .closed = on_closed};
	struct intake_stream *s = malloc(sizeof *s);
	if (!s) {
		rpc_stream_cancel(stream, WEIR_E_MEMORY, "the server is out of memory");
		return NULL;
	}
	*s = (struct intake_stream){.in = in, .loop = rpc_stream_loop(stream), .stream = stream, .from = MEMBER_NONE};
	in->enter(in->arg);
	*arg = s;
	return &handler;
}
