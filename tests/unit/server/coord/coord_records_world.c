#include "tests/unit/server/coord/coord_records_world.h"

#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "tests/unit/server/coord/counted_session.h"

#define LEASE_MS 3000

static void on_call(void *arg, enum session_call call)
{
	struct server *s = arg;
	if (call == SESSION_CLOSE)
		s->coord = NULL;
	else
		++*(call == SESSION_READ ? &s->ranges : &s->txns);
}

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	struct server *s = arg;
	const struct callback_executor run_on = task_queue_executor(s->loop);
	const struct counted_session_options counted = {
	    .coordinator = s->world->coordinator, .run_on = &run_on, .session = options, .called = on_call, .arg = s};
	s->sessions++;
	weir_status status = counted_session_open(out, &counted, err);
	s->coord = counted_session_real(*out);
	return status;
}

/* --- Askers */

static void note(struct asker *a, const struct replica_record *record)
{
	a->known = record != NULL;
	if (record)
		a->record = *record;
}

static void on_read(void *arg, const struct replica_record *record)
{
	struct asker *a = arg;
	a->reads++;
	note(a, record);
}

static void on_changed(void *arg, const struct replica_record *record)
{
	struct asker *a = arg;
	a->changes++;
	note(a, record);
}

static void on_learned(void *arg, const struct replica_record *record)
{
	struct asker *a = arg;
	assert_true(record->revision >= a->learned.revision);
	a->told++;
	a->learned = *record;
}

struct replica_record record_of(uint64_t revision, uint64_t epoch, uint16_t primary)
{
	struct replica_record r = {.revision = revision, .epoch = epoch, .primary = primary, .min_isr = 1};
	member_set_add(&r.isr, 0);
	member_set_add(&r.isr, 1);
	return r;
}

/* --- The map of the whole job */

static void on_seen(void *arg, uint16_t partition, const struct replica_record *record)
{
	struct server *s = arg;
	s->seen[partition == LEDGER ? PARTITIONS - 1 : partition] = *record;
}

static void on_placed(void *arg, uint16_t partition, const struct assignment *record)
{
	struct server *s = arg;
	(void)partition;
	s->placed = *record;
}

static void on_next(void *arg, const struct rewind_record *record)
{
	struct server *s = arg;
	s->next = *record;
	s->nexts++;
}

static void on_caught_up(void *arg, uint64_t revision)
{
	struct server *s = arg;
	assert_true(revision >= s->caught_up);
	s->caught_up = revision;
}

static void on_displaced(void *arg, const weir_error *why)
{
	struct server *s = arg;
	assert_int_equal(why->status, WEIR_E_EXISTS);
	s->displaced++;
}

/* --- The world */

void open_server(struct world *w, uint32_t i, bool hosts, bool puts_first)
{
	struct server *s = &w->servers[i];
	weir_error err = {0};
	s->world = w;
	s->loop = task_queue_create();
	const struct coord_records_options o = {.uuid = "authority",
	                                        .generation = 7,
	                                        .partitions = PARTITIONS,
	                                        .session = task_queue_executor(s->loop),
	                                        .keeper = task_queue_executor(s->loop),
	                                        .open = open_session,
	                                        .seen = on_seen,
	                                        .placed = on_placed,
	                                        .caught_up = on_caught_up,
	                                        .next = on_next,
	                                        .displaced = on_displaced,
	                                        .arg = s,
	                                        .address = w->addresses[i],
	                                        .incarnation = w->same_incarnation ? 1 : 1 + i,
	                                        .lease_ms = LEASE_MS,
	                                        .timeout_ms = TIMEOUT_MS};
	CHECK_OK(coord_records_create(&s->records, &o, &err), err);
	for (uint32_t p = 0; p < PARTITIONS && hosts; p++) {
		struct asker *a = &s->askers[p];
		*a = (struct asker){.client = {.partition = p == PARTITIONS - 1 ? LEDGER : (uint16_t)p,
		                               .run_on = task_queue_executor(s->loop),
		                               .read = on_read,
		                               .changed = on_changed,
		                               .learned = on_learned,
		                               .arg = a}};
		if (puts_first)
			a->client.first = record_of(0, 0, MEMBER_NONE);
		coord_records_join(s->records, &a->client);
	}
}

struct world *create_world(void)
{
	struct world *w = calloc(1, sizeof *w);
	assert_non_null(w);
	w->clock = manual_clock_ms(&w->now_ms);
	w->coordinator = coord_memory_create(&w->clock.base);
	return w;
}

struct world *open_hosts(uint32_t hosts, bool puts_first)
{
	struct world *w = create_world();
	for (uint32_t i = 0; i < SERVERS; i++)
		open_server(w, i, i < hosts, puts_first);
	return w;
}

struct world *open_world(bool puts_first)
{
	return open_hosts(SERVERS, puts_first);
}

void settle(struct world *w, int64_t ms)
{
	for (const int64_t end = w->now_ms + ms; w->now_ms < end; w->now_ms += 10) {
		coord_memory_run(w->coordinator);
		for (uint32_t i = 0; i < SERVERS && w->servers[i].loop; i++)
			while (task_queue_run(w->servers[i].loop, false) > 0)
				;
	}
}

void tick(struct world *w)
{
	for (uint32_t i = 0; i < SERVERS; i++)
		coord_records_tick(w->servers[i].records);
}

static void on_ended(void *arg)
{
	((struct server *)arg)->ended = true;
}

void close_world(struct world *w)
{
	for (uint32_t i = 0; i < SERVERS; i++)
		coord_records_close(w->servers[i].records, on_ended, &w->servers[i]);
	settle(w, 100);
	for (uint32_t i = 0; i < SERVERS; i++) {
		assert_true(w->servers[i].ended);
		coord_records_destroy(w->servers[i].records);
		task_queue_destroy(w->servers[i].loop);
	}
	coord_memory_destroy(w->coordinator);
	free(w);
}

struct replica_record read_one(struct world *w, struct asker *a)
{
	const uint32_t reads = a->reads;
	coord_records_read(&a->client);
	settle(w, 10);
	assert_int_equal(a->reads, reads + 1);
	assert_true(a->known);
	return a->record;
}

struct assignment hosts_of(uint64_t revision, uint16_t a, uint16_t b)
{
	struct assignment r = {.revision = revision, .primary = b, .epoch = 300};
	member_set_add(&r.hosts, a);
	member_set_add(&r.hosts, b);
	return r;
}

struct rewind_record next_of(uint64_t generation, const char *checkpoint)
{
	struct rewind_record r = {.generation = generation, .step = 300, .why = "lost"};
	snprintf(r.checkpoint, sizeof r.checkpoint, "%s", checkpoint);
	return r;
}

bool same_next(const struct rewind_record *a, const struct rewind_record *b)
{
	return a->generation == b->generation && a->step == b->step && strcmp(a->checkpoint, b->checkpoint) == 0 &&
	       strcmp(a->why, b->why) == 0;
}
