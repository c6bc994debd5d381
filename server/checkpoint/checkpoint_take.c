/* Takes: the begin on the executors, the polls, and the thread that writes
 * (checkpoint_take_write.c). */
#include "server/checkpoint/checkpoint_take.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/deadline.h"
#include "server/checkpoint/checkpoint_take_internal.h"
#include "server/cluster/roles.h"
#include "server/partition/partition_state.h"

#define WRITER_NICE 10

/* --- Replies */

static void answer(struct rpc_call *call, const ProtobufCMessage *reply)
{
	struct message *m = wire_pack(reply);
	rpc_call_reply(call, m ? WEIR_OK : WEIR_E_MEMORY, m ? "" : "the reply does not fit in memory", m);
}

static void answer_not_begun(struct rpc_call *call, weir_status status, const char *text)
{
	Weir__V1__Status s = WEIR__V1__STATUS__INIT;
	Weir__V1__CheckpointBeginReply reply = WEIR__V1__CHECKPOINT_BEGIN_REPLY__INIT;
	s.code = status;
	s.text = (char *)(uintptr_t)text;
	reply.status = &s;
	answer(call, &reply.base);
}

static void answer_begun(struct rpc_call *call, const struct take *t)
{
	Weir__V1__Status s = WEIR__V1__STATUS__INIT;
	Weir__V1__CheckpointBeginReply reply = WEIR__V1__CHECKPOINT_BEGIN_REPLY__INIT;
	Weir__V1__CheckpointTaken *taken = calloc(t->parts_count + 1, sizeof *taken);
	Weir__V1__CheckpointTaken **list = calloc(t->parts_count + 1, sizeof *list);
	s.code = taken && list ? WEIR_OK : WEIR_E_MEMORY;
	reply.status = &s;
	reply.taken = list;
	for (uint32_t i = 0; i < t->parts_count && !s.code; i++) {
		list[i] = &taken[i];
		weir__v1__checkpoint_taken__init(list[i]);
		list[i]->partition = t->parts[i].id;
		list[i]->epoch = t->parts[i].epoch;
		reply.n_taken++;
	}
	answer(call, &reply.base);
	free(taken);
	free(list);
}

/* --- A take */

void checkpoint_take_let_go(struct take *t)
{
	for (uint32_t i = 0; i < t->parts_count; i++) {
		message_release(t->parts[i].state);
		t->parts[i].state = NULL;
	}
}

static void take_destroy(struct take *t)
{
	if (!t)
		return;
	checkpoint_take_let_go(t);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t->parts);
	free(t);
}

static struct take *take_create(struct checkpoint_takes *takes, const Weir__V1__CheckpointBeginRequest *q)
{
	struct server *s = takes->server;
	struct take *t = calloc(1, sizeof *t);
	struct take_part *parts = calloc(s->options.partitions, sizeof *parts);
	if (!t || !parts) {
		free(t);
		free(parts);
		return NULL;
	}
	t->takes = takes;
	t->parts = parts;
	t->steps_closed = q->steps_closed;
	snprintf(t->name, sizeof t->name, "%s", q->name);
	snprintf(t->base, sizeof t->base, "%s", q->previous);
	pthread_mutex_init(&t->lock, NULL);
	deadline_cond_init(&t->wake);
	for (uint32_t p = 0; p < s->options.partitions; p++)
		if (s->partitions[p])
			parts[t->parts_count++] = (struct take_part){.take = t, .id = p, .executor = server_executor(s, p)};
	return t;
}

static void set_state(struct checkpoint_takes *takes, enum take_state state)
{
	pthread_mutex_lock(&takes->lock);
	takes->state = state;
	pthread_cond_broadcast(&takes->changed);
	pthread_mutex_unlock(&takes->lock);
}

/* --- Beginning, on the executors */

static void on_ready(void *arg)
{
	struct take_part *part = arg;
	struct take *t = part->take;
	pthread_mutex_lock(&t->lock);
	part->ready = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
}

static void on_ended(void *arg)
{
	struct take *t = ((struct take_part *)arg)->take;
	struct server *s = t->takes->server;
	pthread_mutex_lock(&t->lock);
	t->streams--;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	server_leave(s);
}

