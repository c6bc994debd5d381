/* Records in, entries through the log, replies out. Everything is checked before it becomes an entry; applying cannot refuse. At replication
 * factor 1 an entry is committed when it is in the log, so it is applied, and answered, before partition_submit returns. */
#include "partition.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "partition_internal.h"
#include "wire.h"

/* A record on its way through. */
struct submission {
	struct partition *p;
	const struct record *r;
	const struct cursor *body;
	struct message *message;
	struct partition_reply reply;
	weir_error err;
};

struct partition *partition_create(const struct partition_options *options, weir_error *err)
{
	struct partition *p = calloc(1, sizeof *p);
	if (!p) {
		options->log->ops->destroy(options->log);
		weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", options->id);
		return NULL;
	}
	p->options = *options;
	steps_init(&p->steps);
	p->store = store_create(NULL);
	p->scratch = malloc(sizeof *p->scratch);
	if (!p->store || !p->scratch) {
		partition_destroy(p);
		weir_fail(err, WEIR_E_MEMORY, "partition %u: out of memory", options->id);
		return NULL;
	}
	return p;
}

void partition_destroy(struct partition *p)
{
	if (!p)
		return;
	partition_tick(p, INT64_MAX);
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
	const char *field;
	if (known && wire_table_equal(known->spec, spec, &field))
		return WEIR_OK;
	if (known)
		return weir_fail(err, WEIR_E_EXISTS, "table %u is registered as \"%s\" with another %s", id, known->spec->name, field);
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

/* --- Parked pulls */

bool partition_readable(const struct partition *p, uint64_t step)
{
	return step <= p->steps.closed;
}

void partition_park(struct partition *p, uint64_t step, int64_t deadline_ms, void (*ready)(void *arg, weir_status status),
                    void *arg)
{
	struct parked *k = malloc(sizeof *k);
	if (!k) {
		ready(arg, WEIR_E_MEMORY);
		return;
	}
	*k = (struct parked){.step = step, .deadline_ms = deadline_ms, .ready = ready, .arg = arg};
	struct parked **end = &p->parked;
	while (*end)
		end = &(*end)->next;
	*end = k;
}

/* Wakes, in the order they came, those whose step is applied or whose deadline is at or before now_ms. */
static void wake(struct partition *p, int64_t now_ms)
{
	struct parked *woken = NULL, **end = &woken;
	for (struct parked **at = &p->parked; *at;) {
		struct parked *k = *at;
		if (!partition_readable(p, k->step) && k->deadline_ms > now_ms) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		k->next = NULL;
		*end = k;
		end = &k->next;
	}
	while (woken) {
		struct parked *k = woken;
		woken = k->next;
		k->ready(k->arg, partition_readable(p, k->step) ? WEIR_OK : WEIR_E_NOT_CURRENT);
		free(k);
	}
}

void partition_tick(struct partition *p, int64_t now_ms)
{
	if (p->parked)
		wake(p, now_ms);
}

/* --- Entries */

/* Logs the record with these rates and applies it. */
static weir_status commit(struct submission *s, uint32_t finding, const float *rates, uint32_t rates_count)
{
	struct partition *p = s->p;
	struct log *log = p->options.log;
	struct log_entry e = {
	    .epoch = 1,
	    .index = p->applied + 1,
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
	if (status)
		return status;
	status = partition_apply(p, &e);
	if (p->failed) {
		LOG_AT(p->options.logger, LOG_ERROR, "partition stopped", "partition=%u entry=%llu reason=%s", p->options.id,
		       (unsigned long long)e.index, weir_status_name(p->failed));
		return weir_fail(&s->err, p->failed, "partition %u: entry %llu could not be applied", p->options.id,
		                 (unsigned long long)e.index);
	}
	uint64_t needed = p->steps.lowest < e.index + 1 ? p->steps.lowest : e.index + 1;
	log->ops->release_below(log, needed);
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
		counter_bump(&p->counters.nonfinite_refused, 1);
		weir_fail(&s->err, WEIR_E_NOT_FINITE, "table %s: a NaN or an infinity in pass %u unit %u batch %u",
		          partition_table(p, table)->spec->name, r->pass, r->unit, r->batch);
	}
	float rates[WEIR_RECORD_SECTIONS_MAX];
	rate_sections(s, rates);
	return commit(s, finding, rates, r->sections);
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
		status = commit(s, LOG_FINITE, NULL, 0);
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
	status = commit(s, LOG_FINITE, rates, p->tables_end);
	if (!status)
		wake(p, INT64_MIN);
	return status;
}

static weir_status submit_retire(struct submission *s)
{
	const struct record *r = s->r;
	bool changes;
	if (identity_retires(&s->p->identity, identity_key(r->pass, r->unit), r->attempt > 0, r->a, &changes))
		return weir_fail(&s->err, WEIR_E_LIMIT, "partition %u: %u units closed above the low-water mark", s->p->options.id,
		                 WEIR_UNITS_OPEN_MAX);
	return changes ? commit(s, LOG_FINITE, NULL, 0) : WEIR_OK;
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
	return commit(s, LOG_FINITE, NULL, 0);
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
	}
	return weir_fail(&s->err, WEIR_E_INVALID, "record kind %u does not change state", s->r->kind);
}

void partition_submit(struct partition *p, const struct record *r, const struct cursor *body, struct message *m,
                      partition_reply_fn reply, void *arg)
{
	struct submission s = {.p = p, .r = r, .body = body, .message = m};
	s.err.text[0] = '\0';
	s.reply.status = submit(&s);
	s.reply.applied = p->applied;
	s.reply.stable = p->options.log->ops->durable(p->options.log);
	s.reply.text = s.err.text[0] ? s.err.text : NULL;
	reply(arg, &s.reply);
}
