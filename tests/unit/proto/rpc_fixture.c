#include "tests/unit/proto/rpc_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/pattern.h"

double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- Messages with a known pattern */

static struct pattern pattern;

__attribute__((constructor)) static void make_pattern(void)
{
	pattern_init(&pattern, 7);
}

struct message *pattern_message(uint64_t seed, size_t bytes)
{
	uint8_t *data;
	struct message *m = message_alloc(bytes, &data);
	assert_non_null(m);
	for (size_t i = 0, run; i < bytes; i += run) {
		const uint8_t *known = pattern_run(&pattern, seed * 131, i, bytes - i, &run);
		memcpy(data + i, known, run);
	}
	return m;
}

bool pattern_is(const struct message *m, uint64_t seed, size_t bytes)
{
	size_t at = 0;
	if (m->bytes != bytes)
		return false;
	for (uint32_t s = 0; s < m->count; s++)
		for (size_t i = 0, run; i < m->spans[s].size; i += run, at += run) {
			const uint8_t *known = pattern_run(&pattern, seed * 131, at, m->spans[s].size - i, &run);
			if (memcmp(m->spans[s].data + i, known, run) != 0)
				return false;
		}
	return at == bytes;
}

/* --- The service */

static void unary(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	struct service *s = ctx;
	atomic_fetch_add(&s->requests, 1);
	assert_true(rpc_loop_is_current(rpc_call_loop(call)));
	assert_int_equal(rpc_call_method(call), method);
	if (method == RPC_COMMIT) {
		rpc_call_reply(call, WEIR_E_STALE, "a newer attempt holds the unit", NULL);
	} else if (atomic_load(&s->cancels)) {
		rpc_call_reply(call, WEIR_E_CANCELLED, "the server is stopping", NULL);
	} else if (method == RPC_LEAVE) {
		uint8_t *data;
		rpc_call_reply(call, WEIR_OK, NULL, message_alloc(WEIR_MESSAGE_BYTES_MAX + 1, &data));
	} else if (method == RPC_LEASE) {
		pthread_mutex_lock(&s->lock);
		assert_true(s->parked_count < sizeof s->parked / sizeof *s->parked);
		s->parked[s->parked_count++] = call;
		pthread_mutex_unlock(&s->lock);
	} else {
		rpc_call_reply(call, WEIR_OK, NULL, message_retain(request));
	}
}

void service_release(struct service *s)
{
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->parked_count; i++)
		rpc_call_reply(s->parked[i], WEIR_OK, NULL, pattern_message(1, 10));
	s->parked_count = 0;
	pthread_mutex_unlock(&s->lock);
}

struct served {
	struct service *service;
	enum rpc_method method;
};

static void stream_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct served *v = arg;
	atomic_fetch_add(&v->service->messages, 1);
	if (v->method != RPC_PULL_STREAM) {
		assert_int_equal(rpc_stream_send(stream, message_retain(m)), WEIR_OK);
	} else if (atomic_load(&v->service->pause)) {
		rpc_stream_pause(stream);
		atomic_store(&v->service->paused, stream);
	}
}

static void stream_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct served *v = arg;
	(void)stream, (void)text;
	atomic_store(&v->service->last_closed, status);
	atomic_fetch_add(&v->service->closed, 1);
	free(v);
}

static const struct rpc_stream_handler *stream_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = stream_message, .closed = stream_closed};
	struct service *s = ctx;
	assert_true(rpc_loop_is_current(rpc_stream_loop(stream)));
	if (method != RPC_PUSH_STREAM && method != RPC_PULL_STREAM && method != RPC_LINK && method != RPC_HEARTBEAT)
		return NULL;
	struct served *v = malloc(sizeof *v);
	*v = (struct served){s, method};
	atomic_fetch_add(&s->opened, 1);
	*arg = v;
	return &handler;
}

static const struct rpc_service service_ops = {.unary = unary, .stream_open = stream_open};

/* --- Nodes and the fixture */

void fixture_address(struct fixture *f, char *out, size_t size)
{
	if (strcmp(f->transport, "tcp") == 0)
		snprintf(out, size, "127.0.0.1:0");
	else if (strcmp(f->transport, "unix") == 0)
		snprintf(out, size, "unix:%s/s%u", f->directory, f->addresses++);
	else
		snprintf(out, size, "%s:s%u", f->transport, f->addresses++);
}

void host_start(struct fixture *f, struct host *n)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	weir_error err = {0};
	memset(n, 0, sizeof *n);
	pthread_mutex_init(&n->service.lock, NULL);
	fixture_address(f, address, sizeof address);
	n->loop = rpc_loop_create(f->rpc, "server", &err);
	assert_non_null(n->loop);
	if (rpc_server_start(&n->server, f->rpc, address, &n->loop, 1, &service_ops, &n->service, &err))
		fail_msg("%s", err.text);
}

