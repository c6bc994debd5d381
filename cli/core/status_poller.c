/* Builds overviews from the status messages of the wire protocol. */
#include "cli/core/status_poller.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/ledger_client.h"
#include "cli/core/transport.h"
#include "overview/overview_read.h"
#include "proto/wire/wire.h"

struct status_poller {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct ledger_client *ledger;
	struct rpc_channel *servers[WEIR_SERVERS_MAX]; /* (servers_count) NULL: address unknown yet */
	uint32_t servers_count;
	uint32_t asked_next; /* number of the server in the ledger client to ask next for losses */
};

/* One status call per server, all at once. The poller waits until every server has answered or
 * timed out. */
struct gather {
	pthread_mutex_t lock;
	pthread_cond_t change;
	uint32_t pending; /* under lock */
};

struct asked {
	struct gather *gather;
	struct message *reply; /* NULL: no answer */
};

/* --- Asking */

static struct message *empty_request(void)
{
	Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	return wire_pack(&q.base);
}

static void on_server_answer(void *arg, weir_status status, const char *text, struct message *reply)
{
	(void)text;
	struct asked *a = arg;
	struct gather *g = a->gather;
	if (status == WEIR_OK)
		a->reply = message_retain(reply);
	pthread_mutex_lock(&g->lock);
	g->pending--;
	pthread_cond_signal(&g->change);
	pthread_mutex_unlock(&g->lock);
}

static void ask_servers(struct status_poller *w, enum rpc_method method, struct message *(*make_request)(void),
                        uint32_t timeout_ms, struct asked *asked)
{
	struct gather g = {.pending = 0};
	pthread_mutex_init(&g.lock, NULL);
	pthread_cond_init(&g.change, NULL);
	pthread_mutex_lock(&g.lock);
	for (uint32_t i = 0; i < w->servers_count; i++) {
		struct message *request = make_request();
		asked[i] = (struct asked){.gather = &g};
		if (!request || !w->servers[i]) {
			message_release(request);
			continue;
		}
		g.pending++;
		if (rpc_call_start(w->servers[i], method, request, timeout_ms, on_server_answer, &asked[i]) != WEIR_OK)
			g.pending--;
	}
	while (g.pending > 0) /* every accepted call answers by its deadline */
		pthread_cond_wait(&g.change, &g.lock);
	pthread_mutex_unlock(&g.lock);
	pthread_cond_destroy(&g.change);
	pthread_mutex_destroy(&g.lock);
}

/* Opens channels to servers, which may also be added to a job while it is polled. */
static weir_status open_servers(struct status_poller *w, const struct overview *s, weir_error *err)
{
	weir_status status = WEIR_OK;
	w->servers_count = s->servers_count > w->servers_count ? s->servers_count : w->servers_count;
	for (uint32_t i = 0; i < s->servers_count && status == WEIR_OK; i++)
		if (!w->servers[i] && s->servers[i].address[0])
			status = rpc_channel_open(&w->servers[i], w->rpc, w->loop, s->servers[i].address, err);
	return status;
}

static weir_status poll_ledger(struct status_poller *w, uint32_t timeout_ms, struct overview *out, weir_error *err)
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	weir_status status =
	    ledger_client_ask(w->ledger, RPC_JOB_STATUS, &q.base, timeout_ms, &weir__v1__ledger_status__descriptor, &m, err);
	if (status == WEIR_OK)
		status = overview_read_ledger(out, (const Weir__V1__LedgerStatus *)m, err);
	wire_destroy(m);
	return status;
}

weir_status status_poller_poll(struct status_poller *w, uint32_t timeout_ms, struct overview *out, weir_error *err)
{
	memset(out, 0, sizeof *out);
	weir_status status = poll_ledger(w, timeout_ms, out, err);
	if (status == WEIR_OK)
		status = open_servers(w, out, err);
	if (status != WEIR_OK)
		return status;
	struct asked *asked = calloc(w->servers_count + 1, sizeof *asked);
	if (!asked)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to ask %u servers", w->servers_count);
	ask_servers(w, RPC_STATUS, empty_request, timeout_ms, asked);
	for (uint32_t i = 0; i < w->servers_count && i < out->servers_count; i++) {
		ProtobufCMessage *m = NULL;
		if (asked[i].reply && wire_unpack(&weir__v1__server_status__descriptor, asked[i].reply, &m, NULL) == WEIR_OK) {
			overview_read_server(out, i, (const Weir__V1__ServerStatus *)m);
			wire_destroy(m);
		}
		message_release(asked[i].reply);
	}
	free(asked);
	return WEIR_OK;
}

