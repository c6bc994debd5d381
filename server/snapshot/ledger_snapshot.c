#include "server/snapshot/ledger_snapshot.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "server/ledger/ledger_log.h"
#include "server/log/journal.h"
#include "server/snapshot/snapshot_receive.h"

#define OFFER_TICKS 3u /* between two offers of one snapshot */
/* Until an offer that nobody requests is withdrawn. */
#define PATIENCE_TICKS (WEIR_SNAPSHOT_PATIENCE_MS / 100u)
#define PIECE_MS       WEIR_CONTROL_TIMEOUT_MS

enum stage { IDLE, STILL, VOID, LOG, HEADER, /* reset */ INSTALL, INSTALL_LOG /* installation */ };

struct ledger_snapshot {
	struct server *server;
	struct cold_writer *writer;
	bool closed;
	struct { /* the offered snapshot */
		bool running;
		uint16_t member;
		uint64_t incarnation, session, index;
		struct message *state;
		uint32_t crc;
		uint32_t count;          /* of offers so far; the low half of `session` */
		uint32_t quiet, unasked; /* ticks since the last offer; since the last request */
	} out;
	struct replica_message offer; /* session 0: no offer */
	struct {                      /* the snapshot being received */
		bool running, asking, whole;
		uint16_t from;
		uint64_t epoch, session, first, index; /* first: the first entry of its primary's log */
		uint8_t *bytes;                        /* (got of size) */
		size_t size, got;
		uint32_t crc;
	} in;
	bool is_void, is_spoilt; /* it is empty; it must be reset */
	enum stage stage;
	uint32_t writing; /* how many of `put` and `flush` are in progress */
	struct cold_write put, flush;
	uint8_t anew[SNAPSHOT_ANEW_BYTES];
	struct rpc_channel *channels[]; /* (the most servers) NULL: not used yet */
};

static struct replication *driver(const struct ledger_snapshot *n)
{
	return n->server->ledger_replication;
}

/* --- The primary's side */

static void end_offer(struct ledger_snapshot *n)
{
	if (!n->out.running)
		return;
	n->out.running = false;
	message_release(n->out.state);
	n->out.state = NULL;
	replication_snapshot_ended(driver(n), n->out.member);
}

void ledger_snapshot_begin(struct ledger_snapshot *n, uint16_t member, uint64_t incarnation)
{
	const struct replica *r = replication_replica(driver(n));
	const bool started_again = n->out.member == member && n->out.incarnation != incarnation;
	if (n->out.running && (started_again || !replica_hears(r, n->out.member)))
		end_offer(n);
	uint64_t index;
	struct message *state = n->out.running ? NULL : ledger_log_base(n->server->ledger_log, &index);
	if (!state) { /* one at a time; the member asks again */
		if (!n->out.running || n->out.member != member)
			replication_snapshot_ended(driver(n), member);
		return;
	}
	n->out.running = true;
	n->out.member = member;
	n->out.incarnation = incarnation;
	n->out.session = replica_epoch(r) << 32 | ++n->out.count;
	n->out.index = index;
	n->out.state = state;
	n->out.crc = crc32c(0, state->spans[0].data, state->bytes);
	n->out.quiet = OFFER_TICKS;
	n->out.unasked = 0;
}

void ledger_snapshot_stepped_down(struct ledger_snapshot *n)
{
	end_offer(n);
}

static void tick_offer(struct ledger_snapshot *n)
{
	if (!n->out.running)
		return;
	if (++n->out.unasked > PATIENCE_TICKS) {
		end_offer(n);
		return;
	}
	if (++n->out.quiet < OFFER_TICKS)
		return;
	n->out.quiet = 0;
	const struct replica *r = replication_replica(driver(n));
	/* The final request was lost, or the member asked once more. */
	if (!replica_needs_snapshot(r, n->out.member))
		end_offer(n);
	else if (replica_incarnation_of(r, n->out.member) == n->out.incarnation)
		replication_offer(driver(n), n->out.member, n->out.session, n->out.index);
}

struct asked {
	struct server *server;
	struct rpc_call *call;
	uint64_t session, offset;
};

