/* Invariants of replicated partitions that hold at every moment, whatever the faults. The linker
 * routes the wrapped calls of production code to this file, which checks them and calls the real
 * functions. This file knows nothing of the faults.
 *
 *   - an index is committed once, by its primary, with one content
 *   - every in-sync replica with a whole log has all committed entries
 *   - an epoch begins once, after all committed entries, with an entry of its own
 *   - a server answers only for committed entries
 *   - equal applied index, equal state and rows
 *   - a server never forgets an epoch in which it acknowledged
 *   - no partition is lost while a replica has its whole log
 *   - a replica that answers reads is no staler than allowed */
#include <string.h>

#include "common/base/hash.h"
#include "common/base/key_partition.h"
#include "common/system/logger.h"
#include "server/cluster/roles.h"
#include "server/log/journal.h"
#include "server/partition/partition_internal.h"
#include "server/partition/partition_state.h"
#include "server/replication/replica_link.h"
#include "server/replication/replication.h"
#include "server/service/server_internal.h"
#include "tests/sim/job/job.h"

enum { EPOCHS_MAX = 4096 };

struct fact { /* a committed entry, or the state once it is applied */
	uint64_t epoch, entry;
	uint64_t state; /* 0: unknown */
	int64_t committed_ns;
};

struct history {        /* one partition */
	struct fact *facts; /* (count): committed entries 1 to count */
	uint64_t count, capacity;
	uint64_t begun[EPOCHS_MAX]; /* (begun_count) */
	uint32_t begun_count;
};

static struct {
	struct job *job; /* NULL: partitions have one copy */
	struct history of[PARTITIONS];
	bool ledger_served; /* at any time */
	/* Highest epoch that a replica acknowledged in, over all lives of its server. */
	uint64_t acknowledged[SERVERS_MAX][PARTITIONS];
} in;

void invariants_begin(struct job *job)
{
	memset(&in, 0, sizeof in);
	in.job = job;
}

void invariants_end(void)
{
	in.job = NULL;
}

void invariants_lost_disk(const struct actor *server)
{
	memset(in.acknowledged[server->index], 0, sizeof in.acknowledged[server->index]);
}

uint64_t invariants_committed(uint32_t partition)
{
	return in.of[partition].count;
}

/* The server whose thread runs. */
static struct actor *current(void)
{
	const struct node *n = node_current();
	for (uint32_t i = 0; i < in.job->servers; i++)
		if (in.job->cast[i].node == n)
			return &in.job->cast[i];
	world_stop("no server's thread");
}

/* --- Entries */

static uint64_t hash_of_entry(const struct log_entry *e)
{
	const struct record *r = &e->record;
	const uint64_t fields[] = {e->epoch,   e->index,    e->generation, (uint64_t)e->stamp_ms,
	                           e->finding, r->kind,     r->flags,      r->part,
	                           r->pass,    r->unit,     r->attempt,    r->batch,
	                           r->words.a, r->words.b,  r->words.c,    r->words.status,
	                           r->bytes,   r->sections, r->crc,        e->rates_count};
	const uint64_t rates = e->rates_count ? hash_bytes(e->rates, e->rates_count * sizeof *e->rates, 1) : 0;
	return hash_bytes(fields, sizeof fields, rates);
}

static struct fact *new_fact(struct history *h)
{
	if (h->count == h->capacity) {
		h->capacity = h->capacity ? 2 * h->capacity : 64;
		struct fact *bigger = world_alloc(h->capacity * sizeof *bigger);
		if (h->count)
			memcpy(bigger, h->facts, h->count * sizeof *bigger);
		world_free(h->facts);
		h->facts = bigger;
	}
	h->facts[h->count] = (struct fact){0};
	return &h->facts[h->count++];
}

