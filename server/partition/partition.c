/* The life of a partition, and the checks of each kind of record. Every record is checked before it
 * becomes an entry; applying cannot refuse. */
#include "server/partition/partition.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_internal.h"
#include "server/partition/partition_state.h"

static void on_store_failed(void *arg, weir_status status, const char *text)
{
	struct partition *p = arg;
	weir_error err = {0};
	(void)weir_fail(&err, status, "%s", text);
	host_fail(p, &err);
}

struct store *partition_new_store(struct partition *p)
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
	p->store = partition_new_store(p);
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
	steps_destroy(&p->steps);
	dedup_destroy(&p->identity);
	partition_free_tables(p);
	store_destroy(p->store);
	free(p->scratch);
	free(p->spare);
	free(p);
}

uint32_t partition_id(const struct partition *p)
{
	return p->options.id;
}
bool partition_is_moved(const struct partition *p)
{
	return p->moved;
}
uint64_t partition_applied(const struct partition *p)
{
	return p->applied;
}
uint64_t partition_epoch(const struct partition *p)
{
	return epochs_now(&p->epochs);
}
uint64_t partition_closed_low(const struct partition *p)
{
	return p->identity.low;
}
/* Parts that wait for their step are here too, but are not counted yet. */
bool partition_has_parts(const struct partition *p, uint64_t parts, uint64_t fingerprint)
{
	const struct partition_counters *c = &p->counters;
	const uint64_t counted = atomic_load_explicit(&c->parts_applied, memory_order_relaxed) +
	                         atomic_load_explicit(&c->parts_dropped, memory_order_relaxed);
	const uint64_t sum = atomic_load_explicit(&c->fingerprint, memory_order_relaxed) +
	                     atomic_load_explicit(&c->dropped_fingerprint, memory_order_relaxed);
	return counted + p->steps.count > parts || (counted + p->steps.count == parts && (p->steps.count || sum == fingerprint));
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
	return t ? t->staleness : NULL;
}

const struct partition_table_counters *partition_table_get_counters(const struct partition *p, uint32_t table)
{
	const struct partition_table *t = partition_table(p, table);
	return t ? &t->counters : NULL;
}

struct optimizer_clock partition_table_clock(const struct partition *p, uint32_t table)
{
	const struct partition_table *t = partition_table(p, table);
	return t ? t->clock : (struct optimizer_clock){0};
}

/* --- Entries */

void entry_place(const struct partition *p, struct log_entry *e)
{
	e->epoch = p->epoch;
	e->index = p->options.log->ops->last(p->options.log) + 1;
	/* Entries of the only copy are committed at once. */
	e->committed = p->options.replicated ? p->committed : e->index;
	e->generation = p->options.generation;
	e->stamp_ms = p->options.clock->ops->wall_ns(p->options.clock) / 1000000;
}