void host_stop(struct host *n, uint32_t grace_ms)
{
	if (!n->loop)
		return;
	rpc_server_stop(n->server, grace_ms);
	assert_int_equal(atomic_load(&n->service.opened), atomic_load(&n->service.closed));
	service_release(&n->service);
	rpc_loop_destroy(n->loop);
	pthread_mutex_destroy(&n->service.lock);
	n->loop = NULL;
}

void fixture_open(struct fixture *f, const char *transport)
{
	weir_error err = {0};
	memset(f, 0, sizeof *f);
	f->transport = strncmp(transport, "slow-", 5) == 0 ? transport + 5 : transport;
	f->transport = strncmp(f->transport, "lane-", 5) == 0 ? f->transport + 5 : f->transport;
	f->rpc = fixture_rpc(transport);
	assert_non_null(f->rpc);
	snprintf(f->directory, sizeof f->directory, "/tmp/weir-rpc-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	f->loop = rpc_loop_create(f->rpc, "client", &err);
	assert_non_null(f->loop);
	host_start(f, &f->node);
	assert_int_equal(rpc_channel_open(&f->channel, f->rpc, f->loop, rpc_server_address(f->node.server), &err), WEIR_OK);
}

void fixture_close(struct fixture *f)
{
	rpc_channel_close(f->channel);
	host_stop(&f->node, 0);
	rpc_loop_destroy(f->loop);
	rpc_destroy(f->rpc);
	assert_int_equal(rmdir(f->directory), 0); /* the sockets are removed */
}

/* --- Probes */

static void probe_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct probe *p = arg;
	pthread_mutex_lock(&p->lock);
	assert_true(rpc_loop_is_current(p->loop));
	assert_ptr_equal(stream, p->stream);
	if (!pattern_is(m, p->seed + p->received, p->sizes[p->received % p->sizes_count]))
		p->wrong++;
	p->received++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void probe_writable(void *arg, struct rpc_stream *stream)
{
	struct probe *p = arg;
	assert_int_equal(rpc_stream_queued(stream), 0);
	pthread_mutex_lock(&p->lock);
	p->writable++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void probe_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct probe *p = arg;
	(void)stream;
	pthread_mutex_lock(&p->lock);
	p->closed++;
	p->status = status;
	snprintf(p->text, sizeof p->text, "%s", text);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void probe_open(struct probe *p, struct rpc_channel *channel, struct rpc_loop *loop, enum rpc_method method, uint64_t seed,
                const size_t *sizes, uint32_t sizes_count)
{
	static const struct rpc_stream_handler handler = {probe_message, probe_writable, probe_closed};
	weir_error err = {0};
	memset(p, 0, sizeof *p);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	p->loop = loop;
	p->seed = seed;
	p->sizes = sizes;
	p->sizes_count = sizes_count;
	pthread_mutex_lock(&p->lock);
	assert_int_equal(rpc_stream_open(&p->stream, channel, method, &handler, p, &err), WEIR_OK);
	pthread_mutex_unlock(&p->lock);
}

struct errand {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void (*fn)(void *arg);
	void *arg;
	bool done;
};

static void errand_run(void *arg)
{
	struct errand *e = arg;
	e->fn(e->arg);
	pthread_mutex_lock(&e->lock);
	e->done = true;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void on_loop(struct rpc_loop *loop, void (*fn)(void *arg), void *arg)
{
	struct errand e = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, fn, arg, false};
	rpc_loop_post(loop, errand_run, &e);
	pthread_mutex_lock(&e.lock);
	while (!e.done)
		pthread_cond_wait(&e.changed, &e.lock);
	pthread_mutex_unlock(&e.lock);
}

static void send_now(void *arg)
{
	struct probe *p = arg;
	for (uint32_t i = 0; i < p->to_send && !p->closed; i++)
		p->sent = rpc_stream_send(p->stream, pattern_message(p->seed + i, p->sizes[i % p->sizes_count]));
}

void probe_send(struct probe *p, uint32_t messages)
{
	p->to_send = messages;
	on_loop(p->loop, send_now, p);
}

static void finish_now(void *arg)
{
	rpc_stream_finish(((struct probe *)arg)->stream);
}
static void cancel_now(void *arg)
{
	rpc_stream_cancel(((struct probe *)arg)->stream, WEIR_E_CANCELLED, "enough");
}
void probe_finish(struct probe *p)
{
	on_loop(p->loop, finish_now, p);
}
void probe_cancel(struct probe *p)
{
	on_loop(p->loop, cancel_now, p);
}

void probe_wait_received(struct probe *p, uint32_t count)
{
	pthread_mutex_lock(&p->lock);
	while (p->received < count && !p->closed)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void nothing(void *arg)
{
	(void)arg;
}

weir_status probe_wait_closed(struct probe *p)
{
	pthread_mutex_lock(&p->lock);
	while (!p->closed)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	on_loop(p->loop, nothing, NULL); /* the callback has returned */
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	return p->status;
}
