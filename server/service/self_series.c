#include "server/service/self_series.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "common/metrics/monitor.h"
#include "overview/overview_metrics.h"
#include "overview/overview_read.h"
#include "proto/rpc/ingress.h"

struct self_series {
	struct rpc *rpc;
	struct metrics *metrics;
	/* [0]: calls to others; [1]: calls served. NULL: none yet. */
	struct histogram *_Atomic calls[RPC_METHODS][2];
	struct monitor *monitor; /* this and the next two NULL: not started */
	struct rpc_loop *loop;
	struct rpc_channel *channel;
	struct self_series_options options; /* strings NULL */
};

static struct histogram *find_histogram(struct self_series *s, enum rpc_method method, bool served)
{
	static const char *const names[2][2] = {{"weir_rpc_client_seconds", "Time that calls of others took."},
	                                        {"weir_rpc_server_seconds", "Time until calls of others were answered."}};
	struct histogram *h = atomic_load_explicit(&s->calls[method][served], memory_order_acquire);
	char label[64];
	if (h)
		return h;
	snprintf(label, sizeof label, "method=\"%s\"", rpc_method_name(method));
	h = metrics_histogram(s->metrics, names[served][0], label, names[served][1]);
	/* Made by the first caller. */
	atomic_store_explicit(&s->calls[method][served], h, memory_order_release);
	return h;
}

static void on_call(void *arg, enum rpc_method method, bool served, int64_t ns)
{
	struct histogram *h = find_histogram(arg, method, served);
	if (h)
		histogram_record(h, (uint64_t)ns);
}

static weir_status ask(struct self_series *s, enum rpc_method method, const ProtobufCMessage *q,
                       const ProtobufCMessageDescriptor *type, ProtobufCMessage **out, weir_error *err)
{
	struct message *request = wire_pack(q), *reply = NULL;
	if (!request)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	weir_status status = rpc_call_wait(s->channel, method, request, WEIR_CONTROL_TIMEOUT_MS, &reply, err);
	if (!status)
		status = wire_unpack(type, reply, out, err);
	message_release(reply);
	return status;
}

static void write_ingress(FILE *out)
{
	struct ingress_counts n;
	ingress_counts(&n);
	fprintf(out,
	        "# HELP weir_connections Connections of peers that are open.\n# TYPE weir_connections gauge\n"
	        "weir_connections %" PRIu64 "\n"
	        "# HELP weir_connections_refused_total Connections that were not let in, or cut.\n"
	        "# TYPE weir_connections_refused_total counter\n"
	        "weir_connections_refused_total{why=\"frames\"} %" PRIu64 "\n"
	        "weir_connections_refused_total{why=\"number\"} %" PRIu64 "\n"
	        "weir_connections_refused_total{why=\"certificate\"} %" PRIu64 "\n",
	        n.connections, n.cut, n.refused, n.wrong_peer);
}

static void write_all(FILE *out, const struct overview *o)
{
	overview_series(out, o);
	write_ingress(out);
}

/* Writes the status while the server cannot be asked. */
static weir_status write_stuck(const struct self_series *s, const char *thread, uint64_t ms, FILE *out, weir_error *err)
{
	Weir__V1__ServerStatus status = WEIR__V1__SERVER_STATUS__INIT;
	struct overview o = {0};
	status.stuck = (char *)(uintptr_t)thread;
	status.stuck_ms = ms;
	const weir_status read = overview_read_alone(&o, s->options.index, &status, err);
	if (!read)
		write_all(out, &o);
	overview_destroy(&o);
	return read;
}

static weir_status write_series(void *self_series, FILE *out, weir_error *err)
{
	struct self_series *s = self_series;
	char thread[LOOP_WATCH_NAME_BYTES];
	uint64_t ms;
	if (s->options.stuck(s->options.arg, thread, &ms))
		return write_stuck(s, thread, ms, out, err);
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	struct overview o = {0};
	ProtobufCMessage *ledger = NULL, *server = NULL;
	weir_error not_here = {0};
	weir_status status = ask(s, RPC_JOB_STATUS, &q.base, &weir__v1__ledger_status__descriptor, &ledger, &not_here) == WEIR_OK
	                         ? overview_read_ledger(&o, (const Weir__V1__LedgerStatus *)ledger, err)
	                         : WEIR_OK;
	if (!status)
		status = ask(s, RPC_STATUS, &q.base, &weir__v1__server_status__descriptor, &server, err);
	if (!status)
		status = overview_read_alone(&o, s->options.index, (const Weir__V1__ServerStatus *)server, err);
	if (!status)
		write_all(out, &o);
	wire_destroy(server);
	wire_destroy(ledger);
	overview_destroy(&o);
	return status;
}

static weir_status is_ready(void *self_series, weir_error *err)
{
	const struct self_series_options *o = &((const struct self_series *)self_series)->options;
	char thread[LOOP_WATCH_NAME_BYTES];
	uint64_t ms;
	if (o->stuck(o->arg, thread, &ms))
		return weir_fail(err, WEIR_E_UNAVAILABLE, "its thread %s has not run for %.1f s", thread, (double)ms / 1e3);
	Grpc__Health__V1__HealthCheckRequest q = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	q.service = (char *)(uintptr_t) "ready";
	weir_status status =
	    ask(self_series, RPC_HEALTH_CHECK, &q.base, &grpc__health__v1__health_check_response__descriptor, &m, err);
	if (!status && ((const Grpc__Health__V1__HealthCheckResponse *)m)->status !=
	                   GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING)
		status =
		    weir_fail(err, WEIR_E_UNAVAILABLE, "it is about to end, or not in sync yet in all that it is to have a replica of");
	wire_destroy(m);
	return status;
}

struct self_series *self_series_create(struct rpc *rpc)
{
	struct self_series *s = calloc(1, sizeof *s);
	if (s && (s->metrics = metrics_create())) {
		s->rpc = rpc;
		rpc_observe(rpc, on_call, s);
		return s;
	}
	free(s);
	return NULL;
}

weir_status self_series_start(struct self_series *s, const struct self_series_options *o, weir_error *err)
{
	s->options = *o;
	s->options.pages = s->options.server = NULL;
	s->loop = rpc_loop_create(s->rpc, "self", err);
	const weir_status status = s->loop ? rpc_channel_open(&s->channel, s->rpc, s->loop, o->server, err) : WEIR_E_MEMORY;
	const struct monitor_options pages = {
	    .address = o->pages, .names = o->names, .metrics = s->metrics, .series = write_series, .ready = is_ready, .arg = s};
	return status ? status : monitor_start(&s->monitor, &pages, err);
}

const char *self_series_address(const struct self_series *s)
{
	return monitor_address(s->monitor);
}

void self_series_stop(struct self_series *s)
{
	if (!s)
		return;
	monitor_stop(s->monitor);
	rpc_channel_close(s->channel);
	if (s->loop)
		rpc_loop_destroy(s->loop);
	s->monitor = NULL;
	s->channel = NULL;
	s->loop = NULL;
}

void self_series_destroy(struct self_series *s)
{
	if (!s)
		return;
	metrics_destroy(s->metrics);
	free(s);
}