/* Works without the ledger: asks one of the servers that were given or learned later, and the next
 * one at the next call. */
bool status_poller_find_lost(struct status_poller *w, uint64_t generation, uint32_t timeout_ms, char out[WEIR_ERROR_TEXT_BYTES])
{
	const Weir__V1__StatusRequest q = WEIR__V1__STATUS_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	weir_error ignored = {0};
	out[0] = '\0';
	if (ledger_client_ask_one(w->ledger, w->asked_next++ % ledger_client_count(w->ledger), RPC_STATUS, &q.base, timeout_ms,
	                          &weir__v1__server_status__descriptor, &m, &ignored))
		return false;
	const Weir__V1__ServerStatus *s = (const Weir__V1__ServerStatus *)m;
	if (s->job && s->job->generation >= generation)
		snprintf(out, WEIR_ERROR_TEXT_BYTES, "%s", s->lost ? s->lost : "");
	wire_destroy(m);
	return out[0] != '\0';
}

/* --- Comparing replicas */

static struct message *scrub_request(void)
{
	Weir__V1__ScrubRequest q = WEIR__V1__SCRUB_REQUEST__INIT;
	return wire_pack(&q.base);
}

static bool is_equal(const Weir__V1__ReplicaHash *a, const Weir__V1__ReplicaHash *b)
{
	return a->rows == b->rows && a->state == b->state;
}

static void describe(const Weir__V1__PartitionScrub *p, char *out, size_t bytes)
{
	int n = snprintf(out, bytes, "partition %u at log entry %" PRIu64 ":", p->partition, p->index);
	for (size_t i = 0; i < p->n_replicas && n > 0 && (size_t)n < bytes; i++)
		n += snprintf(out + n, bytes - (size_t)n, " server %u has rows %016" PRIx64 " and state %016" PRIx64 "%s",
		              p->replicas[i]->server, p->replicas[i]->rows, p->replicas[i]->state, i + 1 < p->n_replicas ? "," : "");
}

static void read_scrub(struct overview_replicas *out, const Weir__V1__ScrubReply *in)
{
	for (size_t i = 0; i < in->n_partitions; i++) {
		const Weir__V1__PartitionScrub *p = in->partitions[i];
		bool equal = true;
		for (size_t j = 1; j < p->n_replicas; j++)
			equal &= is_equal(p->replicas[j], p->replicas[0]);
		out->compared += p->n_replicas > 1;
		out->differ += !equal;
		if (!equal && !out->text[0])
			describe(p, out->text, sizeof out->text);
	}
}

weir_status status_poller_scrub(struct status_poller *w, uint32_t timeout_ms, struct overview_replicas *out, weir_error *err)
{
	*out = (struct overview_replicas){0};
	struct asked *asked = calloc(w->servers_count + 1, sizeof *asked);
	if (!asked)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to ask %u servers", w->servers_count);
	ask_servers(w, RPC_SCRUB, scrub_request, timeout_ms, asked);
	for (uint32_t i = 0; i < w->servers_count; i++) {
		ProtobufCMessage *m = NULL;
		if (asked[i].reply && wire_unpack(&weir__v1__scrub_reply__descriptor, asked[i].reply, &m, NULL) == WEIR_OK) {
			read_scrub(out, (const Weir__V1__ScrubReply *)m);
			wire_destroy(m);
		}
		message_release(asked[i].reply);
	}
	free(asked);
	return WEIR_OK;
}

/* --- Life */

weir_status status_poller_open(struct status_poller **out, const struct job *job, const char *ledger, struct logger *logger,
                               weir_error *err)
{
	struct status_poller *w = calloc(1, sizeof *w);
	if (!w)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the status poller");
	weir_status status = transport_open(&w->rpc, job, logger, err);
	if (status == WEIR_OK && !(w->loop = rpc_loop_create(w->rpc, "poller", err)))
		status = err ? err->status : WEIR_E_MEMORY;
	if (status == WEIR_OK)
		status = ledger_client_open(&w->ledger, w->rpc, w->loop, ledger, err);
	if (status != WEIR_OK) {
		status_poller_close(w);
		return status;
	}
	*out = w;
	return WEIR_OK;
}

void status_poller_close(struct status_poller *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < w->servers_count; i++)
		rpc_channel_close(w->servers[i]);
	ledger_client_close(w->ledger);
	if (w->loop)
		rpc_loop_destroy(w->loop);
	if (w->rpc)
		rpc_destroy(w->rpc);
	free(w);
}