/* A request for the end of the snapshot means that the learner has installed it. */
static void answer(struct ledger_snapshot *n, const struct asked *q)
{
	Weir__V1__Status ok = WEIR__V1__STATUS__INIT;
	Weir__V1__LedgerStateReply r = WEIR__V1__LEDGER_STATE_REPLY__INIT;
	if (!n->out.running || q->session != n->out.session || q->offset > n->out.state->bytes) {
		rpc_call_reply(q->call, WEIR_E_NOT_FOUND, "that snapshot of the ledger is not kept any more", NULL);
		return;
	}
	const struct message *state = n->out.state;
	const size_t left = state->bytes - q->offset;
	n->out.unasked = 0;
	r.status = &ok;
	r.bytes = state->bytes;
	r.index = n->out.index;
	r.crc = n->out.crc;
	r.data.data = (uint8_t *)(uintptr_t)state->spans[0].data + q->offset;
	r.data.len = left < WEIR_LEDGER_PIECE_BYTES ? left : WEIR_LEDGER_PIECE_BYTES;
	struct message *m = wire_pack(&r.base);
	rpc_call_reply(q->call, m ? WEIR_OK : WEIR_E_MEMORY, m ? "" : "out of memory", m);
	if (!left)
		end_offer(n);
}

static void answer_on_loop(void *arg)
{
	struct asked *q = arg;
	struct server *s = q->server;
	answer(s->ledger_snapshot, q);
	free(q);
	server_leave(s);
}

void ledger_snapshot_serve(struct server *s, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	struct asked *a = NULL;
	weir_status status = wire_unpack(&weir__v1__ledger_state_request__descriptor, request, &m, &err);
	const Weir__V1__LedgerStateRequest *q = (const Weir__V1__LedgerStateRequest *)m;
	if (!status && !q->job)
		status = weir_fail(&err, WEIR_E_INVALID, "the request names no job");
	if (!status)
		status = server_check_job(s, q->job->uuid.data, q->job->uuid.len, q->job->generation, &err);
	if (!status && !s->ledger_snapshot)
		status = weir_fail(&err, WEIR_E_NOT_FOUND, "%s has no replica of the ledger", s->name);
	if (!status && !(a = malloc(sizeof *a)))
		status = weir_fail(&err, WEIR_E_MEMORY, "out of memory");
	if (!status)
		*a = (struct asked){.server = s, .call = call, .session = q->session, .offset = q->offset};
	wire_destroy(m);
	if (status) {
		rpc_call_reply(call, status, err.text, NULL);
		return;
	}
	server_enter(s);
	rpc_loop_post(s->ledger_loop, answer_on_loop, a);
}

/* --- The learner's side: receiving */

static void drop_incoming(struct ledger_snapshot *n)
{
	free(n->in.bytes);
	const bool asking = n->in.asking;
	memset(&n->in, 0, sizeof n->in);
	n->in.asking = asking; /* the answer will find another session */
}

void ledger_snapshot_offered(struct ledger_snapshot *n, const struct replica_message *offer)
{
	/* Ignores a repeated offer. */
	if (!n->in.running || n->in.session != offer->session || n->in.epoch != offer->epoch)
		n->offer = *offer;
}

static bool is_left_behind(const struct ledger_snapshot *n, uint64_t epoch, uint64_t first)
{
	return replica_is_left_behind(replication_replica(driver(n)), epoch, first);
}

static weir_status take_piece(struct ledger_snapshot *n, const Weir__V1__LedgerStateReply *r, weir_error *err)
{
	if (r->bytes == 0 || r->bytes > WEIR_LEDGER_STATE_BYTES_MAX || r->data.len > r->bytes - n->in.got ||
	    (n->in.size && r->bytes != n->in.size) || (r->data.len == 0 && n->in.got < r->bytes))
		return weir_fail(err, WEIR_E_CORRUPT, "a piece of %zu bytes at %zu, of %" PRIu64, r->data.len, n->in.got, r->bytes);
	if (!n->in.bytes && !(n->in.bytes = malloc(r->bytes)))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	n->in.size = r->bytes;
	n->in.index = r->index;
	n->in.crc = r->crc;
	memcpy(n->in.bytes + n->in.got, r->data.data, r->data.len);
	n->in.got += r->data.len;
	n->in.whole = n->in.got == n->in.size;
	if (n->in.whole && crc32c(0, n->in.bytes, n->in.size) != n->in.crc)
		return weir_fail(err, WEIR_E_CORRUPT, "its checksum is another");
	return WEIR_OK;
}