static void begin_rows(struct take_part *part, struct store *store, weir_error *err)
{
	struct take *t = part->take;
	struct server *s = t->takes->server;
	const struct store_stream_options options = {.store = store,
	                                             .partition = part->id,
	                                             .cold = s->cold,
	                                             .floor = part->floor,
	                                             .clock = s->options.clock,
	                                             .owner = rpc_loop_executor(part->executor->loop),
	                                             .ready = on_ready,
	                                             .ended = on_ended,
	                                             .arg = part};
	if (store_stream_begin(&part->rows, &options, err))
		return;
	server_enter(s);
	pthread_mutex_lock(&t->lock);
	t->streams++;
	pthread_mutex_unlock(&t->lock);
}

/* Whether the changes since the base can become one more file of the chain. Not if rows were
 * removed: no file records removals, and only a primary counts them. Not if the chain's files of
 * changes are so large that a whole file would be read back faster. */
static bool extends(const struct take_base *base, const struct take_part *part)
{
	uint64_t changes = 0;
	for (uint32_t i = 1; i < base->count; i++)
		changes += base->chain[i].info.bytes;
	return base->count > 0 && base->count < WEIR_CHECKPOINT_CHAIN_MAX && base->index > 0 && base->index <= part->index &&
	       base->epoch == part->epoch && base->removed == part->removed && changes <= base->chain[0].info.bytes / 2;
}

static void begin_part(struct take_part *part, weir_error *err)
{
	struct take *t = part->take;
	struct partition *p = t->takes->server->partitions[part->id];
	const struct take_base *base = &t->takes->bases[part->id];
	struct store_counters counters;
	store_get_counters(partition_store(p), &counters);
	part->epoch = partition_epoch(p);
	part->index = partition_applied(p);
	part->removed = counters.removed;
	part->floor = extends(base, part) ? base->index : 0;
	part->state = partition_state_export(p);
	if (!part->state) {
		weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory for a checkpoint", part->id);
		return;
	}
	begin_rows(part, partition_store(p), err);
}

/* The slots of a table never change. A table that comes later has no rows in the snapshots. */
static void note_tables(struct take *t, struct partition *p)
{
	for (uint32_t id = 0; id <= WEIR_TABLES_MAX; id++) {
		const struct store_table *table = store_table(partition_store(p), id);
		if (table)
			t->slots[id] = (uint8_t)optimizer_slots(store_table_spec(table)->optimizer.kind);
	}
}

/* Whether the partition lacks an entry that the ledger's state may refer to. Every push
 * acknowledged before the first look at the partition is an entry of its log, so it is enough to
 * apply the log up to its end at that look. */
static bool is_behind(const struct take_part *part)
{
	const struct take *t = part->take;
	struct partition *p = t->takes->server->partitions[part->id];
	struct log *log = partition_log(p);
	uint64_t *found = &t->takes->found[part->id];
	if (*found == 0)
		*found = log->ops->last(log);
	return partition_applied(p) < *found || partition_steps_closed(p) < t->steps_closed;
}

static void look_visit(struct executor *e, void *arg)
{
	struct take *t = arg;
	for (uint32_t i = 0; i < t->parts_count; i++) {
		struct take_part *part = &t->parts[i];
		if (part->executor != e)
			continue;
		part->serves = roles_serves(t->takes->server, (uint16_t)part->id);
		t->behind |= part->serves && is_behind(part);
	}
}

/* Other servers write the partitions that this server does not serve. */
static void leave_out(struct take *t)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < t->parts_count; i++)
		if (t->parts[i].serves)
			t->parts[kept++] = t->parts[i];
	t->parts_count = kept;
}

static void begin_visit(struct executor *e, void *arg)
{
	struct take *t = arg;
	weir_error err = {0};
	pthread_mutex_lock(&t->lock); /* the requester may have given up meanwhile */
	bool is_wanted = !t->err.status;
	pthread_mutex_unlock(&t->lock);
	for (uint32_t i = 0; i < t->parts_count && is_wanted && !err.status; i++)
		if (t->parts[i].executor == e) {
			note_tables(t, t->takes->server->partitions[t->parts[i].id]);
			if (roles_serves(t->takes->server, (uint16_t)t->parts[i].id))
				begin_part(&t->parts[i], &err);
			else
				weir_fail(&err, WEIR_E_MOVED, "partition %u has moved meanwhile", t->parts[i].id);
		}
	pthread_mutex_lock(&t->lock);
	if (!t->err.status)
		t->err = err;
	pthread_mutex_unlock(&t->lock);
}

