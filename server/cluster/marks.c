#include "server/cluster/marks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "server/cluster/roles.h"
#include "server/coord/coord_records.h"
#include "server/coord/coord_records_format.h"
#include "server/log/journal.h"

#define AGAIN_MS 100u /* until the first report is taken */

struct partition_check {
	uint64_t epoch;              /* epoch that the ledger was asked about; 0: none */
	uint64_t verified;           /* newest epoch in which the partition had all its parts */
	uint64_t parts, fingerprint; /* that it must have */
};

struct marks {
	struct server *server;
	struct marks_log log;
	struct disk *disk;
	struct mark_owner owner;
	char *path; /* NULL: no file is kept */
	bool has_thread;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Guarded by lock. */
	bool ending, toured;
	bool asking; /* `marking` is under way at the coordinator */
	struct mark coordinated;
	/* The thread's, or a tour's while the thread waits for it. */
	struct mark filed, reported; /* mark at each place, like `coordinated`; generation 0: not yet */
	bool file_failed;            /* the failure was logged */
	struct coord_records_marking marking;
	struct rpc_loop *loop;
	struct rpc_channel *channel; /* to the ledger, at `address` */
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct partition_check *checks;          /* (partitions) */
	uint64_t closed_low;                     /* highest of the partitions here: pass << 32 | unit */
	char amiss[WEIR_ERROR_TEXT_BYTES - 128]; /* finding to report to the ledger; "": none */
	/* The job has failed because of it: nothing more to report. */
	bool heard;
};

/* --- Visits to the executors */

static void end_tour(struct executor *e, void *arg)
{
	struct marks *m = arg;
	(void)e;
	pthread_mutex_lock(&m->lock);
	m->toured = true;
	pthread_cond_broadcast(&m->wake);
	pthread_mutex_unlock(&m->lock);
}

/* Runs a tour and waits for its end. False: out of memory. */
static bool tour(struct marks *m, tour_fn visit)
{
	m->toured = false;
	if (server_tour(m->server, visit, end_tour, m))
		return false;
	pthread_mutex_lock(&m->lock);
	while (!m->toured)
		pthread_cond_wait(&m->wake, &m->lock);
	pthread_mutex_unlock(&m->lock);
	return true;
}

/* --- The file */

static void write_file(struct marks *m, const struct mark *now)
{
	struct logger *l = m->server->options.logger;
	weir_error err = {0};
	if (!m->path || !mark_is_below(&m->filed, now))
		return;
	const weir_status status = mark_write(m->disk, m->path, &m->owner, now, &err);
	if (!status)
		m->filed = *now;
	else if (!m->file_failed)
		LOG_AT(l, LOG_WARN, "mark not written", "a folder that goes back in time may not be noticed: %s", err.text);
	m->file_failed = status != WEIR_OK;
}

/* --- The coordinator */

static void on_marked(struct coord_records_marking *x)
{
	struct marks *m = x->arg;
	struct server *s = m->server;
	pthread_mutex_lock(&m->lock);
	if (!x->status)
		m->coordinated = x->mark;
	m->asking = false;
	pthread_cond_broadcast(&m->wake);
	pthread_mutex_unlock(&m->lock);
	server_leave(s);
}

/* Waits for the coordinator's answer, for WEIR_MARK_WAIT_MS at most: a late answer counts as
 * well. */
static void await_coordinator(struct marks *m)
{
	const int64_t until_ns = deadline_after_ms(WEIR_MARK_WAIT_MS);
	while (m->asking && deadline_wait(&m->wake, &m->lock, until_ns))
		;
}

static void tell_coordinator(struct marks *m, const struct mark *now)
{
	struct server *s = m->server;
	if (!server_is_replicated(s))
		return;
	pthread_mutex_lock(&m->lock);
	await_coordinator(m);
	if (!m->asking && mark_is_below(&m->coordinated, now)) {
		m->asking = true;
		m->marking =
		    (struct coord_records_marking){.mark = *now, .run_on = server_callback_executor(s), .done = on_marked, .arg = m};
		server_enter(s);
		coord_records_mark(roles_records(s), &m->marking);
		await_coordinator(m);
	}
	pthread_mutex_unlock(&m->lock);
}

/* --- Partitions */

static void look_at_partitions(struct executor *e, void *arg)
{
	struct marks *m = arg;
	struct server *s = e->server;
	for (uint32_t p = 0; p < s->options.partitions; p++) {
		if (!s->partitions[p] || server_executor(s, p) != e)
			continue;
		struct partition_check *c = &m->checks[p];
		const uint64_t low = partition_closed_low(s->partitions[p]), epoch = partition_epoch(s->partitions[p]);
		m->closed_low = low > m->closed_low ? low : m->closed_low;
		c->epoch = roles_serves(s, (uint16_t)p) && epoch != c->verified ? epoch : 0;
	}
}