static void ask(struct ledger_snapshot *n);

struct piece { /* a requested piece */
	struct ledger_snapshot *snapshot;
	uint64_t session;
};

static void on_piece(void *arg, weir_status status, const char *text, struct message *m)
{
	struct piece *p = arg;
	struct ledger_snapshot *n = p->snapshot;
	const bool current = n->in.running && n->in.session == p->session && !n->closed;
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	free(p);
	n->in.asking = false;
	if (status)
		(void)weir_fail(&err, status, "%s", text);
	else
		status = wire_unpack(&weir__v1__ledger_state_reply__descriptor, m, &reply, &err);
	if (!status && current)
		status = take_piece(n, (const Weir__V1__LedgerStateReply *)reply, &err);
	wire_destroy(reply);
	if (!current)
		return;
	if (status) {
		LOG_AT(n->server->options.logger, LOG_WARN, "snapshot not received", "partition=ledger server=%u status=%s reason=\"%s\"",
		       n->in.from, weir_status_name(status), err.text);
		drop_incoming(n); /* the primary offers it again */
	} else if (!n->in.whole) {
		ask(n);
	}
}

static weir_status connect_to(struct ledger_snapshot *n, uint16_t server, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (n->channels[server])
		return WEIR_OK;
	if (!partition_map_address(n->server->map, server, address))
		return weir_fail(err, WEIR_E_UNAVAILABLE, "the address of server %u is not known", server);
	return rpc_channel_open(&n->channels[server], n->server->options.rpc, n->server->ledger_loop, address, err);
}

/* Requests the next piece, unless a request is in progress. A tick retries after a failure. */
static void ask(struct ledger_snapshot *n)
{
	Weir__V1__LedgerStateRequest q = WEIR__V1__LEDGER_STATE_REQUEST__INIT;
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	weir_error err = {0};
	struct piece *p = n->in.asking || n->closed ? NULL : malloc(sizeof *p);
	if (!p)
		return;
	*p = (struct piece){.snapshot = n, .session = n->in.session};
	job.uuid = (ProtobufCBinaryData){.len = sizeof n->server->options.uuid, .data = n->server->options.uuid};
	job.generation = n->server->options.generation;
	q.job = &job;
	q.session = n->in.session;
	q.offset = n->in.got;
	struct message *m = connect_to(n, n->in.from, &err) ? NULL : wire_pack(&q.base);
	n->in.asking = m && !rpc_call_start(n->channels[n->in.from], RPC_LEDGER_STATE, m, PIECE_MS, on_piece, p);
	if (!n->in.asking)
		free(p);
}

/* --- The learner's side: on disk */

static void on_put(struct cold_write *w)
{
	((struct ledger_snapshot *)(void *)((char *)w - offsetof(struct ledger_snapshot, put)))->writing--;
}

static void on_flushed(struct cold_write *w)
{
	((struct ledger_snapshot *)(void *)((char *)w - offsetof(struct ledger_snapshot, flush)))->writing--;
}

static void write_header(struct ledger_snapshot *n, enum cold_write_kind kind, const void *header, size_t bytes)
{
	const struct callback_executor run_on = rpc_loop_executor(n->server->ledger_loop);
	n->put = (struct cold_write){
	    .kind = kind, .partition = JOURNAL_LEDGER, .header = header, .header_bytes = bytes, .run_on = run_on, .done = on_put};
	n->flush = (struct cold_write){.kind = COLD_WRITE_FLUSH, .run_on = run_on, .done = on_flushed};
	if (!n->writer)
		return;
	n->writing = 2;
	cold_writer_submit(n->writer, &n->put);
	cold_writer_submit(n->writer, &n->flush);
}

static weir_status check_written(const struct ledger_snapshot *n, weir_error *err)
{
	const struct cold_write *w = n->put.status ? &n->put : &n->flush;
	return w->status ? weir_fail(err, w->status, "%s", w->err.text) : WEIR_OK;
}

