#include "server/replication/scrub.h"

#include <stddef.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/partition/partition_state.h"

#define AGAIN_MS 1000 /* between two sends of the same hash */

static const struct replica *replica_of(const struct scrub *s)
{
	return replication_replica(s->options.replication);
}

static uint32_t id_of(const struct scrub *s)
{
	return partition_id(s->options.partition);
}

/* --- Hashes that differ */

static bool is_equal(const struct scrub_hash *a, const struct scrub_hash *b)
{
	return a->rows == b->rows && a->state == b->state;
}

static uint32_t count_equal(const struct scrub_report *r, const struct scrub_hash *to)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < r->count; i++)
		count += is_equal(&r->of[i], to);
	return count;
}

static const struct scrub_hash *find(const struct scrub_report *r, uint16_t server)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->of[i].server == server)
			return &r->of[i];
	return NULL;
}

/* The replica that begins anew: the first that differs from the primary, or the primary itself if
 * more replicas agree on another hash. */
static uint16_t who_is_wrong(const struct scrub_report *r, const struct scrub_hash *own)
{
	const uint32_t agree = count_equal(r, own);
	const struct scrub_hash *other = NULL;
	for (uint32_t i = 0; i < r->count; i++) {
		if (count_equal(r, &r->of[i]) > agree)
			return own->server;
		if (!other && !is_equal(&r->of[i], own))
			other = &r->of[i];
	}
	return other->server;
}

static void accuse(const struct scrub *s, const struct scrub_hash *own, const struct scrub_hash *other)
{
	const bool rows = own->rows != other->rows, state = own->state != other->state;
	LOG_AT(s->options.logger, LOG_ERROR, "replicas differ", "partition=%u slice=%u/%u entry=%llu server=%u primary=%u what=%s",
	       id_of(s), s->round.slice.number, s->round.slice.of, (unsigned long long)s->round.report.index, other->server,
	       own->server,
	       rows && state ? "rows,state"
	       : rows        ? "rows"
	                     : "state");
}

static void compare(struct scrub *s)
{
	const struct scrub_report *r = &s->round.report;
	const struct scrub_hash *own = find(r, s->options.self);
	if (!own || r->count < 2)
		return;
	atomic_fetch_add_explicit(&s->counters.compared, 1, memory_order_relaxed);
	if (count_equal(r, own) == r->count)
		return;
	atomic_fetch_add_explicit(&s->counters.differ, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < r->count; i++)
		if (!is_equal(&r->of[i], own))
			accuse(s, own, &r->of[i]);
	const uint16_t wrong = who_is_wrong(r, own);
	const weir_status status = replication_rebuild(s->options.replication, wrong);
	LOG_AT(s->options.logger, LOG_WARN, status ? "replica cannot begin anew now" : "replica is to begin anew",
	       "partition=%u server=%u", id_of(s), wrong);
}

/* --- The primary's round */

static void answer(struct scrub *s, const struct scrub_report *report)
{
	const scrub_done_fn done = s->asked;
	s->asked = NULL;
	s->is_asked_of = false;
	if (done)
		done(s->asked_arg, report);
}

static bool is_primary_still(const struct scrub *s)
{
	return replica_serves(replica_of(s)) && replica_epoch(replica_of(s)) == s->round.epoch;
}

static void end_round(struct scrub *s)
{
	const struct scrub_report report = s->round.report;
	if (is_primary_still(s))
		compare(s);
	s->round.report.index = 0;
	if (s->is_asked_of)
		answer(s, &report);
}

/* Does not wait for replicas that have left the ISR since the round began. */
static bool is_complete(const struct scrub *s)
{
	const struct replica_record *record = replica_get_record(replica_of(s));
	bool complete = true;
	for (uint32_t i = 0; i < s->round.awaited.count; i++) {
		const uint16_t id = s->round.awaited.ids[i];
		complete &= find(&s->round.report, id) || member_set_has(&s->round.mute, id) || !member_set_has(&record->isr, id);
	}
	return complete;
}

static void add_answer(struct scrub *s, uint64_t index, const struct scrub_hash *h)
{
	struct scrub_report *r = &s->round.report;
	if (r->index != index || find(r, h->server) || r->count == WEIR_REPLICAS_MAX)
		return;
	if (h->rows || h->state)
		r->of[r->count++] = *h;
	else
		member_set_add(&s->round.mute, h->server);
	if (is_complete(s))
		end_round(s);
}

/* False: it could not begin now. */
static bool begin_round(struct scrub *s, struct row_slice slice)
{
	struct log *log = partition_log(s->options.partition);
	if (!replica_serves(replica_of(s)))
		return false;
	/* Set before, because partition_scrub may apply the entry. */
	s->round.report = (struct scrub_report){.index = log->ops->last(log) + 1};
	s->round.epoch = replica_epoch(replica_of(s));
	s->round.slice = slice;
	s->round.mute.count = 0;
	s->round.awaited = replica_get_record(replica_of(s))->isr;
	s->round.until_ms = clock_ms(s->options.clock) + WEIR_SCRUB_PATIENCE_MS;
	if (partition_scrub(s->options.partition, slice.number, slice.of))
		return true;
	s->round.report.index = 0;
	return false;
}

static void begin_asked(struct scrub *s)
{
	if (!begin_round(s, (struct row_slice){.of = 1}))
		answer(s, &(struct scrub_report){0});
	else
		s->is_asked_of = true;
}

