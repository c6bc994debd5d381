/* Records in, entries through the log, replies out. Everything is checked before it becomes an entry; applying cannot refuse. At replication
 * factor 1 an entry is committed when it is in the log, so it is applied, and answered, before partition_submit returns. */
#include "partition.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "partition_internal.h"
#include "partition_state.h"
#include "wire.h"

static void on_store_failed(void *arg, weir_status status, const char *text)
{
	struct partition *p = arg;
	weir_error err = {0};
	(void)weir_fail(&err, status, "%s", text);
	if (p->options.failed)
		p->options.failed(p->options.failed_arg, &err);
}

/* The store's place for what this partition is asked: with its callbacks here. */
static struct store *create_store(struct partition *p)
{
	if (!p->options.store)
		return store_create(NULL);
	p->store_options = *p->options.store;
	p->store_options.partition = p->options.id;
	p->store_options.fetched = rows_fetched;
	p->store_options.failed = on_store_failed;
	p->store_options.arg = p;
	p->options.store = &p->store_options;
	p->cold = p->store_options.cold != NULL;
	return store_create(&p->store_options);
}

struct partition *partition_create(const struct partition_options *options, weir_error *err)
{
	struct partition *p = calloc(1, sizeof *p);
	if (!p) {
		if (options->log)
			options->log->ops->destroy(options->log);
		weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", options->id);
		return NULL;
	}
	p->options = *options;
	steps_init(&p->steps);
	p->store = create_store(p);
	p->scratch = malloc(sizeof *p->scratch);
	if (!p->store || !p->scratch) {
		partition_destroy(p);
		weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", options->id);
		return NULL;
	}
	return p;
}

void partition_close(struct partition *p)
{
	p->closed = true;
	store_close(p->store);
}

void partition_destroy(struct partition *p)
{
	if (!p)
		return;
	partition_abandon(p);
	message_release(p->flush.header);
	free(p->skip.bits);
	if (p->options.log)
		p->options.log->ops->destroy(p->options.log);
	steps_free(&p->steps);
	identity_free(&p->identity);
	for (uint32_t id = 0; id < p->tables_end; id++)
		free(p->tables[id]);
	store_destroy(p->store);
	free(p->scratch);
	free(p);
}

uint32_t partition_id(const struct partition *p)
{
	return p->options.id;
}
uint64_t partition_applied(const struct partition *p)
{
	return p->applied;
}
uint64_t partition_epoch(const struct partition *p)
{
	return epochs_now(&p->epochs);
}
uint64_t partition_steps_closed(const struct partition *p)
{
	return p->steps.closed;
}
struct store *partition_store(struct partition *p)
{
	return p->store;
}
const struct partition_counters *partition_get_counters(const struct partition *p)
{
	return &p->counters;
}

struct histogram *partition_staleness(struct partition *p, uint32_t table)
{
	struct partition_table *t = partition_table(p, table);
	return t ? &t->staleness : NULL;
}

const struct partition_table_counters *partition_table_get_counters(const struct partition *p, uint32_t table)
{
	const struct partition_table *t = partition_table(p, table);
	return t ? &t->counters : NULL;
}

weir_status partition_add_table(struct partition *p, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	const struct partition_table *known = partition_table(p, id);
	struct wire_table_difference first;
	if (known && wire_table_equal(known->spec, spec, &first))
		return WEIR_OK;
	if (known)
		return weir_fail(err, WEIR_E_EXISTS, "table %u is registered as \"%s\" with %s %g, not %g", id, known->spec->name,
		                 first.field, first.a, first.b);
	struct partition_table *t = calloc(1, sizeof *t);
	if (!t)
		return weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	weir_status status = store_add_table(p->store, id, spec, p->options.id, p->options.partitions, &t->rows, err);
	if (status) {
		free(t);
		return status;
	}
	t->spec = store_table_spec(t->rows);
	t->optimizer = store_table_optimizer(t->rows);
	t->full_decay = t->spec->kind == WEIR_EMBEDDING && optimizer_is_full_decay(t->optimizer);
	p->tables[id] = t;
	if (id >= p->tables_end)
		p->tables_end = id + 1;
	return WEIR_OK;
}

/* --- Entries */

