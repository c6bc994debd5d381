/* The session with etcd: its endpoint, its lease, and the owner's view of both.
 *
 * A turn at an endpoint: request the lease (once per session), open the stream of renewals, and
 * send one. Its answer establishes the connection. Then a renewal follows every third of the lease,
 * each answered within the next third; otherwise the session leaves the endpoint. So two endpoints
 * may fail silently before the lease runs out. Only etcd declares a lease lost: while etcd is
 * unreachable or down, no lease ends. */
#include "proto/coord/coord_etcd_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"

#define NS_PER_MS   1000000ll
#define LEASE_S_MAX 86400 /* longer leases count as this, so that their nanoseconds fit easily */

static void attempt(void *arg);

struct rpc_channel *etcd_channel(struct etcd *e)
{
	return e->channels[e->endpoint];
}

int64_t etcd_patience_ns(const struct etcd *e)
{
	return e->lease_ns / 3;
}

/* Doubles from WEIR_RETRY_FIRST_MS to WEIR_RETRY_CAP_MS; jitter subtracts up to half. */
int64_t etcd_backoff_ns(struct etcd *e, uint32_t failures)
{
	uint64_t ms = WEIR_RETRY_FIRST_MS;
	for (uint32_t i = 1; i < failures && ms < WEIR_RETRY_CAP_MS; i++)
		ms *= 2;
	ms = ms < WEIR_RETRY_CAP_MS ? ms : WEIR_RETRY_CAP_MS;
	return (int64_t)((double)ms * NS_PER_MS * (1.0 - 0.5 * prng_unit(&e->jitter)));
}

static void tell(struct etcd *e, enum coord_state state, const char *text)
{
	if (e->state == state)
		return;
	e->state = state;
	e->handler.state(e->arg, state, text);
}

/* Converts a lease time from etcd, which may be any number. A longer lease is renewed as if it had
 * LEASE_S_MAX. */
static int64_t term_ns(int64_t seconds)
{
	return (seconds < LEASE_S_MAX ? seconds : LEASE_S_MAX) * 1000 * NS_PER_MS;
}

/* --- Endpoints */

/* Ends all use of the endpoint; later messages from it are ignored. */
static void detach(struct etcd *e)
{
	struct rpc_stream *renewals = e->renewals;
	e->renewals = NULL;
	e->connected = false;
	rpc_timer_clear(e->loop, &e->timer);
	if (renewals)
		rpc_stream_cancel(renewals, WEIR_E_CANCELLED, "another endpoint is tried");
	etcd_watches_cut(e);
}

void etcd_leave(struct etcd *e, const char *why)
{
	if (e->over)
		return;
	snprintf(e->failure, sizeof e->failure, "%s", why);
	detach(e);
	e->endpoint = (e->endpoint + 1) % e->endpoints;
	if (++e->failed < e->endpoints) {
		attempt(e);
		return;
	}
	e->failed = 0;
	rpc_timer_set(e->loop, &e->timer, rpc_now_ns() + etcd_backoff_ns(e, ++e->rounds), attempt, e);
	tell(e, COORD_AWAY, e->failure);
}

static void connected(struct etcd *e)
{
	e->connected = true;
	e->failed = 0;
	tell(e, COORD_CONNECTED, "");
	etcd_watches_begin(e);
	etcd_calls_begin(e);
}

/* --- The lease */

void etcd_lost(struct etcd *e)
{
	if (e->over)
		return;
	e->over = true;
	detach(e);
	etcd_calls_end(e, WEIR_E_STALE, "the lease is lost");
	e->handler.lease_lost(e->arg, e->held_until_ns);
}

static void overdue(void *arg)
{
	struct etcd *e = arg;
	char why[WEIR_ERROR_TEXT_BYTES];
	snprintf(why, sizeof why, "%s %s: no answer for %lld ms", rpc_channel_address(etcd_channel(e)),
	         rpc_method_path(RPC_ETCD_KEEP_ALIVE), (long long)(etcd_patience_ns(e) / NS_PER_MS));
	etcd_leave(e, why);
}

static void renew(void *arg)
{
	struct etcd *e = arg;
	Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
	request.id = e->lease;
	struct message *m = wire_pack(&request.base);
	e->sent_ns = rpc_now_ns();
	rpc_timer_set(e->loop, &e->timer, e->sent_ns + etcd_patience_ns(e), overdue, e);
	/* If it cannot be sent, it becomes overdue, or the stream's end explains it. */
	if (m)
		(void)rpc_stream_send(e->renewals, m);
}

