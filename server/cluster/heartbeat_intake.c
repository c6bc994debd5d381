/* Streams that the failure detectors of other servers have opened. A heartbeat arrives on the
 * stream's loop and goes to the failure detector's loop. The verdict comes back, because a stream
 * with heartbeats that are not for this server is ended with the reason. */
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/cluster/heartbeat_loop_internal.h"

#define STOPPING "the server is stopping"

/* The server's end of a stream. Owned by the stream's loop. Freed when the stream is closed and no
 * arrival is under way. */
struct intake {
	struct heartbeat_loop *h;
	struct rpc_loop *loop;
	struct rpc_stream *stream; /* NULL: closed */
	uint32_t under_way;        /* arrivals */
};

struct arrival {
	struct intake *from;
	struct message *beat;
	weir_status status;
	weir_error err;
};

static void settle(struct intake *i)
{
	if (!i->stream && !i->under_way)
		free(i);
}

static void refuse(struct intake *i, weir_status status, const char *text)
{
	LOG_AT(i->h->options.logger, LOG_WARN, "heartbeats refused", "status=%s reason=\"%s\"", weir_status_name(status), text);
	rpc_stream_cancel(i->stream, status, text);
}

/* --- One heartbeat: from the stream's loop to the failure detector's, and back */

static void arrival_back(void *arg)
{
	struct arrival *a = arg;
	struct intake *i = a->from;
	i->under_way--;
	if (a->status && i->stream)
		refuse(i, a->status, a->err.text);
	free(a);
	settle(i);
}

static void arrival_run(void *arg)
{
	struct arrival *a = arg;
	a->status = failure_detector_receive(a->from->h->detector, a->beat, &a->err);
	message_release(a->beat);
	rpc_loop_post(a->from->loop, arrival_back, a);
}

/* Takes the heartbeat out of its envelope. One reference. */
static weir_status unwrap(const struct message *m, struct message **beat, weir_error *err)
{
	struct cursor c;
	uint8_t *bytes;
	weir_status status = wire_unwrap_frame(m, &c, err);
	if (status)
		return status;
	const size_t n = c.left;
	*beat = message_alloc(n, &bytes);
	if (!*beat)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a heartbeat");
	return cursor_read(&c, bytes, n);
}

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct intake *i = arg;
	if (atomic_load(&i->h->hushed)) {
		rpc_stream_cancel(stream, WEIR_E_UNAVAILABLE, STOPPING);
		return;
	}
	struct arrival *a = calloc(1, sizeof *a);
	if (!a)
		return; /* lost, as any heartbeat may be */
	a->from = i;
	if (unwrap(m, &a->beat, &a->err)) {
		refuse(i, a->err.status, a->err.text);
		message_release(a->beat);
		free(a);
		return;
	}
	i->under_way++;
	rpc_loop_post(i->h->loop, arrival_run, a);
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct intake *i = arg;
	(void)stream, (void)status, (void)text; /* the silence that follows is enough */
	i->stream = NULL;
	settle(i);
}

const struct rpc_stream_handler *heartbeat_loop_open(struct heartbeat_loop *h, struct rpc_stream *stream, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .closed = on_closed};
	const bool stopping = atomic_load(&h->hushed);
	struct intake *i = stopping ? NULL : malloc(sizeof *i);
	if (!i) {
		rpc_stream_cancel(stream, stopping ? WEIR_E_UNAVAILABLE : WEIR_E_MEMORY,
		                  stopping ? STOPPING : "the server is out of memory");
		return NULL;
	}
	*i = (struct intake){.h = h, .loop = rpc_stream_loop(stream), .stream = stream};
	*arg = i;
	return &handler;
}