weir_status submission_commit(struct submission *s, uint32_t finding, const float *rates, uint32_t rates_count)
{
	struct partition *p = s->p;
	struct log *log = p->options.log;
	struct log_entry e = {
	    .epoch = p->options.epoch,
	    .index = p->applied + 1,
	    .committed = p->applied + 1, /* the only copy */
	    .generation = p->options.generation,
	    .stamp_ms = p->options.clock->ops->wall_ns(p->options.clock) / 1000000,
	    .rates_count = rates_count,
	    .rates = rates,
	    .finding = finding,
	    .record = *s->r,
	    .message = s->message,
	    .body = *s->body,
	};
	weir_status status = log->ops->append(log, &e, &s->err);
	s->no_space = status == WEIR_E_NO_SPACE;
	if (status == WEIR_E_IO && p->options.failed)
		p->options.failed(p->options.failed_arg, &s->err);
	if (status)
		return status;
	status = partition_apply(p, &e);
	if (p->failed) {
		LOG_AT(p->options.logger, LOG_ERROR, "partition stopped", "partition=%u entry=%llu reason=%s", p->options.id,
		       (unsigned long long)e.index, weir_status_name(p->failed));
		return weir_fail(&s->err, p->failed, "partition %u: entry %llu could not be applied", p->options.id,
		                 (unsigned long long)e.index);
	}
	log->ops->release_below(log, partition_state_needs(p));
	return status;
}

static weir_status refuse(struct submission *s, weir_status status)
{
	struct partition_counters *c = &s->p->counters;
	if (status == WEIR_E_DUPLICATE)
		counter_bump(&c->duplicates_refused, 1);
	else if (status == WEIR_E_STALE)
		counter_bump(&c->stale_refused, 1);
	else if (status == WEIR_E_LIMIT)
		return weir_fail(&s->err, status, "partition %u: %u units are open", s->p->options.id, WEIR_UNITS_OPEN_MAX);
	return status;
}

/* The learning rate of a section of an asynchronous table. A dense chunk counts its own pushes: a batch may bring a table's chunks in several
 * parts, and each must see the same step. */
static double section_rate(const struct partition *p, const struct section *s)
{
	const struct partition_table *t = partition_table(p, s->table);
	uint64_t step = t->clock.steps, key;
	struct row_keys k = row_keys_of(p, t, s);
	if (t->spec->kind == WEIR_DENSE && row_keys_next(&k, &key, 1)) {
		const float *row;
		const struct row_meta *meta = store_find(t->rows, key, &row);
		step = meta ? meta->count : 0;
	}
	return schedule_lr(&t->spec->optimizer, step);
}

/* The rates of a push's sections, and its staleness into the histograms of the tables it touches. */
static void rate_sections(struct submission *s, float *rates)
{
	struct cursor body = *s->body;
	s->reply.staleness = s->r->a < s->p->applied ? (uint32_t)(s->p->applied - s->r->a) : 0;
	for (uint32_t i = 0; i < s->r->sections; i++) {
		struct section section;
		weir_status status = frame_next_section(&body, &section, NULL);
		assert(status == WEIR_OK);
		struct partition_table *t = partition_table(s->p, section.table);
		rates[i] = t->spec->mode.kind == WEIR_SYNC ? 0 : (float)section_rate(s->p, &section);
		histogram_record(&t->staleness, s->reply.staleness);
	}
}

static weir_status submit_push(struct submission *s)
{
	struct partition *p = s->p;
	const struct record *r = s->r;
	weir_status status = identity_check(&p->identity, r);
	if (status)
		return refuse(s, status);
	if (r->attempt == 0 || r->batch >= WEIR_UNIT_BATCHES_MAX || r->part >= WEIR_BATCH_PARTS_MAX)
		return weir_fail(&s->err, WEIR_E_INVALID,
		                 "push: attempt %u, batch %u, part %u; attempts count from 1, batches below %u, parts below %u",
		                 r->attempt, r->batch, r->part, WEIR_UNIT_BATCHES_MAX, WEIR_BATCH_PARTS_MAX);
	bool sync;
	status = check_sections(p, r, *s->body, &sync, &s->err);
	if (status)
		return status;
	if (sync && r->b == 0)
		return weir_fail(&s->err, WEIR_E_INVALID, "push: a synchronous table without a step");
	uint32_t finding = LOG_FINITE, table;
	if (p->options.not_finite != PARTITION_ACCEPT && !sections_finite(r, *s->body, p->scratch->values, &table)) {
		finding = p->options.not_finite == PARTITION_CLIP ? LOG_CLIPPED : LOG_REJECTED;
		weir_fail(&s->err, WEIR_E_NOT_FINITE, "table %s: a NaN or an infinity in pass %u unit %u batch %u",
		          partition_table(p, table)->spec->name, r->pass, r->unit, r->batch);
	}
	float rates[WEIR_RECORD_SECTIONS_MAX];
	rate_sections(s, rates);
	return submission_commit(s, finding, rates, r->sections);
}