static void renewed(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct etcd *e = arg;
	ProtobufCMessage *unpacked;
	weir_error err = {0};
	if (stream != e->renewals)
		return;
	if (wire_unpack(&etcdserverpb__lease_keep_alive_response__descriptor, m, &unpacked, &err)) {
		etcd_leave(e, err.text);
		return;
	}
	int64_t seconds = ((Etcdserverpb__LeaseKeepAliveResponse *)unpacked)->ttl;
	wire_destroy(unpacked);
	if (seconds <= 0) {
		etcd_lost(e);
		return;
	}
	e->held_until_ns = e->sent_ns + term_ns(seconds);
	rpc_timer_clear(e->loop, &e->timer);
	rpc_timer_set(e->loop, &e->timer, rpc_now_ns() + etcd_patience_ns(e), renew, e);
	if (e->connected)
		e->rounds = 0;
	else
		connected(e);
}

static void renewals_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct etcd *e = arg;
	(void)status;
	if (stream != e->renewals)
		return;
	e->renewals = NULL;
	etcd_leave(e, text);
}

static void granted(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct etcd *e = arg;
	ProtobufCMessage *unpacked = NULL;
	weir_error err = {0};
	if (e->over)
		return;
	if (!status) {
		status = wire_unpack(&etcdserverpb__lease_grant_response__descriptor, reply, &unpacked, &err);
		text = err.text;
	}
	/* E_STATE, "exists already": granted by an earlier attempt whose answer was lost. */
	if (status && status != WEIR_E_STATE) {
		etcd_leave(e, text);
		return;
	}
	const int64_t seconds = unpacked ? ((Etcdserverpb__LeaseGrantResponse *)unpacked)->ttl : 0;
	if (unpacked && seconds <= 0) {
		wire_destroy(unpacked);
		etcd_leave(e, "a lease of no time was granted");
		return;
	}
	if (unpacked) {
		e->lease_ns = term_ns(seconds);
		e->held_until_ns = e->sent_ns + e->lease_ns;
		wire_destroy(unpacked);
	}
	e->granted = true;
	attempt(e);
}

static void ask_for_lease(struct etcd *e)
{
	Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
	request.id = e->lease;
	request.ttl = e->lease_ns / (1000 * NS_PER_MS);
	struct message *m = wire_pack(&request.base);
	e->sent_ns = rpc_now_ns();
	weir_status status =
	    m ? rpc_call_start(etcd_channel(e), RPC_ETCD_LEASE_GRANT, m, (uint32_t)(etcd_patience_ns(e) / NS_PER_MS), granted, e)
	      : WEIR_E_MEMORY;
	if (status)
		etcd_leave(e, weir_status_text(status));
}

static void attempt(void *arg)
{
	static const struct rpc_stream_handler handler = {.message = renewed, .closed = renewals_closed};
	struct etcd *e = arg;
	weir_error err = {0};
	if (e->over)
		return;
	if (!e->granted)
		ask_for_lease(e);
	else if (rpc_stream_open(&e->renewals, etcd_channel(e), RPC_ETCD_KEEP_ALIVE, &handler, e, &err))
		etcd_leave(e, err.text);
	else
		renew(e);
}

/* --- Opening and closing */

static weir_status open_channels(struct etcd *e, struct rpc *rpc, const char *url, weir_error *err)
{
	const bool tls = strncmp(url, COORD_ETCD_TLS_SCHEME, strlen(COORD_ETCD_TLS_SCHEME)) == 0;
	const size_t scheme = strlen(tls ? COORD_ETCD_TLS_SCHEME : COORD_ETCD_SCHEME);
	if (!tls && strncmp(url, COORD_ETCD_SCHEME, scheme) != 0)
		return weir_fail(err, WEIR_E_INVALID, "'%s': expected etcd://HOST:PORT[,HOST:PORT...], or etcds://", url);
	for (const char *at = url + scheme, *end;; at = end + 1) {
		char address[WEIR_ADDRESS_BYTES_MAX];
		weir_error why = {0};
		end = at + strcspn(at, ",");
		if (e->endpoints == WEIR_COORD_ENDPOINTS_MAX)
			return weir_fail(err, WEIR_E_LIMIT, "'%s': more than %u endpoints", url, WEIR_COORD_ENDPOINTS_MAX);
		if (end - at >= (ptrdiff_t)sizeof address)
			return weir_fail(err, WEIR_E_LIMIT, "'%s': an endpoint has more than %zu bytes", url, sizeof address - 1);
		snprintf(address, sizeof address, "%.*s", (int)(end - at), at);
		if (rpc_channel_open_foreign(&e->channels[e->endpoints], rpc, e->loop, address, tls, &why))
			return weir_fail(err, why.status, "'%s': endpoint %u: %s", url, e->endpoints + 1, why.text);
		e->endpoints++;
		if (!*end)
			return WEIR_OK;
	}
}