/* The writing thread ends the parts that have begun, even if others could not begin. */
static void begun(struct executor *e, void *arg)
{
	(void)e;
	struct take *t = arg;
	struct rpc_call *call = t->call;
	pthread_mutex_lock(&t->lock);
	weir_error err = t->err;
	pthread_mutex_unlock(&t->lock);
	t->call = NULL;
	if (err.status)
		answer_not_begun(call, err.status, err.text);
	else
		answer_begun(call, t);
	set_state(t->takes, TAKE_WRITING); /* t may be gone from here on */
}

/* The take has not begun: frees it and makes room for another. */
static void give_up(struct take *t, weir_status status, const char *text)
{
	struct checkpoint_takes *takes = t->takes;
	struct rpc_call *call = t->call;
	pthread_mutex_lock(&takes->lock);
	takes->present = NULL;
	takes->state = TAKE_DONE;
	pthread_cond_broadcast(&takes->changed);
	pthread_mutex_unlock(&takes->lock);
	take_destroy(t);
	answer_not_begun(call, status, text);
}

static void looked(struct executor *e, void *arg)
{
	(void)e;
	struct take *t = arg;
	if (t->behind) {
		give_up(t, WEIR_E_NOT_CURRENT, "a closed step, or an entry, is not applied yet");
		return;
	}
	leave_out(t);
	if (server_tour(t->takes->server, begin_visit, begun, t))
		give_up(t, WEIR_E_MEMORY, "out of memory for a checkpoint");
}

static void take_stop(struct take *t, weir_status status, const char *text)
{
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	if (!t->err.status)
		weir_fail(&t->err, status, "%s", text);
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
}

/* The result of the last take is the base of this one if it has become the checkpoint `name`;
 * otherwise there is no base. Files that other servers wrote are never a base here. */
static void adopt_bases(struct checkpoint_takes *takes, const struct take *last, const char *name)
{
	if (last && *name && strcmp(last->name, name) == 0 && !last->err.status) {
		memset(takes->bases, 0, takes->server->options.partitions * sizeof *takes->bases);
		for (uint32_t i = 0; i < last->parts_count; i++)
			takes->bases[last->parts[i].id] = last->parts[i].result;
		snprintf(takes->base, sizeof takes->base, "%s", name);
	}
	if (strcmp(takes->base, name) != 0) {
		memset(takes->bases, 0, takes->server->options.partitions * sizeof *takes->bases);
		*takes->base = '\0';
	}
}

/* All attempts at one checkpoint have the same name. */
static void note_asked(struct checkpoint_takes *takes, const char *name)
{
	if (strcmp(takes->asked, name) == 0)
		return;
	snprintf(takes->asked, sizeof takes->asked, "%s", name);
	memset(takes->found, 0, takes->server->options.partitions * sizeof *takes->found);
}

/* Makes t the present take. E_NOT_CURRENT: another take is being written. It is cancelled: the
 * coordinating server takes one checkpoint at a time, so the other take was begun by that server's
 * previous process. */
static weir_status install(struct checkpoint_takes *takes, struct take *t, weir_error *err)
{
	weir_status status = WEIR_OK;
	struct take *last = NULL;
	pthread_mutex_lock(&takes->lock);
	if (takes->ending)
		status = weir_fail(err, WEIR_E_CLOSED, "%s is stopping", takes->server->name);
	else if (takes->present && takes->state != TAKE_DONE)
		status =
		    weir_fail(err, WEIR_E_NOT_CURRENT, "%s is still giving up checkpoint %s", takes->server->name, takes->present->name);
	if (status == WEIR_E_NOT_CURRENT)
		take_stop(takes->present, WEIR_E_CANCELLED, "another checkpoint was begun");
	if (!status) {
		last = takes->present;
		takes->present = t;
		takes->state = TAKE_BEGINNING;
	}
	pthread_mutex_unlock(&takes->lock);
	if (!status) {
		adopt_bases(takes, last, t->base);
		note_asked(takes, t->name);
	}
	take_destroy(last);
	return status;
}