/* False: not now. */
static bool distrust(struct marks *m, uint32_t p)
{
	struct server *s = m->server;
	char what[sizeof m->amiss];
	snprintf(what, sizeof what,
	         "partition %u on server %u has gone back in time: it has fewer than the %" PRIu64
	         " parts that committed units have put there, or others",
	         p, s->options.index, m->checks[p].parts);
	LOG_AT(s->options.logger, LOG_ERROR, "partition not whole", "%s", what);
	if (server_is_replicated(s))
		return roles_distrust(s, (uint16_t)p);
	memcpy(m->amiss, what, sizeof what);
	return true;
}

static void compare_partitions(struct executor *e, void *arg)
{
	struct marks *m = arg;
	struct server *s = e->server;
	for (uint32_t p = 0; p < s->options.partitions; p++) {
		struct partition_check *c = &m->checks[p];
		if (!s->partitions[p] || server_executor(s, p) != e || !c->epoch)
			continue;
		if (!roles_serves(s, (uint16_t)p) || partition_epoch(s->partitions[p]) != c->epoch)
			continue; /* for another round, or another server */
		if (partition_has_parts(s->partitions[p], c->parts, c->fingerprint) || distrust(m, p))
			c->verified = c->epoch;
	}
}

/* --- The ledger */

/* Connects to the ledger's present server. False: unknown, or no connection. */
static bool connect_ledger(struct marks *m)
{
	struct server *s = m->server;
	char address[WEIR_ADDRESS_BYTES_MAX];
	uint64_t revision;
	weir_error err = {0};
	const uint32_t at = server_is_replicated(s) ? partition_map_find(s->map, JOURNAL_LEDGER, &revision).server : 0;
	if (at == WEIR_SERVER_NONE || !partition_map_address(s->map, at, address) || !address[0])
		return false;
	if (m->channel && strcmp(address, m->address) == 0)
		return true;
	if (m->channel)
		rpc_channel_close(m->channel);
	m->channel = NULL;
	memcpy(m->address, address, sizeof address);
	if (!m->loop && !(m->loop = rpc_loop_create(s->options.rpc, "marks", &err)))
		return false;
	return rpc_channel_open(&m->channel, s->options.rpc, m->loop, address, &err) == WEIR_OK;
}

/* Free *reply with wire_destroy. */
static weir_status call_ledger(struct marks *m, const struct mark *now, ProtobufCMessage **reply, weir_error *err)
{
	struct server *s = m->server;
	Weir__V1__MarkRequest q = WEIR__V1__MARK_REQUEST__INIT;
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	Weir__V1__UnitMark low = WEIR__V1__UNIT_MARK__INIT;
	uint32_t asked[WEIR_PARTITIONS_MAX];
	struct message *out = NULL;
	job.uuid = (ProtobufCBinaryData){.len = sizeof s->options.uuid, .data = s->options.uuid};
	job.generation = s->options.generation;
	low.pass = (uint32_t)(m->closed_low >> 32);
	low.unit = (uint32_t)m->closed_low;
	q.job = &job;
	q.server = s->options.index;
	q.closed_low = &low;
	q.partitions = asked;
	q.amiss = m->amiss;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (m->checks[p].epoch)
			asked[q.n_partitions++] = p;
	if (!server_is_replicated(s)) {
		q.epoch = now->epoch;
		q.began = m->log.began;
		q.position = now->position;
	}
	struct message *in = wire_pack(&q.base);
	if (!in)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	weir_status status = rpc_call_wait(m->channel, RPC_MARK, in, WEIR_MARK_INTERVAL_MS, &out, err);
	if (!status)
		status = wire_unpack(&weir__v1__mark_reply__descriptor, out, reply, err);
	message_release(out);
	return status;
}

/* Whether the ledger has taken the report. A verdict concerns the newest report, because answers to
 * older ones are not awaited any more. */
