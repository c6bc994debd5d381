/* Unary calls of clients: attempts, back-off with jitter, one callback.
 *
 * An idempotent method that failed with E_UNAVAILABLE is retried, but never beyond its deadline nor
 * beyond WEIR_DEAD_PEER_MS after the peer was lost. So a caller learns of a dead peer in time, with
 * the reason of the failure rather than "the deadline passed". */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/rpc_transport.h"

#define RETRY_WINDOW_NS ((int64_t)(WEIR_DEAD_PEER_MS - 750u) * 1000000)

static void call_finish(struct rpc_client_call *c, weir_status status, const char *text, struct message *reply)
{
	struct rpc_channel *channel = c->channel;
	rpc_link_remove(&c->link);
	rpc_note(channel->rpc, c->method, false, rpc_now_ns() - c->start_ns);
	c->done(c->arg, status, text, status == WEIR_OK ? reply : NULL);
	message_release(c->request);
	free(c);
	rpc_channel_check_closed(channel);
}

static void attempt_now(void *arg)
{
	struct rpc_client_call *c = arg;
	int64_t until = c->give_up_ns && c->give_up_ns < c->deadline_ns ? c->give_up_ns : c->deadline_ns;
	int64_t left = until - rpc_now_ns();
	c->channel->rpc->ops->attempt_start(c, left > 0 ? left : 0);
}

static bool is_shaped(const struct rpc_client_call *c)
{
	return c->channel->loop->shape && !c->channel->foreign;
}

static void attempt(void *arg)
{
	struct rpc_client_call *c = arg;
	if (!is_shaped(c) || rpc_flow_out(&c->flow, c->channel->loop, c->request->bytes, attempt_now, c))
		attempt_now(c);
}

/* Back-off doubles from WEIR_RETRY_FIRST_MS to WEIR_RETRY_CAP_MS; jitter subtracts up to half. */
static int64_t backoff_ns(struct rpc_client_call *c)
{
	uint64_t ms = (uint64_t)WEIR_RETRY_FIRST_MS << (c->failures - 1);
	if (ms > WEIR_RETRY_CAP_MS)
		ms = WEIR_RETRY_CAP_MS;
	return (int64_t)((double)ms * 1e6 * (1.0 - 0.5 * prng_unit(&c->channel->jitter)));
}

static bool retry(struct rpc_client_call *c, bool silent, const char *text)
{
	int64_t now = rpc_now_ns();
	if (c->cancelled || c->channel->closing || !rpc_method_may_retry(c->method) || c->failures >= WEIR_RETRY_MAX)
		return false;
	if (!c->give_up_ns) {
		/* A long attempt had a connection: its peer was lost just now, unless it had been
		 * silent. */
		bool long_lived = now - c->start_ns > RETRY_WINDOW_NS;
		c->give_up_ns = (long_lived && !silent ? now : c->start_ns) + RETRY_WINDOW_NS;
	}
	c->failures++;
	int64_t again = now + backoff_ns(c);
	if (again >= c->give_up_ns || again >= c->deadline_ns)
		return false;
	snprintf(c->failure, sizeof c->failure, "%s", text);
	rpc_timer_set(c->channel->loop, &c->retry, again, attempt, c);
	return true;
}

static void reply_arrived(void *arg)
{
	struct rpc_client_call *c = arg;
	struct message *reply = c->reply;
	c->reply = NULL;
	call_finish(c, WEIR_OK, "", reply);
	message_release(reply);
}

void rpc_call_on_finish(struct rpc_client_call *c, weir_status status, const char *text, bool silent, struct message *reply)
{
	c->attempt = NULL;
	if (c->cancelled && status != WEIR_OK) {
		status = WEIR_E_CANCELLED;
		text = "the channel was closed";
	} else if (status == WEIR_E_CANCELLED) {
		status = WEIR_E_UNAVAILABLE; /* its server has cancelled it, as one that stops does */
	}
	if (status == WEIR_E_UNAVAILABLE && retry(c, silent, text))
		return;
	if (status == WEIR_E_TIMEOUT && c->failures) { /* the last attempt found no peer either */
		status = WEIR_E_UNAVAILABLE;
		text = c->failure;
	}
	if (reply && status == WEIR_OK && is_shaped(c) && !rpc_flow_in(&c->flow, c->channel->loop, reply->bytes, reply_arrived, c)) {
		c->reply = message_retain(reply);
		return;
	}
	call_finish(c, status, text, reply);
}

void rpc_call_cancel(struct rpc_client_call *c)
{
	c->cancelled = true;
	if (c->attempt) {
		c->channel->rpc->ops->attempt_cancel(c);
		return;
	}
	rpc_timer_clear(c->channel->loop, &c->retry);
	rpc_flow_stop(&c->flow);
	message_release(c->reply);
	call_finish(c, WEIR_E_CANCELLED, "the channel was closed", NULL);
}

static void start_on_loop(void *arg)
{
	struct rpc_client_call *c = arg;
	atomic_fetch_sub(&c->channel->starting, 1);
	rpc_link_add(&c->channel->calls, &c->link);
	if (c->channel->closing)
		call_finish(c, WEIR_E_CANCELLED, "the channel was closed", NULL);
	else
		attempt(c);
}

weir_status rpc_call_start(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                           rpc_reply_fn done, void *arg)
{
	assert(!rpc_method_is_stream(method) && request);
	struct rpc_client_call *c = request->bytes <= WEIR_MESSAGE_BYTES_MAX ? malloc(sizeof *c) : NULL;
	if (!c) {
		weir_status status = request->bytes > WEIR_MESSAGE_BYTES_MAX ? WEIR_E_LIMIT : WEIR_E_MEMORY;
		message_release(request);
		return status;
	}
	int64_t now = rpc_now_ns();
	*c = (struct rpc_client_call){.channel = channel,
	                              .method = method,
	                              .request = request,
	                              .done = done,
	                              .arg = arg,
	                              .start_ns = now,
	                              .deadline_ns = now + timeout_ms * 1000000ll};
	atomic_fetch_add(&channel->starting, 1);
	rpc_loop_post(channel->loop, start_on_loop, c);
	return WEIR_OK;
}

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	struct message *reply;
	weir_status status;
	weir_error *err;
};

static void waiting_done(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct waiting *w = arg;
	pthread_mutex_lock(&w->lock);
	w->status = status ? weir_fail(w->err, status, "%s", text) : WEIR_OK;
	w->reply = reply ? message_retain(reply) : NULL;
	w->done = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

weir_status rpc_call_wait(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                          struct message **reply, weir_error *err)
{
	assert(!rpc_loop_is_current(channel->loop));
	struct waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .err = err};
	*reply = NULL;
	size_t bytes = request->bytes;
	weir_status status = rpc_call_start(channel, method, request, timeout_ms, waiting_done, &w);
	if (status)
		return weir_fail(err, status, "%s %s: request of %zu bytes: %s", channel->address, rpc_method_path(method), bytes,
		                 weir_status_text(status));
	pthread_mutex_lock(&w.lock);
	while (!w.done)
		pthread_cond_wait(&w.changed, &w.lock);
	pthread_mutex_unlock(&w.lock);
	pthread_mutex_destroy(&w.lock);
	pthread_cond_destroy(&w.changed);
	*reply = w.reply;
	return w.status;
}