static weir_status check_request(const struct checkpoint_takes *takes, const Weir__V1__JobId *job, const char *name,
                                 weir_error *err)
{
	if (!job || strlen(name) == 0 || strlen(name) >= WEIR_CHECKPOINT_NAME_BYTES_MAX)
		return weir_fail(err, WEIR_E_INVALID, "the request names no job or no checkpoint");
	return server_check_job(takes->server, job->uuid.data, job->uuid.len, job->generation, err);
}

void checkpoint_take_begin(struct checkpoint_takes *takes, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	struct take *t = NULL;
	weir_status status = wire_unpack(&weir__v1__checkpoint_begin_request__descriptor, request, &m, &err);
	const Weir__V1__CheckpointBeginRequest *q = (const Weir__V1__CheckpointBeginRequest *)m;
	if (!status)
		status = check_request(takes, q->job, q->name, &err);
	if (!status && strlen(q->previous) >= WEIR_CHECKPOINT_NAME_BYTES_MAX)
		status = weir_fail(&err, WEIR_E_INVALID, "the name of the base is too long");
	if (!status && !(t = take_create(takes, q)))
		status = weir_fail(&err, WEIR_E_MEMORY, "out of memory for a checkpoint");
	if (!status)
		status = install(takes, t, &err);
	wire_destroy(m);
	if (status) {
		take_destroy(t);
		answer_not_begun(call, status, err.text);
		return;
	}
	t->call = call;
	if (server_tour(takes->server, look_visit, looked, t))
		give_up(t, WEIR_E_MEMORY, "out of memory for a checkpoint");
}

/* --- Polling */

static void fill_file(Weir__V1__CheckpointFile *out, const struct checkpoint_object *in)
{
	weir__v1__checkpoint_file__init(out);
	out->name = (char *)(uintptr_t)in->name;
	out->bytes = in->info.bytes;
	out->rows = in->info.rows;
	out->index = in->index;
	out->xxh3_128 = (ProtobufCBinaryData){.len = sizeof in->info.hash, .data = (uint8_t *)(uintptr_t)in->info.hash};
}

/* A part in wire form, and the structures it points to. */
struct part_reply {
	Weir__V1__CheckpointPart part;
	Weir__V1__CheckpointFile header, rows[WEIR_CHECKPOINT_CHAIN_MAX], *list[WEIR_CHECKPOINT_CHAIN_MAX];
};

static void fill_part(struct part_reply *out, const struct take_part *part)
{
	weir__v1__checkpoint_part__init(&out->part);
	out->part.partition = part->id;
	out->part.index = part->index;
	fill_file(&out->header, &part->header);
	out->part.header = &out->header;
	for (uint32_t i = 0; i < part->result.count; i++) {
		fill_file(&out->rows[i], &part->result.chain[i]);
		out->list[i] = &out->rows[i];
	}
	out->part.n_rows = part->result.count;
	out->part.rows = out->list;
}

static void answer_done(struct rpc_call *call, const struct take *t)
{
	Weir__V1__Status s = WEIR__V1__STATUS__INIT;
	Weir__V1__CheckpointPollReply reply = WEIR__V1__CHECKPOINT_POLL_REPLY__INIT;
	struct part_reply *parts = calloc(t->parts_count + 1, sizeof *parts);
	Weir__V1__CheckpointPart **list = calloc(t->parts_count + 1, sizeof *list);
	s.code = parts && list ? t->err.status : WEIR_E_MEMORY;
	s.text = (char *)(uintptr_t)t->err.text;
	reply.status = &s;
	reply.done = true;
	reply.bytes = atomic_load(&t->bytes);
	for (uint32_t i = 0; i < t->parts_count && !s.code; i++) {
		fill_part(&parts[i], &t->parts[i]);
		list[i] = &parts[i].part;
		reply.n_parts++;
	}
	reply.parts = list;
	answer(call, &reply.base);
	free(parts);
	free(list);
}

