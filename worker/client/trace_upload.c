#include "worker/client/trace_upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/system/process.h"
#include "worker/client/client.h"
#include "worker/client/client_trace.h"

#define FAILURES_MAX 8u

struct trace *client_trace(const weir_client *c)
{
	return c->trace;
}

static void end(struct trace_upload *u)
{
	free(u->data);
	u->data = NULL;
	u->over = true;
}

void trace_upload_order(weir_client *c, const Weir__V1__TraceOrder *order)
{
	struct trace_upload *u = &c->trace_upload;
	if (!order || order->session == u->session || u->calling || c->options.role != WEIR_TRAINER)
		return;
	end(u);
	*u = (struct trace_upload){.session = order->session, .self = {.pid = (uint32_t)getpid(), .error_ns = UINT64_MAX}};
	snprintf(u->self.name, sizeof u->self.name, "%s", c->name);
	(void)process_machine_boot(u->self.machine);
	trace_start(c->trace, order->left_ms < WEIR_TRACE_MS_MAX ? order->left_ms : WEIR_TRACE_MS_MAX);
}

/* Of several measurements the fastest counts: the other clock was read between the two readings of
 * this one. Processes of one boot of a machine have one clock. */
static void measure(struct trace_upload *u, const Weir__V1__TraceUploadReply *r, int64_t now_ns)
{
	const uint64_t error_ns = (uint64_t)(now_ns - u->called_ns) / 2;
	const int64_t offset_ns = r->clock_ns - (u->called_ns + (int64_t)error_ns);
	u->measured++;
	if (error_ns >= u->self.error_ns)
		return;
	const bool same = r->machine.len == sizeof u->self.machine && memcmp(r->machine.data, u->self.machine, r->machine.len) == 0 &&
	                  (uint64_t)llabs(offset_ns) <= error_ns;
	u->self.offset_ns = same ? 0 : offset_ns;
	u->self.error_ns = same ? 0 : error_ns;
}

static void note_reply(weir_client *c, weir_status status, const Weir__V1__TraceUploadReply *r, const char *why)
{
	struct trace_upload *u = &c->trace_upload;
	if (status == WEIR_OK) {
		measure(u, r, trace_now(c->trace));
		u->sent += u->sending;
		if (u->data && u->sent == u->bytes)
			end(u);
		return;
	}
	u->sent = 0; /* the server may be another one */
	if (status == WEIR_E_NOT_FOUND || ++u->failures == FAILURES_MAX) {
		client_log(c, WEIR_LOG_WARN, "the trace is not handed in: %s", why);
		trace_stop(c->trace);
		end(u);
	}
}

static void call(weir_client *c);

static void on_reply(void *client, weir_status status, const char *text, struct message *m)
{
	weir_client *c = client;
	struct trace_upload *u = &c->trace_upload;
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	if (status == WEIR_OK)
		status = wire_unpack(&weir__v1__trace_upload_reply__descriptor, m, &reply, &err);
	else
		(void)weir_fail(&err, status, "%s", text);
	if (status == WEIR_OK)
		status = client_reply_status(reply, &err);
	pthread_mutex_lock(&c->lock);
	u->calling = false;
	note_reply(c, status, (const Weir__V1__TraceUploadReply *)reply, err.text);
	if (status == WEIR_OK && u->data && !c->closing)
		call(c);
	pthread_mutex_unlock(&c->lock);
	wire_destroy(reply);
}

static struct message *pack(weir_client *c)
{
	struct trace_upload *u = &c->trace_upload;
	Weir__V1__TraceUploadRequest q = WEIR__V1__TRACE_UPLOAD_REQUEST__INIT;
	Weir__V1__JobId job;
	client_fill_job(c, &job);
	q.job = &job;
	q.session = u->session;
	q.name = c->name;
	u->sending = 0;
	if (u->data) {
		const size_t left = u->bytes - u->sent;
		u->sending = left < WEIR_TRACE_PIECE_BYTES ? left : WEIR_TRACE_PIECE_BYTES;
		q.bytes_total = u->bytes;
		q.offset = u->sent;
		q.data = (ProtobufCBinaryData){.len = u->sending, .data = u->data + u->sent};
	}
	return wire_pack(&q.base);
}

/* Announces the worker, or hands in the next piece. If the call cannot start, the next tick tries
 * again. */
static void call(weir_client *c)
{
	struct trace_upload *u = &c->trace_upload;
	struct rpc_channel *channel;
	struct message *m = ledger_channel(c, &channel, NULL) == WEIR_OK ? pack(c) : NULL;
	u->called_ns = trace_now(c->trace);
	u->calling = m && rpc_call_start(channel, RPC_TRACE_UPLOAD, m, WEIR_CONTROL_TIMEOUT_MS, on_reply, c) == WEIR_OK;
}

void trace_upload_tick(weir_client *c)
{
	struct trace_upload *u = &c->trace_upload;
	weir_error err = {0};
	if (u->session == 0 || u->over || u->calling)
		return;
	const bool ended = trace_has_ended(c->trace);
	if (u->measured >= WEIR_TRACE_CLOCK_CALLS && !ended)
		return;
	if (ended && u->measured > 0 && !u->data && trace_dump(c->trace, &u->self, &u->data, &u->bytes, &err) != WEIR_OK) {
		client_log(c, WEIR_LOG_WARN, "the trace is not handed in: %s", err.text);
		end(u);
		return;
	}
	call(c);
}