static void commit_first(const struct actor *a, const struct partition *p, const struct log_entry *e)
{
	struct history *h = &in.of[partition_id(p)];
	const struct replication *x = roles_replication(a->server, (uint16_t)partition_id(p));
	if (e->index != h->count + 1)
		job_fail(in.job, "partition %u: %s commits entry %llu, though %llu are committed", partition_id(p), a->name,
		         (unsigned long long)e->index, (unsigned long long)h->count);
	if (!replica_is_primary(replication_replica(x)))
		job_fail(in.job, "partition %u: %s commits entry %llu, as no primary has", partition_id(p), a->name,
		         (unsigned long long)e->index);
	const uint64_t before = h->count ? h->facts[h->count - 1].epoch : 0;
	if (e->epoch < before || (e->epoch > before) != (e->record.kind == RECORD_EPOCH))
		job_fail(in.job, "partition %u: entry %llu, of kind %u and epoch %llu, is behind one of epoch %llu", partition_id(p),
		         (unsigned long long)e->index, e->record.kind, (unsigned long long)e->epoch, (unsigned long long)before);
	*new_fact(h) = (struct fact){.epoch = e->epoch, .entry = hash_of_entry(e), .committed_ns = world_now()};
}

static void commit_again(const struct actor *a, const struct partition *p, const struct log_entry *e)
{
	const struct fact *f = &in.of[partition_id(p)].facts[e->index - 1];
	if (f->entry != hash_of_entry(e))
		job_fail(in.job, "partition %u: entry %llu is of epoch %llu, and at %s of epoch %llu: committed with two contents",
		         partition_id(p), (unsigned long long)e->index, (unsigned long long)f->epoch, a->name,
		         (unsigned long long)e->epoch);
}

/* Checks entries that become committed. Applied entries were checked earlier, or came in a
 * snapshot, whose state is compared. */
static void look_at_entries(const struct actor *a, struct partition *p, uint64_t index)
{
	struct log *log = partition_log(p);
	for (uint64_t i = partition_applied(p) + 1; i <= index && !in.job->failure[0]; i++) {
		const struct log_entry *e = log->ops->get(log, i);
		if (!e)
			job_fail(in.job, "partition %u: %s commits entry %llu, which it has not", partition_id(p), a->name,
			         (unsigned long long)i);
		else if (i <= in.of[partition_id(p)].count)
			commit_again(a, p, e);
		else
			commit_first(a, p, e);
	}
}

/* --- In-sync replicas */

static void look_at_replica(const struct actor *a, uint32_t id)
{
	const struct server *s = actor_server(a);
	const struct history *h = &in.of[id];
	if (!s || !s->partitions[id] || !h->count)
		return;
	struct log *log = partition_log(s->partitions[id]);
	const struct replication *x = roles_replication(s, (uint16_t)id);
	if (!replica_is_whole(replication_replica(x)))
		return;
	const struct log_entry *e = log->ops->get(log, h->count);
	if (log->ops->last(log) < h->count)
		job_fail(in.job, "partition %u: %s is in sync, its log ends with entry %llu, and %llu are committed", id, a->name,
		         (unsigned long long)log->ops->last(log), (unsigned long long)h->count);
	else if (e)
		commit_again(a, s->partitions[id], e);
}

static void look_at_replicas(uint32_t id)
{
	const struct replica_record *r = records_get(id);
	for (uint32_t i = 0; r && i < r->isr.count; i++)
		look_at_replica(job_server(in.job, r->isr.ids[i]), id);
}

void invariants_look(struct job *job)
{
	for (uint32_t p = 0; p < PARTITIONS && !job->failure[0]; p++)
		look_at_replicas(p);
}

/* --- State */

static uint64_t hash_of_row(const struct store_table *t, uint64_t key, uint64_t seed)
{
	const float *row;
	const struct row_meta *m = store_find(t, key, &row);
	if (!m)
		return seed;
	uint32_t accumulator;
	memcpy(&accumulator, &m->state.accumulator, sizeof accumulator);
	const uint64_t fields[] = {key, m->version, m->state.steps, accumulator, m->last_push_s, m->count};
	const uint64_t hash = hash_bytes(fields, sizeof fields, seed);
	return row ? hash_bytes(row, store_row_elements(t, key) * sizeof *row, hash) : hash;
}