static weir_status restart_log(struct ledger_snapshot *n, uint64_t first, weir_error *err)
{
	struct log *log = ledger_log_entries(n->server->ledger_log);
	weir_status status = check_written(n, err);
	if (!status)
		status = log->ops->restart(log, first, err);
	if (!status)
		log->ops->sync(log);
	return status;
}

static bool is_through(const struct ledger_snapshot *n)
{
	struct log *log = ledger_log_entries(n->server->ledger_log);
	switch (n->stage) {
	case STILL:
		return ledger_log_is_still(n->server->ledger_log);
	case LOG:
	case INSTALL_LOG:
		return log->ops->is_restarted(log);
	default:
		return n->writing == 0;
	}
}

/* Rebuilds the ledger: from `state`, which is taken over, or empty. */
static weir_status renew(struct ledger_snapshot *n, struct message *state, uint64_t index, weir_error *err)
{
	struct server *s = n->server;
	weir_status status = ledger_log_renew(s->ledger_log, state, index, err);
	s->ledger = ledger_log_ledger(s->ledger_log);
	return status;
}

/* Enters the next stage of a reset. */
static weir_status advance(struct ledger_snapshot *n, weir_error *err)
{
	weir_status status = WEIR_OK;
	size_t bytes;
	const struct log *log = ledger_log_entries(n->server->ledger_log);
	const void *unfinished = snapshot_unfinished(&bytes);
	switch (n->stage) {
	case INSTALL:
	case INSTALL_LOG: /* an installation in progress is useless */
	case IDLE:
		ledger_log_halt(n->server->ledger_log);
		n->stage = STILL;
		break;
	case STILL:
		write_header(n, COLD_WRITE_EMPTY, unfinished, bytes);
		n->stage = VOID;
		break;
	case VOID:
		status = restart_log(n, 1, err);
		n->stage = status ? VOID : LOG;
		break;
	case LOG:
		snapshot_put_anew(n->anew, log->ops->restarted(log));
		write_header(n, COLD_WRITE_EMPTY, n->anew, sizeof n->anew);
		n->stage = HEADER;
		break;
	case HEADER:
		status = check_written(n, err);
		if (!status)
			status = renew(n, NULL, 0, err);
		n->stage = status ? HEADER : IDLE;
		break;
	}
	return status;
}

static bool is_final(weir_status status)
{
	return status != WEIR_E_BUSY && status != WEIR_E_NO_SPACE && status != WEIR_E_MEMORY;
}

weir_status ledger_snapshot_reset(struct ledger_snapshot *n)
{
	weir_error err = {0};
	if (n->closed)
		return WEIR_E_BUSY;
	do {
		weir_status status = is_through(n) ? advance(n, &err) : WEIR_E_BUSY;
		if (status && is_final(status))
			ledger_log_fail(n->server->ledger_log, &err);
		if (status)
			return status;
	} while (n->stage != IDLE);
	LOG_AT(n->server->options.logger, LOG_INFO, "replica begins anew", "partition=ledger");
	if (n->is_spoilt)
		drop_incoming(n);
	n->is_void = true;
	n->is_spoilt = false;
	return WEIR_OK;
}

bool ledger_snapshot_lets_store(struct ledger_snapshot *n)
{
	n->is_spoilt |= n->stage >= INSTALL; /* the primary has all entries, so no snapshot is needed */
	n->is_void = false;
	return n->stage == IDLE;
}

/* --- The learner's side: installation */

static void begin_install(struct ledger_snapshot *n)
{
	ledger_log_halt(n->server->ledger_log);
	write_header(n, COLD_WRITE_HEADER, n->in.bytes, n->in.size);
	n->stage = INSTALL;
}