/* The partitions of a server take turns. */
static void begin_due(struct scrub *s)
{
	const int64_t now = clock_ms(s->options.clock);
	if (s->next_ms == 0)
		s->next_ms = now + (int64_t)s->options.interval_ms * (id_of(s) % WEIR_SCRUB_SLICES + 1) / WEIR_SCRUB_SLICES;
	if (now < s->next_ms || replica_get_record(replica_of(s))->isr.count < 2)
		return;
	if (begin_round(s, (struct row_slice){.number = s->slice, .of = WEIR_SCRUB_SLICES})) {
		s->slice = (s->slice + 1) % WEIR_SCRUB_SLICES;
		s->next_ms = now + s->options.interval_ms;
	}
}

/* --- Hashes to the primary */

static void tell_again(struct scrub *s)
{
	const uint16_t primary = replica_get_record(replica_of(s))->primary;
	const struct scrub_hash *h = &s->told.hash;
	s->told.again_ms = clock_ms(s->options.clock) + AGAIN_MS;
	if (primary == s->options.self)
		add_answer(s, s->told.index, h);
	else if (primary != MEMBER_NONE)
		s->options.send(s->options.arg, &(struct replica_message){.kind = REPLICA_SCRUBBED,
		                                                          .from = h->server,
		                                                          .to = primary,
		                                                          .last = s->told.index,
		                                                          .rows = h->rows,
		                                                          .state = h->state});
}

static void tell(struct scrub *s, uint64_t index, const struct scrub_hash *h)
{
	s->told.index = index;
	s->told.hash = *h;
	s->told.until_ms = clock_ms(s->options.clock) + WEIR_SCRUB_PATIENCE_MS;
	tell_again(s);
}

static void tick_told(struct scrub *s)
{
	const int64_t now = clock_ms(s->options.clock);
	if (s->told.index && now >= s->told.until_ms)
		s->told.index = 0;
	else if (s->told.index && now >= s->told.again_ms)
		tell_again(s);
}

/* --- Ticks and requests */

void scrub_tick(struct scrub *s)
{
	if (s->stopped)
		return;
	tick_told(s);
	if (s->round.report.index && (!is_primary_still(s) || is_complete(s) || clock_ms(s->options.clock) >= s->round.until_ms))
		end_round(s);
	if (s->round.report.index)
		return;
	if (s->asked)
		begin_asked(s);
	else if (s->options.interval_ms)
		begin_due(s);
}

weir_status scrub_ask(struct scrub *s, scrub_done_fn done, void *arg)
{
	if (s->asked)
		return WEIR_E_BUSY;
	s->asked = done;
	s->asked_arg = arg;
	if (s->stopped)
		answer(s, &(struct scrub_report){0});
	else
		begin_asked(s); /* this request replaces a periodic round under way */
	return WEIR_OK;
}

void scrub_received(struct scrub *s, const struct replica_message *m)
{
	add_answer(s, m->last, &(struct scrub_hash){.server = m->from, .rows = m->rows, .state = m->state});
}

/* --- The hash of this replica */

static void on_ended(void *arg)
{
	struct scrub *s = arg;
	const uint64_t index = s->index;
	s->is_reading = false;
	s->index = 0;
	const bool is_well = s->read.status == WEIR_OK;
	if (index)
		tell(
		    s, index,
		    &(struct scrub_hash){.server = s->options.self, .rows = is_well ? s->read.rows : 0, .state = is_well ? s->state : 0});
	s->options.leave(s->options.arg);
}

static void on_ready(void *arg)
{
	struct scrub *s = arg;
	scrub_reader_ready(s->options.reader, &s->read);
}

static weir_status hash_state(const struct scrub *s, uint64_t *out)
{
	struct message *m = partition_state_export(s->options.partition);
	if (!m)
		return WEIR_E_MEMORY;
	uint64_t hash = 0;
	for (size_t i = 0; i < m->count; i++)
		hash = hash_bytes(m->spans[i].data, m->spans[i].size, hash);
	message_release(m);
	*out = hash;
	return WEIR_OK;
}

static weir_status begin_stream(struct scrub *s, struct row_slice slice, weir_error *err)
{
	const struct store_stream_options o = {.store = partition_store(s->options.partition),
	                                       .partition = id_of(s),
	                                       .cold = s->options.cold,
	                                       .slice = slice,
	                                       .yields = true,
	                                       .clock = s->options.clock,
	                                       .owner = s->options.owner,
	                                       .ready = on_ready,
	                                       .ended = on_ended,
	                                       .arg = s};
	return store_stream_begin(&s->read.stream, &o, err);
}

void scrub_applied(struct scrub *s, const struct log_entry *e, bool exact)
{
	weir_error err = {0};
	if (s->stopped)
		return;
	if (!exact || s->is_reading || hash_state(s, &s->state) ||
	    begin_stream(s, (struct row_slice){.number = (uint32_t)e->record.scrub.slice, .of = (uint32_t)e->record.scrub.slices},
	                 &err)) {
		tell(s, e->index, &(struct scrub_hash){.server = s->options.self});
		return;
	}
	s->is_reading = true;
	s->index = e->index;
	s->options.enter(s->options.arg);
	if (scrub_reader_submit(s->options.reader, &s->read)) {
		s->read.status = WEIR_E_LIMIT;
		store_stream_close(s->read.stream);
	}
}

/* --- Life */

void scrub_init(struct scrub *s, const struct scrub_options *options)
{
	memset(s, 0, sizeof *s);
	s->options = *options;
}

void scrub_cancel(struct scrub *s)
{
	if (!s->index)
		return;
	s->index = 0;
	scrub_reader_cancel(s->options.reader, &s->read);
}

void scrub_stop(struct scrub *s)
{
	if (s->stopped)
		return;
	s->stopped = true;
	scrub_cancel(s);
	answer(s, &(struct scrub_report){0});
	s->round.report.index = 0;
}