static uint64_t hash_of_state(struct partition *p)
{
	struct message *m = partition_state_export(p);
	uint64_t hash = 1;
	for (uint32_t i = 0; m && i < m->count; i++)
		hash = hash_bytes(m->spans[i].data, m->spans[i].size, hash);
	message_release(m);
	for (uint32_t id = 0; id < 2; id++) {
		const struct store_table *t = store_table(partition_store(p), id);
		const uint64_t keys = !t ? 0 : store_table_spec(t)->kind == WEIR_DENSE ? store_chunks(t) : KEY_SPACE;
		for (uint64_t key = 0; key < keys; key++)
			hash = hash_of_row(t, key, hash);
	}
	return hash ? hash : 1;
}

static void look_at_state(const struct actor *a, struct partition *p)
{
	const uint64_t applied = partition_applied(p);
	struct history *h = &in.of[partition_id(p)];
	/* A start reads tables from its folder before their entries arrive. */
	const bool has_tables = store_table(partition_store(p), 0) && store_table(partition_store(p), 1);
	if (!applied || applied > h->count || partition_is_replaying(p) || !has_tables)
		return;
	struct fact *f = &h->facts[applied - 1];
	const uint64_t state = hash_of_state(p);
	if (f->state && f->state != state)
		job_fail(in.job, "partition %u: %s has applied %llu entries to another state than the others", partition_id(p), a->name,
		         (unsigned long long)applied);
	f->state = state;
}

/* --- Wrapped calls */

void __real_partition_commit_to(struct partition *p, uint64_t index);
void __wrap_partition_commit_to(struct partition *p, uint64_t index);
void __real_partition_begin(struct partition *p, uint64_t epoch);
void __wrap_partition_begin(struct partition *p, uint64_t epoch);
weir_status __real_follow_pull(struct partition *p, const struct record *r);
weir_status __wrap_follow_pull(struct partition *p, const struct record *r);
void __real_submission_answer(struct submission *s);
void __wrap_submission_answer(struct submission *s);
bool __real_submission_answer_appended(struct submission *s, const struct log_entry *e);
bool __wrap_submission_answer_appended(struct submission *s, const struct log_entry *e);
void __real_replica_links_send(struct replica_links *l, uint16_t partition, const struct replica_message *m);
void __wrap_replica_links_send(struct replica_links *l, uint16_t partition, const struct replica_message *m);
struct replication *__real_replication_create(const struct replication_options *options, const struct replica_found *found);
struct replication *__wrap_replication_create(const struct replication_options *options, const struct replica_found *found);
void __wrap_logger_write(struct logger *l, enum log_level level, struct log_site *site, const char *event, const char *format,
                         ...) WEIR_PRINTF(5, 6);

void __wrap_partition_commit_to(struct partition *p, uint64_t index)
{
	if (!in.job) {
		__real_partition_commit_to(p, index);
		return;
	}
	const struct actor *a = current();
	const uint64_t before = in.of[partition_id(p)].count;
	look_at_entries(a, p, index);
	if (in.of[partition_id(p)].count > before)
		look_at_replicas(partition_id(p));
	__real_partition_commit_to(p, index);
	look_at_state(a, p);
}

void __wrap_partition_begin(struct partition *p, uint64_t epoch)
{
	struct history *h = in.job ? &in.of[partition_id(p)] : NULL;
	struct log *log = partition_log(p);
	for (uint32_t i = 0; h && i < h->begun_count; i++)
		if (h->begun[i] == epoch)
			job_fail(in.job, "partition %u: epoch %llu begins again", partition_id(p), (unsigned long long)epoch);
	if (h && h->begun_count < EPOCHS_MAX)
		h->begun[h->begun_count++] = epoch;
	const struct replica_record *r = h ? records_get(partition_id(p)) : NULL;
	if (r && r->epoch == epoch && log->ops->last(log) < h->count)
		job_fail(in.job, "partition %u: epoch %llu begins behind entry %llu, and %llu are committed", partition_id(p),
		         (unsigned long long)epoch, (unsigned long long)log->ops->last(log), (unsigned long long)h->count);
	__real_partition_begin(p, epoch);
}