static weir_status submit_seal(struct submission *s)
{
	const struct record *r = s->r;
	uint64_t key = identity_key(r->pass, r->unit);
	weir_status status = identity_check_seal(&s->p->identity, r);
	if (status)
		return refuse(s, status);
	const struct unit *u = identity_find(&s->p->identity, key);
	if (!u || u->attempt < r->attempt)
		status = submission_commit(s, LOG_FINITE, NULL, 0);
	if (status)
		return status;
	u = identity_find(&s->p->identity, key);
	s->reply.bitmap = (const uint8_t *)u->parts;
	s->reply.bitmap_bits = u->batches * WEIR_BATCH_PARTS_MAX;
	return WEIR_OK;
}

static weir_status check_close(struct submission *s)
{
	const struct record *r = s->r;
	struct cursor body = *s->body;
	struct section section;
	if (r->sections != 1)
		return weir_fail(&s->err, WEIR_E_CORRUPT, "close step %llu: %u sections, expected 1", (unsigned long long)r->b,
		                 r->sections);
	weir_status status = frame_next_section(&body, &section, &s->err);
	if (status)
		return status;
	if (section.data_bytes % BATCH_ID_BYTES || r->c > section.data_bytes / BATCH_ID_BYTES ||
	    section.data_bytes / BATCH_ID_BYTES > 2 * WEIR_STEP_MEMBERS_MAX)
		return weir_fail(&s->err, WEIR_E_CORRUPT, "close step %llu: %u included in %u bytes of batch ids",
		                 (unsigned long long)r->b, r->c, section.data_bytes);
	for (uint32_t i = 0; i < section.data_bytes / BATCH_ID_BYTES; i++) {
		struct batch_id id;
		status = cursor_read(&section.data, &id, BATCH_ID_BYTES);
		assert(status == WEIR_OK);
		if (id.batch >= WEIR_UNIT_BATCHES_MAX)
			return weir_fail(&s->err, WEIR_E_LIMIT, "close step %llu: batch %u, below %u", (unsigned long long)r->b, id.batch,
			                 WEIR_UNIT_BATCHES_MAX);
	}
	return WEIR_OK;
}

static weir_status submit_close(struct submission *s)
{
	struct partition *p = s->p;
	if (s->r->b <= p->steps.closed)
		return WEIR_OK;
	if (s->r->b != p->steps.closed + 1)
		return weir_fail(&s->err, WEIR_E_STATE, "partition %u: close of step %llu, the next is %llu", p->options.id,
		                 (unsigned long long)s->r->b, (unsigned long long)p->steps.closed + 1);
	weir_status status = check_close(s);
	if (status)
		return status;
	float rates[WEIR_TABLES_MAX + 1] = {0};
	for (uint32_t id = 0; id < p->tables_end; id++) {
		const struct partition_table *t = p->tables[id];
		if (t && t->spec->mode.kind == WEIR_SYNC)
			rates[id] = (float)schedule_lr(&t->spec->optimizer, t->clock.steps);
	}
	status = submission_commit(s, LOG_FINITE, rates, p->tables_end);
	if (!status)
		parked_wake(p, INT64_MIN);
	return status;
}

static weir_status submit_retire(struct submission *s)
{
	const struct record *r = s->r;
	bool changes;
	if (identity_retires(&s->p->identity, identity_key(r->pass, r->unit), r->attempt > 0, r->a, &changes))
		return weir_fail(&s->err, WEIR_E_LIMIT, "partition %u: %u units closed above the low-water mark", s->p->options.id,
		                 WEIR_UNITS_OPEN_MAX);
	return changes ? submission_commit(s, LOG_FINITE, NULL, 0) : WEIR_OK;
}

static weir_status submit_assign(struct submission *s)
{
	bool sync;
	uint32_t table;
	weir_status status = check_sections(s->p, s->r, *s->body, &sync, &s->err);
	if (status)
		return status;
	if (!sections_finite(s->r, *s->body, s->p->scratch->values, &table))
		return weir_fail(&s->err, WEIR_E_NOT_FINITE, "table %s: a NaN or an infinity in assigned rows",
		                 partition_table(s->p, table)->spec->name);
	return submission_commit(s, LOG_FINITE, NULL, 0);
}