static weir_status finish_install(struct ledger_snapshot *n, weir_error *err)
{
	const uint64_t index = n->in.index, epoch = n->in.epoch;
	struct message *state = message_copy(n->in.bytes, n->in.size);
	if (!state)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	weir_status status = renew(n, state, index, err);
	if (status)
		return status;
	n->stage = IDLE;
	n->is_void = false;
	n->in.whole = n->in.running = false;

	LOG_AT(n->server->options.logger, LOG_INFO, "snapshot installed", "partition=ledger server=%u entry=%" PRIu64, n->in.from,
	       index);
	ask(n); /* reports the installation */
	replication_installed(driver(n), epoch, index + 1, index, index, ledger_epochs(n->server->ledger));
	return WEIR_OK;
}

static weir_status go_on_installing(struct ledger_snapshot *n, weir_error *err)
{
	if (!is_through(n))
		return WEIR_OK;
	if (!replication_takes_snapshot(driver(n), n->in.epoch, n->in.index))
		return weir_fail(err, WEIR_E_STALE, "its primary is another");
	if (n->stage == INSTALL_LOG)
		return finish_install(n, err);
	weir_status status = restart_log(n, n->in.index + 1, err);
	if (!status)
		n->stage = INSTALL_LOG;
	return status;
}

static void tick_install(struct ledger_snapshot *n)
{
	weir_error err = {0};
	const weir_status status = n->stage >= INSTALL ? go_on_installing(n, &err) : WEIR_OK;
	if (!status)
		return;
	LOG_AT(n->server->options.logger, LOG_WARN, "snapshot not installed", "partition=ledger status=%s reason=\"%s\"",
	       weir_status_name(status), err.text);
	if (status != WEIR_E_NO_SPACE && status != WEIR_E_MEMORY) /* otherwise the next tick retries */
		n->is_spoilt = true;
}

/* Requests the offered snapshot. When it is complete, resets the replica and installs it. */
static void tick_learner(struct ledger_snapshot *n)
{
	if (n->offer.session && n->stage < INSTALL && is_left_behind(n, n->offer.epoch, n->offer.first)) {
		drop_incoming(n);
		n->in.running = true;
		n->in.from = n->offer.from;
		n->in.epoch = n->offer.epoch;
		n->in.session = n->offer.session;
		n->in.first = n->offer.first;
	}
	if (n->stage < INSTALL)
		n->offer.session = 0;
	if (n->in.running && !n->in.whole && n->stage == IDLE && n->in.got < n->in.size + !n->in.size)
		ask(n);
	const bool takes = n->in.whole && n->stage == IDLE && is_left_behind(n, n->in.epoch, n->in.first) &&
	                   replication_takes_snapshot(driver(n), n->in.epoch, n->in.index);
	if (n->is_spoilt || (takes && !n->is_void))
		(void)replication_start_over(driver(n));
	else if (takes)
		begin_install(n);
	tick_install(n);
}

uint64_t ledger_snapshot_needs(const struct ledger_snapshot *n)
{
	return n->out.running ? n->out.index + 1 : UINT64_MAX;
}

bool ledger_snapshot_is_busy(const struct ledger_snapshot *n)
{
	return n->stage != IDLE;
}

void ledger_snapshot_tick(struct ledger_snapshot *n)
{
	if (n->closed)
		return;
	tick_offer(n);
	tick_learner(n);
}

/* --- Lifetime */

struct ledger_snapshot *ledger_snapshot_create(struct server *s, struct cold_writer *writer)
{
	struct ledger_snapshot *n = calloc(1, sizeof *n + server_servers_max(s) * sizeof(struct rpc_channel *));
	if (!n)
		return NULL;
	n->server = s;
	n->writer = writer;
	return n;
}

static void close_on_loop(void *arg)
{
	struct ledger_snapshot *n = arg;
	n->closed = true;
	end_offer(n);
	server_leave(n->server);
}

void ledger_snapshot_close(struct ledger_snapshot *n)
{
	struct server *s = n->server;
	server_enter(s);
	rpc_loop_post(s->ledger_loop, close_on_loop, n);
	server_wait_idle(s);
	for (uint32_t i = 0; i < server_servers_max(s); i++)
		if (n->channels[i]) {
			rpc_channel_close(n->channels[i]);
			n->channels[i] = NULL;
		}
}

void ledger_snapshot_destroy(struct ledger_snapshot *n)
{
	if (!n)
		return;
	message_release(n->out.state);
	free(n->in.bytes);
	free(n);
}