/* A replica in sync must answer a pull with a state that is at most r->c ms old by its clock. */
weir_status __wrap_follow_pull(struct partition *p, const struct record *r)
{
	const weir_status status = __real_follow_pull(p, r);
	const struct history *h = in.job ? &in.of[partition_id(p)] : NULL;
	if (!h || status)
		return status;
	const int64_t oldest_ns = world_now() - (int64_t)r->pull.age_ms_max * (SIM_MS + SIM_MS / 40) - SIM_MS;
	const uint64_t applied = partition_applied(p);
	if (applied < h->count && h->facts[applied].committed_ns < oldest_ns &&
	    records_in_sync_since(partition_id(p), (uint16_t)current()->index) < oldest_ns)
		job_fail(in.job, "partition %u: %s answers a pull with %llu entries applied, and the next was committed %.3f s ago",
		         partition_id(p), current()->name, (unsigned long long)applied,
		         (double)(world_now() - h->facts[applied].committed_ns) / 1e9);
	in.job->reads++;
	return status;
}

void __wrap_submission_answer(struct submission *s)
{
	if (in.job && in.job->ack != PARTITION_ACK_PRIMARY && s->reply.status == WEIR_OK &&
	    s->index > in.of[partition_id(s->p)].count)
		job_fail(in.job, "partition %u: entry %llu is answered, and %llu are committed", partition_id(s->p),
		         (unsigned long long)s->index, (unsigned long long)in.of[partition_id(s->p)].count);
	__real_submission_answer(s);
}

bool __wrap_submission_answer_appended(struct submission *s, const struct log_entry *e)
{
	const struct partition *p = s->p;
	const bool answered = __real_submission_answer_appended(s, e);
	if (answered && in.job && in.job->ack != PARTITION_ACK_PRIMARY)
		job_fail(in.job, "partition %u: entry %llu is answered, and only appended", partition_id(p),
		         (unsigned long long)e->index);
	return answered;
}

void __wrap_replica_links_send(struct replica_links *l, uint16_t partition, const struct replica_message *m)
{
	if (in.job && m->kind == REPLICA_ACK && partition < PARTITIONS && in.acknowledged[m->from][partition] < m->epoch)
		in.acknowledged[m->from][partition] = m->epoch;
	if (in.job && (m->kind == REPLICA_ACK || m->kind == REPLICA_ESTABLISH))
		records_heard(partition == JOURNAL_LEDGER ? PARTITIONS : partition, m->from);
	__real_replica_links_send(l, partition, m);
}

struct replication *__wrap_replication_create(const struct replication_options *o, const struct replica_found *found)
{
	if (in.job && o->votes && o->partition < PARTITIONS) {
		const uint64_t acknowledged = in.acknowledged[o->replica.self][o->partition];
		const struct vote kept = vote_store_found(o->votes, o->partition);
		if (kept.promised < acknowledged)
			job_fail(in.job, "partition %u: server %u has acknowledged in epoch %llu, and promises %llu", o->partition,
			         o->replica.self, (unsigned long long)acknowledged, (unsigned long long)kept.promised);
	}
	return __real_replication_create(o, found);
}

/* A server that is asked late cannot tell whether its empty folder replaces a lost one. If nothing
 * was committed, only the job's beginning is lost. */
static void note_lost(const char *event, const char *line)
{
	uint32_t p = PARTITIONS;
	const bool anything = sscanf(line, "partition=%u", &p) == 1 && p < PARTITIONS ? in.of[p].count > 0 : in.ledger_served;
	if (anything)
		job_fail(in.job, "no full log is left: %s: %s", event, line);
	in.job->is_lost = true;
}

void __wrap_logger_write(struct logger *l, enum log_level level, struct log_site *site, const char *event, const char *format,
                         ...)
{
	char line[WEIR_ERROR_TEXT_BYTES];
	va_list args;
	(void)l, (void)level, (void)site;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	world_note("logs: %s: %s", event, line);
	in.ledger_served |= strcmp(event, "ledger served") == 0;
	if (in.job && (strcmp(event, "partition lost") == 0 || strcmp(event, "ledger lost") == 0))
		note_lost(event, line);
}

/* --- At the end */

void invariants_compare(struct job *job)
{
	for (uint32_t i = 0; i < job->servers; i++) {
		const struct actor *a = job_server(job, i);
		const struct server *s = actor_server(a);
		for (uint32_t p = 0; s && p < PARTITIONS; p++)
			if (s->partitions[p])
				look_at_state(a, s->partitions[p]);
	}
}