weir_status submission_enter(struct submission *s, struct log_entry *e)
{
	entry_place(s->p, e);
	e->record = *s->r;
	e->message = s->message;
	e->body = *s->body;
	return WEIR_OK;
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

/* Sets *scale to the factor by which the sender wants rates multiplied. E_INVALID: not a valid
 * factor. */
static weir_status rate_scale(struct submission *s, uint64_t bits, float *scale)
{
	const uint32_t low = (uint32_t)bits;
	*scale = 1;
	if (bits)
		memcpy(scale, &low, sizeof *scale);
	if (bits <= UINT32_MAX && *scale > 0 && *scale <= WEIR_WORKERS_MAX)
		return WEIR_OK;
	return weir_fail(&s->err, WEIR_E_INVALID, "rates are to be multiplied by %g: above 0 and at most %u", (double)*scale,
	                 WEIR_WORKERS_MAX);
}

/* Left out when out of memory: it is only a statistic. */
static void record_staleness(struct partition_table *t, uint32_t staleness)
{
	if (!t->staleness)
		t->staleness = calloc(1, sizeof *t->staleness);
	if (t->staleness)
		histogram_record(t->staleness, staleness);
}

/* Computes the rates of a push's sections, and records its staleness in the histograms of its
 * tables. */
static void rate_sections(struct submission *s, float scale, float *rates)
{
	struct cursor body = *s->body;
	const uint64_t last = s->p->options.log->ops->last(s->p->options.log);
	s->reply.staleness = s->r->push.applied < last ? (uint32_t)(last - s->r->push.applied) : 0;
	for (uint32_t i = 0; i < s->r->sections; i++) {
		struct section section;
		weir_status status = frame_next_section(&body, &section, NULL);
		assert(status == WEIR_OK);
		struct partition_table *t = partition_table(s->p, section.table);
		const bool steps = t->spec->mode.kind == WEIR_SYNC;
		rates[i] = steps ? 0 : scale * (float)schedule_lr(&t->spec->optimizer, push_step(t, s->r));
		if (t->spec->mode.staleness_rate && s->reply.staleness > 1)
			rates[i] /= (float)s->reply.staleness;
		record_staleness(t, s->reply.staleness);
	}
}

weir_status submit_push(struct submission *s, struct log_entry *e)
{
	struct partition *p = s->p;
	const struct record *r = s->r;
	weir_status status = dedup_check(&p->identity, r);
	if (status)
		return refuse(s, status);
	if (r->attempt == 0 || r->batch >= WEIR_UNIT_BATCHES_MAX || r->part >= WEIR_BATCH_PARTS_MAX)
		return weir_fail(&s->err, WEIR_E_INVALID,
		                 "push: attempt %u, batch %u, part %u; attempts count from 1, batches below %u, parts below %u",
		                 r->attempt, r->batch, r->part, WEIR_UNIT_BATCHES_MAX, WEIR_BATCH_PARTS_MAX);
	bool sync;
	float scale;
	status = check_sections(p, r, *s->body, &sync, &s->err);
	if (!status)
		status = check_distinct(p, r, *s->body, &s->err);
	if (!status)
		status = rate_scale(s, r->push.rate_scale, &scale);
	if (status)
		return status;
	if (sync && r->push.step == 0)
		return weir_fail(&s->err, WEIR_E_INVALID, "push: a synchronous table without a step");
	uint32_t table;
	if (p->options.not_finite != PARTITION_ACCEPT && !sections_finite(p, r, *s->body, &table)) {
		e->finding = p->options.not_finite == PARTITION_CLIP ? LOG_CLIPPED : LOG_REJECTED;
		weir_fail(&s->err, WEIR_E_NOT_FINITE, "table %s: a NaN or an infinity in pass %u unit %u batch %u",
		          partition_table(p, table)->spec->name, r->pass, r->unit, r->batch);
	}
	rate_sections(s, scale, p->scratch->rates);
	e->rates = p->scratch->rates;
	e->rates_count = r->sections;
	return submission_enter(s, e);
}

weir_status submit_seal(struct submission *s, struct log_entry *e)
{
	const struct record *r = s->r;
	weir_status status = dedup_check_seal(&s->p->identity, r);
	if (status)
		return refuse(s, status);
	const struct unit *u = dedup_find(&s->p->identity, dedup_key(r->pass, r->unit));
	return !u || u->attempt < r->attempt ? submission_enter(s, e) : WEIR_OK;
}

static weir_status check_close(struct submission *s)
{
	const struct record *r = s->r;
	struct cursor body = *s->body;
	struct section section;
	if (r->sections != 1)
		return weir_fail(&s->err, WEIR_E_CORRUPT, "close step %llu: %u sections, expected 1", (unsigned long long)r->close.step,
		                 r->sections);
	weir_status status = frame_next_section(&body, &section, &s->err);
	if (status)
		return status;
	uint32_t rest;
	const uint32_t ids = step_ids(r, section.data_bytes, &rest);
	if (rest || r->close.included > ids || ids > 2 * WEIR_STEP_MEMBERS_MAX)
		return weir_fail(&s->err, WEIR_E_CORRUPT, "close step %llu: %u included in %u bytes of batch ids",
		                 (unsigned long long)r->close.step, r->close.included, section.data_bytes);
	for (uint32_t i = 0; i < ids; i++) {
		struct batch_id id;
		status = cursor_read(&section.data, &id, BATCH_ID_BYTES);
		assert(status == WEIR_OK);
		if (id.batch >= WEIR_UNIT_BATCHES_MAX)
			return weir_fail(&s->err, WEIR_E_LIMIT, "close step %llu: batch %u, below %u", (unsigned long long)r->close.step,
			                 id.batch, WEIR_UNIT_BATCHES_MAX);
	}
	for (float weight; r->flags & RECORD_CLOSE_WEIGHTS && section.data.left;) {
		status = cursor_read(&section.data, &weight, sizeof weight);
		assert(status == WEIR_OK);
		if (!(weight >= 0 && weight <= (float)r->close.included))
			return weir_fail(&s->err, WEIR_E_INVALID, "close step %llu: a batch weighs %g, expected 0 to %u",
			                 (unsigned long long)r->close.step, (double)weight, r->close.included);
	}
	return WEIR_OK;
}

weir_status submit_close(struct submission *s, struct log_entry *e)
{
	struct partition *p = s->p;
	if (s->r->close.step <= p->steps.closed)
		return WEIR_OK;
	if (s->r->close.step != p->steps.closed + 1)
		return weir_fail(&s->err, WEIR_E_STATE, "partition %u: close of step %llu, the next is %llu", p->options.id,
		                 (unsigned long long)s->r->close.step, (unsigned long long)p->steps.closed + 1);
	float scale;
	weir_status status = check_close(s);
	if (!status)
		status = rate_scale(s, s->r->close.rate_scale, &scale);
	if (status)
		return status;
	for (uint32_t id = 0; id < p->tables_end; id++) {
		const struct partition_table *t = p->tables[id];
		const bool steps = t && t->spec->mode.kind == WEIR_SYNC;
		p->scratch->rates[id] =
		    steps ? scale * (float)schedule_lr(&t->spec->optimizer, step_of_table(p, t, s->r->close.step)) : 0;
	}
	e->rates = p->scratch->rates;
	e->rates_count = p->tables_end;
	return submission_enter(s, e);
}

weir_status submit_retire(struct submission *s, struct log_entry *e)
{
	const struct record *r = s->r;
	bool changes;
	if (dedup_retires(&s->p->identity, dedup_key(r->pass, r->unit), r->attempt > 0, r->retire.unit_key, &changes))
		return weir_fail(&s->err, WEIR_E_LIMIT, "partition %u: %u units closed above the low-water mark", s->p->options.id,
		                 WEIR_UNITS_OPEN_MAX);
	return changes ? submission_enter(s, e) : WEIR_OK;
}

weir_status submit_assign(struct submission *s, struct log_entry *e)
{
	bool sync;
	uint32_t table;
	weir_status status = check_sections(s->p, s->r, *s->body, &sync, &s->err);
	if (!status)
		status = check_distinct(s->p, s->r, *s->body, &s->err);
	if (status)
		return status;
	if (!sections_finite(s->p, s->r, *s->body, &table))
		return weir_fail(&s->err, WEIR_E_NOT_FINITE, "table %s: a NaN or an infinity in assigned rows",
		                 partition_table(s->p, table)->spec->name);
	return submission_enter(s, e);
}

/* The sender was told of entries up to r->resume.index in epoch r->resume.epoch. */
weir_status submit_resume(struct submission *s, struct log_entry *e)
{
	const struct record *r = s->r;
	(void)e;
	if (!epochs_hold(&s->p->epochs, r->resume.epoch, r->resume.index, s->p->applied))
		return weir_fail(&s->err, WEIR_E_STALE,
		                 "partition %u: entry %llu of epoch %llu was lost in a restart or a failover before it was stable",
		                 s->p->options.id, (unsigned long long)r->resume.index, (unsigned long long)r->resume.epoch);
	s->survives = r->resume.index;
	return WEIR_OK;
}

weir_status want_rows(struct submission *s)
{
	return rows_want(s->p, s->r, *s->body);
}

weir_status want_close(struct submission *s)
{
	struct partition *p = s->p;
	if (s->r->close.step != p->steps.closed + 1 || check_close(s) != WEIR_OK)
		return WEIR_OK;
	return steps_want(p, &(struct log_entry){.record = *s->r, .body = *s->body});
}

void note_full_disk(struct partition *p, const weir_error *err)
{
	LOG_AT(p->options.logger, LOG_ERROR, "disk full", "partition=%u %s; pushes wait until space is freed", p->options.id,
	       err->text);
	atomic_store_explicit(&p->counters.disk_full, true, memory_order_relaxed);
}

void entry_appended(struct partition *p, uint64_t index)
{
	const struct partition_host *host = &p->options.host;
	p->present = p->applied + 1 == index ? index : 0;
	if (host->ops)
		host->ops->appended(host->arg, index);
	else
		partition_commit_to(p, index);
	p->present = 0;
}

/* --- The log's memory */

struct log *partition_log(const struct partition *p)
{
	return p->options.log;
}

void partition_pin(struct partition *p, struct partition_pin *pin)
{
	pin->next = p->pins;
	p->pins = pin;
}

void partition_unpin(struct partition *p, struct partition_pin *pin)
{
	struct partition_pin **at = &p->pins;
	while (*at != pin)
		at = &(*at)->next;
	*at = pin->next;
}

void partition_release_log(struct partition *p)
{
	uint64_t first = partition_state_needs(p);
	for (const struct partition_pin *pin = p->pins; pin; pin = pin->next)
		first = pin->first < first ? pin->first : first;
	p->options.log->ops->release_below(p->options.log, first);
}