/* The sender was told of entries up to r->a in epoch r->b. */
static weir_status submit_resume(struct submission *s)
{
	const struct record *r = s->r;
	if (!epochs_hold(&s->p->epochs, r->b, r->a, s->p->applied))
		return weir_fail(&s->err, WEIR_E_STALE,
		                 "partition %u: entry %llu of epoch %llu was lost in a restart before it was durable", s->p->options.id,
		                 (unsigned long long)r->a, (unsigned long long)r->b);
	s->survives = r->a;
	return WEIR_OK;
}

static weir_status submit(struct submission *s)
{
	if (s->p->failed)
		return weir_fail(&s->err, s->p->failed, "partition %u has stopped: an entry could not be applied", s->p->options.id);
	switch (s->r->kind) {
	case RECORD_PUSH:
		return submit_push(s);
	case RECORD_SEAL:
		return submit_seal(s);
	case RECORD_CLOSE_STEP:
		return submit_close(s);
	case RECORD_RETIRE:
		return submit_retire(s);
	case RECORD_ASSIGN:
		return submit_assign(s);
	case RECORD_EVICT:
		return submit_evict(s);
	case RECORD_RESUME:
		return submit_resume(s);
	}
	return weir_fail(&s->err, WEIR_E_INVALID, "record kind %u does not change state", s->r->kind);
}

/* Whether the outcome is one that a crash must not take back: it speaks of entries. An asynchronous push may be lost and done again (RESUME tells
 * its sender); of a step, which is closed once for all, nothing may. A retirement may: all parts of its units are stable, so that a late one is
 * known as well as before, and the next low-water mark retires them again. */
static bool must_survive(const struct submission *s)
{
	weir_status status = s->reply.status;
	bool speaks_of_entries =
	    status == WEIR_OK || status == WEIR_E_DUPLICATE || status == WEIR_E_DROPPED || status == WEIR_E_NOT_FINITE;
	bool push_may_be_lost = s->r->kind == RECORD_PUSH && s->r->b == 0 && !s->p->options.ack_disk;
	return speaks_of_entries && !push_may_be_lost && s->r->kind != RECORD_RESUME && s->r->kind != RECORD_RETIRE;
}

/* Whether the rows that the record needs are in memory. s->ticket: else what they come with, 0: there is no memory to ask for them. */
static bool has_rows(struct submission *s)
{
	struct partition *p = s->p;
	s->ticket = 0;
	if (!p->cold || s->r->kind == RECORD_RESUME)
		return true;
	weir_status status = WEIR_OK;
	if (s->r->kind != RECORD_CLOSE_STEP)
		status = rows_want(p, s->r, *s->body);
	else if (s->r->b == p->steps.closed + 1 && check_close(s) == WEIR_OK)
		status = steps_want(p, &(struct log_entry){.record = *s->r, .body = *s->body});
	if (status) /* what was noted is fetched, the rest is asked for again */
		LOG_AT(p->options.logger, LOG_WARN, "no memory to ask for rows", "partition=%u", p->options.id);
	const bool missing = rows_missing(p, &s->ticket);
	return !missing && !status;
}

static void wait_for_space(struct submission *s)
{
	struct partition *p = s->p;
	LOG_AT(p->options.logger, LOG_ERROR, "disk full", "partition=%u %s; pushes wait until space is freed", p->options.id,
	       s->err.text);
	atomic_store_explicit(&p->counters.disk_full, true, memory_order_relaxed);
	s->err = (weir_error){0};
	s->no_space = false;
	submissions_add(&p->blocked, s);
}

void submission_run(struct submission *s)
{
	struct partition *p = s->p;
	if (p->blocked.first && s->r->kind != RECORD_RESUME) {
		submissions_add(&p->blocked, s);
		return;
	}
	if (!has_rows(s)) {
		if (s->ticket) {
			submissions_add(&p->unfetched, s);
			return;
		}
		s->reply.status = weir_fail(&s->err, WEIR_E_MEMORY, "partition %u: out of memory", p->options.id);
		submission_answer(s);
		return;
	}
	s->reply.status = submit(s);
	if (s->no_space) {
		wait_for_space(s);
		return;
	}
	if (must_survive(s))
		s->survives = p->applied;
	submission_answer(s);
	if (p->cold)
		store_balance(p->store);
}

void partition_submit(struct partition *p, const struct record *r, const struct cursor *body, struct message *m,
                      partition_reply_fn reply, void *arg)
{
	struct submission s = {.p = p, .r = r, .body = body, .message = m, .on_reply = reply, .arg = arg};
	s.err.text[0] = '\0';
	submission_run(&s);
}