static void answer_writing(struct rpc_call *call, const struct take *t)
{
	Weir__V1__Status s = WEIR__V1__STATUS__INIT;
	Weir__V1__CheckpointPollReply reply = WEIR__V1__CHECKPOINT_POLL_REPLY__INIT;
	reply.status = &s;
	reply.bytes = atomic_load(&t->bytes);
	answer(call, &reply.base);
}

void checkpoint_take_poll(struct checkpoint_takes *takes, struct rpc_call *call, struct message *request)
{
	weir_error err = {0};
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__checkpoint_poll_request__descriptor, request, &m, &err);
	const Weir__V1__CheckpointPollRequest *q = (const Weir__V1__CheckpointPollRequest *)m;
	if (!status)
		status = check_request(takes, q->job, q->name, &err);
	pthread_mutex_lock(&takes->lock);
	struct take *t = takes->present;
	if (!status && (!t || strcmp(t->name, q->name) != 0))
		status = weir_fail(&err, WEIR_E_NOT_FOUND, "%s writes no checkpoint %s", takes->server->name, q->name);
	if (!status && q->cancel && takes->state != TAKE_DONE)
		take_stop(t, WEIR_E_CANCELLED, "the checkpoint was given up");
	if (!status && takes->state == TAKE_DONE)
		answer_done(call, t);
	else if (!status)
		answer_writing(call, t);
	pthread_mutex_unlock(&takes->lock);
	wire_destroy(m);
	if (status)
		rpc_call_reply(call, status, err.text, NULL);
}

/* --- The thread */

static void *takes_run(void *arg)
{
	struct checkpoint_takes *takes = arg;
	/* Lowers the priority of this thread, because training goes first. */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), WRITER_NICE);
	pthread_mutex_lock(&takes->lock);
	while (true) {
		bool has = takes->present && takes->state == TAKE_WRITING;
		if (has) {
			struct take *t = takes->present; /* stays valid, because it is not done */
			pthread_mutex_unlock(&takes->lock);
			checkpoint_take_write(t);
			pthread_mutex_lock(&takes->lock);
			takes->state = TAKE_DONE;
			pthread_cond_broadcast(&takes->changed);
		} else if (takes->ending && !(takes->present && takes->state == TAKE_BEGINNING)) {
			break;
		} else {
			pthread_cond_wait(&takes->changed, &takes->lock);
		}
	}
	pthread_mutex_unlock(&takes->lock);
	return NULL;
}

static void takes_destroy(struct checkpoint_takes *takes)
{
	take_destroy(takes->present);
	checkpoint_options_destroy(&takes->options);
	pthread_cond_destroy(&takes->changed);
	pthread_mutex_destroy(&takes->lock);
	free(takes->bases);
	free(takes->found);
	free(takes);
}

struct checkpoint_takes *checkpoint_takes_create(struct server *s, const struct checkpoint_options *options)
{
	struct checkpoint_takes *takes = calloc(1, sizeof *takes);
	if (!takes)
		return NULL;
	takes->server = s;
	takes->state = TAKE_DONE;
	pthread_mutex_init(&takes->lock, NULL);
	pthread_cond_init(&takes->changed, NULL);
	takes->bases = calloc(s->options.partitions, sizeof *takes->bases);
	takes->found = calloc(s->options.partitions, sizeof *takes->found);
	if (!takes->bases || !takes->found || checkpoint_options_copy(&takes->options, options) ||
	    pthread_create(&takes->thread, NULL, takes_run, takes) != 0) {
		takes_destroy(takes);
		return NULL;
	}
	return takes;
}

void checkpoint_takes_destroy(struct checkpoint_takes *takes)
{
	if (!takes)
		return;
	pthread_mutex_lock(&takes->lock);
	takes->ending = true;
	if (takes->present && takes->state != TAKE_DONE)
		take_stop(takes->present, WEIR_E_CLOSED, "the server is stopping");
	pthread_cond_broadcast(&takes->changed);
	pthread_mutex_unlock(&takes->lock);
	pthread_join(takes->thread, NULL);
	takes_destroy(takes);
}