static bool read_reply(struct marks *m, const Weir__V1__MarkReply *r)
{
	const struct server *s = m->server;
	const uint32_t code = r->status ? r->status->code : WEIR_OK;
	m->heard = !code && m->amiss[0];
	if (code == WEIR_E_STALE) {
		snprintf(m->amiss, sizeof m->amiss, "%s", r->status->text);
		LOG_AT(s->options.logger, LOG_ERROR, "gone back in time", "the job fails: %s", m->amiss);
	}
	for (size_t i = 0; i < r->n_totals && !code; i++)
		if (r->totals[i]->partition < s->options.partitions) {
			m->checks[r->totals[i]->partition].parts = r->totals[i]->parts;
			m->checks[r->totals[i]->partition].fingerprint = r->totals[i]->fingerprint;
		}
	return !code && !m->heard;
}

static void tell_ledger(struct marks *m, const struct mark *now)
{
	struct server *s = m->server;
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	bool news = m->amiss[0] || (!server_is_replicated(s) && mark_is_below(&m->reported, now));
	if (m->heard || !tour(m, look_at_partitions))
		return;
	for (uint32_t p = 0; p < s->options.partitions; p++)
		news |= m->checks[p].epoch > 0;
	if (!news || !connect_ledger(m) || call_ledger(m, now, &reply, &err))
		return;
	if (read_reply(m, (const Weir__V1__MarkReply *)reply)) {
		m->reported = *now;
		(void)tour(m, compare_partitions);
	}
	wire_destroy(reply);
}

/* --- The thread */

static void take_round(struct marks *m)
{
	const struct mark now = m->log.now(m->server);
	tell_coordinator(m, &now);
	tell_ledger(m, &now);
	write_file(m, &now);
}

static bool is_known(struct marks *m)
{
	pthread_mutex_lock(&m->lock);
	const bool coordinated = m->coordinated.generation;
	pthread_mutex_unlock(&m->lock);
	return server_is_replicated(m->server) ? coordinated : m->reported.generation;
}

static void *run(void *arg)
{
	struct marks *m = arg;
	bool ending = false;
	while (!ending) {
		take_round(m);
		const int64_t until_ns = deadline_after_ms(m->heard || (is_known(m) && !m->amiss[0]) ? WEIR_MARK_INTERVAL_MS : AGAIN_MS);
		pthread_mutex_lock(&m->lock);
		while (!m->ending && deadline_wait(&m->wake, &m->lock, until_ns))
			;
		ending = m->ending;
		pthread_mutex_unlock(&m->lock);
	}
	return NULL;
}

/* --- Life */

weir_status marks_create(struct server *s, const struct durable_options *options, const struct marks_log *log, weir_error *err)
{
	struct marks *m = s->marks = calloc(1, sizeof *m);
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	m->server = s;
	m->log = *log;
	m->disk = options->mark_disk;
	m->path = options->mark_path ? strdup(options->mark_path) : NULL;
	m->owner.server = s->options.index;
	memcpy(m->owner.uuid, s->options.uuid, sizeof m->owner.uuid);
	pthread_mutex_init(&m->lock, NULL);
	deadline_cond_init(&m->wake);
	m->checks = calloc(s->options.partitions, sizeof *m->checks);
	if (!m->checks || (options->mark_path && !m->path))
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	const struct mark now = m->log.now(s);
	write_file(m, &now);
	return WEIR_OK;
}

weir_status marks_start(struct marks *m, weir_error *err)
{
	m->has_thread = pthread_create(&m->thread, NULL, run, m) == 0;
	return m->has_thread ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "%s: no thread could be started", m->server->name);
}

void marks_stop(struct marks *m)
{
	if (!m || !m->has_thread)
		return;
	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_cond_broadcast(&m->wake);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	m->has_thread = false;
}

void marks_finish(struct marks *m)
{
	if (!m || !m->checks)
		return;
	const struct mark now = m->log.now(m->server);
	tell_coordinator(m, &now);
	write_file(m, &now);
}

void marks_destroy(struct marks *m)
{
	if (!m)
		return;
	if (m->channel)
		rpc_channel_close(m->channel);
	if (m->loop)
		rpc_loop_destroy(m->loop);
	pthread_cond_destroy(&m->wake);
	pthread_mutex_destroy(&m->lock);
	free(m->checks);
	free(m->path);
	free(m);
}

/* --- A start */

static weir_status take_mark(void *arg, const struct coord_record *r, weir_error *err)
{
	*(struct mark *)arg = (struct mark){0};
	return r ? coord_records_unpack_mark(r->value, r->value_bytes, arg, err) : WEIR_OK;
}

weir_status marks_ask(const struct coord_ask_options *options, const uint8_t uuid[16], uint16_t server, struct mark *out,
                      weir_error *err)
{
	char key[WEIR_COORD_KEY_BYTES_MAX];
	coord_records_mark_key(uuid, server, key);
	return coord_ask(options, key, take_mark, out, err);
}