struct closing {
	struct etcd *etcd;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done, give_back;
};

/* Nothing starts from here on. Closing the channels ends what is in progress. */
static void close_on_loop(void *arg)
{
	struct closing *closing = arg;
	struct etcd *e = closing->etcd;
	/* False for a lost lease, as that session has left its endpoint. */
	closing->give_back = e->connected;
	e->over = true;
	detach(e);
	etcd_calls_end(e, WEIR_E_CANCELLED, "the session was closed");
	pthread_mutex_lock(&closing->lock);
	closing->done = true;
	pthread_cond_signal(&closing->changed);
	pthread_mutex_unlock(&closing->lock);
}

static void give_lease_back(struct etcd *e)
{
	Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
	request.id = e->lease;
	struct message *m = wire_pack(&request.base), *reply = NULL;
	weir_error err = {0};
	if (m && rpc_call_wait(etcd_channel(e), RPC_ETCD_LEASE_REVOKE, m, WEIR_COORD_REVOKE_MS, &reply, &err) == WEIR_OK)
		message_release(reply); /* otherwise the lease runs out by itself */
}

static void etcd_destroy(struct etcd *e)
{
	for (uint32_t i = 0; i < e->endpoints; i++)
		rpc_channel_close(e->channels[i]);
	etcd_watches_destroy(e);
	free(e);
}

static void etcd_close(struct coord *c)
{
	struct etcd *e = (struct etcd *)c;
	struct closing closing = {.etcd = e, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	assert(!rpc_loop_is_current(e->loop));
	rpc_loop_post(e->loop, close_on_loop, &closing);
	pthread_mutex_lock(&closing.lock);
	while (!closing.done)
		pthread_cond_wait(&closing.changed, &closing.lock);
	pthread_mutex_unlock(&closing.lock);
	pthread_mutex_destroy(&closing.lock);
	pthread_cond_destroy(&closing.changed);
	if (closing.give_back)
		give_lease_back(e);
	etcd_destroy(e);
}

weir_status coord_etcd_open(struct coord **out, struct rpc *rpc, struct rpc_loop *loop, const char *url,
                            const struct coord_options *options, weir_error *err)
{
	static const struct coord_ops ops = {
	    .read = etcd_read, .txn = etcd_txn, .watch_start = etcd_watch_start, .watch_stop = etcd_watch_stop, .close = etcd_close};
	*out = NULL;
	if (options->lease_ms < WEIR_COORD_LEASE_MS_MIN)
		return weir_fail(err, WEIR_E_INVALID, "'%s': a lease of %u ms, at least %u", url, options->lease_ms,
		                 WEIR_COORD_LEASE_MS_MIN);
	struct etcd *e = calloc(1, sizeof *e);
	if (!e)
		return weir_fail(err, WEIR_E_MEMORY, "'%s': out of memory", url);
	e->base.ops = &ops;
	e->loop = loop;
	e->handler = options->handler;
	e->arg = options->arg;
	e->lease_ns = (options->lease_ms + 999) / 1000 * 1000 * NS_PER_MS;
	rpc_link_init(&e->waiting);
	rpc_link_init(&e->watches);
	struct entropy *entropy = entropy_system();
	prng_seed(&e->jitter, entropy->ops->u64(entropy));
	e->lease = (int64_t)(entropy->ops->u64(entropy) >> 1 | 1);
	weir_status status = open_channels(e, rpc, url, err);
	if (status) {
		etcd_destroy(e);
		return status;
	}
	*out = &e->base; /* before any callback */
	rpc_loop_post(loop, attempt, e);
	return WEIR_OK;
}
