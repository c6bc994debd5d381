/* Records in the coordinator: their bytes, the number of calls, the notices to replicas, and the
 * replacement of a lost session. */
#include <stddef.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "proto/coord/coord_memory.h"
#include "server/coord/coord_records.h"
#include "server/coord/coord_records_format.h"
#include "tests/unit/server/replication/task_queue.h"

enum { PARTITIONS = 64, SERVERS = 2 };
#define TIMEOUT_MS 1000
#define LEASE_MS   3000
#define LEDGER     0xffff

struct world;

/* A replica that reads and changes its partition's record. */
struct asker {
	struct coord_records_client client;
	uint32_t reads, changes, told; /* calls of the three callbacks */
	bool known;                    /* the last answer had this record: */
	struct replica_record record;
	struct replica_record learned;
};

struct server {
	struct world *world;
	struct task_queue *loop;
	struct coord *coord;
	struct coord_records *records;
	uint32_t sessions, ranges, txns; /* sessions opened; calls that the coordinator received */
	bool ended;
	struct asker askers[PARTITIONS];
	struct replica_record seen[PARTITIONS];
	struct assignment placed; /* the last notice, of any partition */
	uint64_t caught_up;
	struct rewind_record next; /* the last notice */
	uint32_t nexts;            /* notices of a next generation */
	uint32_t displaced;        /* notices that another process took the place */
};

struct world {
	struct clock clock;
	int64_t now_ms;
	struct coord_memory *coordinator;
	struct server servers[SERVERS];
	const char
	    /* NULL: the server registers no address. Otherwise all servers are server 0, later ones
	     * with later incarnations. */
	    *addresses[SERVERS];
	bool same_incarnation; /* all have incarnation 1 */
};

struct counted {
	struct coord base;
	struct coord *real;
	struct server *server;
};

static weir_status count_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg,
                              weir_error *err)
{
	struct counted *x = (struct counted *)c;
	x->server->ranges++;
	return coord_read(x->real, name, timeout_ms, done, arg, err);
}

static weir_status count_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                             weir_error *err)
{
	struct counted *x = (struct counted *)c;
	x->server->txns++;
	return coord_txn(x->real, txn, timeout_ms, done, arg, err);
}

static struct coord_watch *pass_watch(struct coord *c, const char *name, uint64_t revision,
                                      const struct coord_watch_handler *handler, void *arg)
{
	return coord_watch_start(((struct counted *)c)->real, name, revision, handler, arg);
}

static void close_counted(struct coord *c)
{
	struct counted *x = (struct counted *)c;
	x->server->coord = NULL;
	coord_close(x->real);
	free(x);
}

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	static const struct coord_ops ops = {.read = count_read, .txn = count_txn, .watch_start = pass_watch, .close = close_counted};
	struct server *s = arg;
	struct counted *x = calloc(1, sizeof *x);
	const struct callback_executor run_on = task_queue_executor(s->loop);
	assert_non_null(x);
	x->base.ops = &ops;
	x->server = s;
	s->sessions++;
	weir_status status = coord_memory_open(&x->real, s->world->coordinator, &run_on, options, err);
	s->coord = x->real;
	*out = &x->base;
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

static struct replica_record record_of(uint64_t revision, uint64_t epoch, uint16_t primary)
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

static int64_t now_ns(const struct clock *c)
{
	return ((const struct world *)(const void *)((const char *)c - offsetof(struct world, clock)))->now_ms * 1000000;
}

/* `hosts` false: the server has no replicas. */
static void open_server(struct world *w, uint32_t i, bool hosts, bool puts_first)
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

static struct world *create_world(void)
{
	static const struct clock_ops clock_ops = {.monotonic_ns = now_ns, .wall_ns = now_ns};
	struct world *w = calloc(1, sizeof *w);
	assert_non_null(w);
	w->clock.ops = &clock_ops;
	w->coordinator = coord_memory_create(&w->clock);
	return w;
}

static struct world *open_hosts(uint32_t hosts, bool puts_first)
{
	struct world *w = create_world();
	for (uint32_t i = 0; i < SERVERS; i++)
		open_server(w, i, i < hosts, puts_first);
	return w;
}

static struct world *open_world(bool puts_first)
{
	return open_hosts(SERVERS, puts_first);
}

static void settle(struct world *w, int64_t ms)
{
	for (const int64_t end = w->now_ms + ms; w->now_ms < end; w->now_ms += 10) {
		coord_memory_run(w->coordinator);
		for (uint32_t i = 0; i < SERVERS && w->servers[i].loop; i++)
			while (task_queue_run(w->servers[i].loop, false) > 0)
				;
	}
}

/* Two processes are server 0. The first one is registered when the second one starts. */
static struct world *open_twins(const char *first, const char *second, bool same_incarnation)
{
	struct world *w = create_world();
	w->same_incarnation = same_incarnation;
	w->addresses[0] = first;
	w->addresses[1] = second;
	open_server(w, 0, false, false);
	settle(w, 100);
	open_server(w, 1, false, false);
	settle(w, 100);
	return w;
}

static void tick(struct world *w)
{
	for (uint32_t i = 0; i < SERVERS; i++)
		coord_records_tick(w->servers[i].records);
}

static void on_ended(void *arg)
{
	((struct server *)arg)->ended = true;
}

static void close_world(struct world *w)
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

static void read_all(struct server *s)
{
	for (uint32_t p = 0; p < PARTITIONS; p++)
		coord_records_read(&s->askers[p].client);
}

static struct replica_record read_one(struct world *w, struct asker *a)
{
	const uint32_t reads = a->reads;
	coord_records_read(&a->client);
	settle(w, 10);
	assert_int_equal(a->reads, reads + 1);
	assert_true(a->known);
	return a->record;
}

/* --- Bytes */

static void a_record_is_these_bytes(void **state)
{
	(void)state;
	static const uint8_t uuid[16] = {0, 1, 2, 0xab};
	static const uint8_t bytes[] = {0x08, 1, 0x10, 0xac, 2, 0x18, 1, 0x22, 2, 0, 1, 0x28, 1};
	char prefix[WEIR_COORD_KEY_BYTES_MAX], key[WEIR_COORD_KEY_BYTES_MAX];
	struct replica_record read;
	const struct replica_record r = record_of(9, 300, 1);
	weir_error err = {0};
	coord_records_prefix(uuid, 3, prefix);
	coord_records_key(prefix, COORD_RECORDS_PARTITION, 12, key);
	assert_string_equal(key, "/weir/000102ab000000000000000000000000/3/partition/12");
	struct message *m = coord_records_pack(&r);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack(bytes, sizeof bytes, 9, &read, &err), err);
	assert_true(read.revision == 9 && read.epoch == 300 && read.primary == 1 && read.min_isr == 1);
	assert_true(member_set_equal(&read.isr, &r.isr));
}

static void keys_of_others_are_told_apart(void **state)
{
	(void)state;
	enum coord_records_kind kind;
	uint16_t id;
	assert_true(coord_records_key_read("/a/", "/a/partition/63", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_PARTITION && id == 63);
	assert_true(coord_records_key_read("/a/", "/a/partition/65535", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_PARTITION && id == LEDGER);
	assert_true(coord_records_key_read("/a/", "/a/hosts/7", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_HOSTS && id == 7);
	assert_true(coord_records_key_read("/a/", "/a/server/255", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_SERVER && id == 255);
	assert_true(coord_records_key_read("/a/", "/a/start/255", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_START && id == 255);
	assert_true(coord_records_key_read("/a/", "/a/next", 64, &kind, &id));
	assert_true(kind == COORD_RECORDS_NEXT && id == 0);
	static const char *const others[] = {"/a/partition/64",
	                                     "/a/partition/065",
	                                     "/a/partition/",
	                                     "/a/partition/x",
	                                     "/a/partition/1x",
	                                     "/b/partition/1",
	                                     "/a/partition/-1",
	                                     "/a/partition/65536",
	                                     "/a/partition/ 1",
	                                     "/a/hosts/64",
	                                     "/a/server/256",
	                                     "/a/start/256",
	                                     "/a/",
	                                     "/a/partition/1/2",
	                                     "/a/partitions/1",
	                                     "/a/generation",
	                                     "/a/next/",
	                                     "/a/next0",
	                                     "/a/next/1"};
	for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_false(coord_records_key_read("/a/", others[i], 64, &kind, &id));
}

static struct assignment hosts_of(uint64_t revision, uint16_t a, uint16_t b)
{
	struct assignment r = {.revision = revision, .primary = b, .epoch = 300};
	member_set_add(&r.hosts, a);
	member_set_add(&r.hosts, b);
	return r;
}

static void hosts_are_these_bytes(void **state)
{
	(void)state;
	static const uint8_t bytes[] = {0x08, 1, 0x12, 2, 1, 3, 0x18, 3, 0x20, 0xac, 2}, elsewhere[] = {0x08, 1, 0x12, 1, 1, 0x18, 3},
	                     none[] = {0x08, 1, 0x18, 3}, newer[] = {0x08, 2, 0x12, 1, 1};
	const struct assignment r = hosts_of(0, 1, 3);
	struct assignment read;
	weir_error err = {0};
	struct message *m = coord_records_pack_assignment(&r);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack_assignment(bytes, sizeof bytes, 9, &read, &err), err);
	assert_true(read.revision == 9 && read.epoch == 300 && read.primary == 3 && member_set_equal(&read.hosts, &r.hosts));
	assert_int_equal(coord_records_unpack_assignment(elsewhere, sizeof elsewhere, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_int_equal(coord_records_unpack_assignment(none, sizeof none, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_int_equal(coord_records_unpack_assignment(newer, sizeof newer, 1, &read, NULL), WEIR_E_VERSION);
}

static void assert_refused(struct replica_record r, weir_status expected)
{
	struct message *m = coord_records_pack(&r);
	struct replica_record read;
	assert_int_equal(coord_records_unpack(m->spans[0].data, m->bytes, 1, &read, NULL), expected);
	message_release(m);
}

static void what_cannot_be_is_refused(void **state)
{
	(void)state;
	static const uint8_t newer[] = {0x08, 2}, cut[] = {0x08};
	struct replica_record r = record_of(1, 1, 0), read;
	assert_int_equal(coord_records_unpack(newer, sizeof newer, 1, &read, NULL), WEIR_E_VERSION);
	assert_int_equal(coord_records_unpack(cut, sizeof cut, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_int_equal(coord_records_unpack("", 0, 1, &read, NULL), WEIR_E_CORRUPT);
	assert_refused(record_of(1, 1, 2), WEIR_E_CORRUPT); /* the primary is not in sync */
	assert_refused(record_of(1, 1ull << 32, 0), WEIR_E_CORRUPT);
	r.min_isr = 0;
	assert_refused(r, WEIR_E_CORRUPT);
	r = record_of(1, 1, 0);
	r.isr.ids[1] = 0; /* a duplicate */
	assert_refused(r, WEIR_E_CORRUPT);
	r.isr.ids[1] = WEIR_SERVERS_MAX;
	assert_refused(r, WEIR_E_CORRUPT);
	r.isr.count = 0;
	assert_refused(r, WEIR_E_CORRUPT);
}

/* --- Asking */

static void the_first_record_is_put_once(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	read_all(&w->servers[0]);
	read_all(&w->servers[1]);
	settle(w, 100);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		const struct asker *a = &w->servers[0].askers[p], *b = &w->servers[1].askers[p];
		assert_true(a->reads == 1 && a->known && b->reads == 1 && b->known);
		assert_true(a->record.revision == b->record.revision && a->record.primary == MEMBER_NONE);
	}
	close_world(w);
}

static void a_replica_that_may_not_say_puts_nothing(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	read_all(&w->servers[0]);
	settle(w, 100);
	assert_int_equal(w->servers[0].txns, 0);
	assert_true(w->servers[0].askers[0].reads == 1 && !w->servers[0].askers[0].known);
	close_world(w);
}

static void all_are_read_at_once(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	read_all(&w->servers[0]);
	settle(w, 100);
	const uint32_t before = w->servers[0].ranges;
	read_all(&w->servers[0]);
	settle(w, 100);
	assert_int_equal(w->servers[0].ranges, before + 1);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		assert_true(w->servers[0].askers[p].reads == 2 && w->servers[0].askers[p].known);
	close_world(w);
}

static void a_change_by_another_teaches(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct asker *a = &w->servers[0].askers[3], *b = &w->servers[1].askers[3];
	const struct replica_record first = read_one(w, a);
	const uint32_t told = b->told;
	coord_memory_freeze(w->servers[1].coord, true);
	struct replica_record next = record_of(first.revision, 1, 0);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	assert_true(a->changes == 1 && a->known && a->record.primary == 0 && a->record.revision > first.revision);
	assert_int_equal(a->learned.revision, a->record.revision); /* by the watch, too */
	next.primary = 1;
	coord_records_change(&b->client, &next);
	settle(w, 10);
	assert_true(b->changes == 1 && b->known && b->told == told);
	assert_true(b->record.primary == 0 && b->record.revision == a->record.revision);
	coord_memory_freeze(w->servers[1].coord, false);
	settle(w, 10);
	assert_int_equal(b->learned.revision, a->record.revision);
	close_world(w);
}

static void nobody_knows_when_the_coordinator_is_away(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct server *s = &w->servers[0];
	const struct replica_record first = read_one(w, &s->askers[0]);
	const struct replica_record next = record_of(first.revision, 1, 0);
	coord_memory_down(w->coordinator, true);
	coord_records_read(&s->askers[1].client);
	coord_records_change(&s->askers[0].client, &next);
	settle(w, TIMEOUT_MS - 100);
	assert_true(s->askers[1].reads == 0 && s->askers[0].changes == 0);
	settle(w, 200);
	assert_true(s->askers[1].reads == 1 && !s->askers[1].known);
	assert_true(s->askers[0].changes == 1 && !s->askers[0].known);
	coord_memory_down(w->coordinator, false);
	assert_int_equal(read_one(w, &s->askers[0]).revision, first.revision);
	close_world(w);
}

static void what_a_watch_has_missed_is_read(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct asker *a = &w->servers[0].askers[3], *b = &w->servers[1].askers[3];
	const struct replica_record first = read_one(w, a), next = record_of(first.revision, 1, 0);
	coord_memory_freeze(w->servers[1].coord, true);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	coord_memory_compact(w->coordinator, coord_memory_revision(w->coordinator));
	coord_memory_freeze(w->servers[1].coord, false);
	settle(w, 10);
	assert_int_equal(b->learned.revision, a->record.revision);
	const struct replica_record after = record_of(a->record.revision, 2, 1);
	coord_records_change(&a->client, &after); /* the watch works again */
	settle(w, 10);
	assert_int_equal(b->learned.epoch, 2);
	close_world(w);
}

static void a_lost_lease_is_replaced(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct server *s = &w->servers[0];
	const struct replica_record first = read_one(w, &s->askers[3]), next = record_of(first.revision, 1, 0);
	coord_memory_delay(s->coord, 500);
	coord_records_read(&s->askers[4].client);
	settle(w, 50);
	coord_memory_expire(s->coord);
	settle(w, 50);
	assert_int_equal(s->sessions, 2);
	/* It was in progress when the lease ended. */
	assert_true(s->askers[4].reads == 1 && !s->askers[4].known);
	coord_records_change(&w->servers[1].askers[3].client, &next);
	settle(w, 20);
	assert_int_equal(s->askers[3].learned.epoch, 1);
	assert_int_equal(read_one(w, &s->askers[4]).epoch, 0);
	close_world(w);
}

static void the_watch_begins_when_the_coordinator_is_there(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct asker *a = &w->servers[0].askers[3], *b = &w->servers[1].askers[3];
	coord_memory_cut(w->servers[1].coord, true);
	settle(w, 2 * TIMEOUT_MS);
	const struct replica_record first = read_one(w, a), next = record_of(first.revision, 1, 0);
	coord_memory_cut(w->servers[1].coord, false);
	tick(w);
	settle(w, 10);
	assert_int_equal(b->learned.revision, first.revision);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	assert_int_equal(b->learned.epoch, 1);
	close_world(w);
}

static void on_put(void *arg, const struct coord_answer *answer)
{
	(void)arg;
	assert_true(!answer->status && answer->applied);
}

static void a_record_that_is_not_understood_is_none(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct server *s = &w->servers[0];
	static const uint8_t uuid[16] = "authority";
	char prefix[WEIR_COORD_KEY_BYTES_MAX], key[WEIR_COORD_KEY_BYTES_MAX];
	coord_records_prefix(uuid, 7, prefix);
	coord_records_key(prefix, COORD_RECORDS_PARTITION, 3, key);
	const struct coord_change change = {.key = key, .value = "?", .value_bytes = 1};
	const struct coord_txn txn = {.changes = &change, .changes_count = 1};
	assert_int_equal(coord_txn(s->coord, &txn, TIMEOUT_MS, on_put, NULL, NULL), WEIR_OK);
	settle(w, 10);
	read_all(s);
	settle(w, 10);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		assert_true(s->askers[p].reads == 1 && s->askers[p].known == (p != 3));
	assert_int_equal(s->askers[3].told, 0);
	close_world(w);
}

struct placed {
	struct coord_records_placing change;
	uint32_t ended;
};

static void on_placing_ended(struct coord_records_placing *change)
{
	((struct placed *)change->arg)->ended++;
}

static weir_status place(struct world *w, struct server *s, uint16_t partition, struct assignment record)
{
	struct placed p = {.change = {.partition = partition,
	                              .record = record,
	                              .run_on = task_queue_executor(s->loop),
	                              .done = on_placing_ended,
	                              .arg = &p}};
	coord_records_place(s->records, &p.change);
	settle(w, 100);
	assert_int_equal(p.ended, 1);
	return p.change.status;
}

/* The second of two changes from the same revision is refused. Every server learns the first
 * one. */
static void hosts_are_changed_by_one_at_a_time(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	assert_int_equal(place(w, &w->servers[0], 5, hosts_of(0, 0, 1)), WEIR_OK);
	for (uint32_t i = 0; i < SERVERS; i++)
		assert_true(w->servers[i].placed.revision && w->servers[i].placed.primary == 1);
	assert_int_equal(place(w, &w->servers[1], 5, hosts_of(0, 0, 2)), WEIR_E_STALE);
	assert_int_equal(w->servers[1].placed.primary, 1);
	assert_int_equal(place(w, &w->servers[1], 5, hosts_of(w->servers[1].placed.revision, 0, 2)), WEIR_OK);
	for (uint32_t i = 0; i < SERVERS; i++)
		assert_int_equal(w->servers[i].placed.primary, 2);
	close_world(w);
}

/* A server without replicas learns every record, and up to which revision it has seen them. */
static void every_record_is_seen_by_all(void **state)
{
	(void)state;
	struct world *w = open_hosts(1, true);
	struct server *host = &w->servers[0], *other = &w->servers[1];
	read_all(host);
	settle(w, 100);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		assert_int_equal(other->seen[p].revision, host->askers[p].record.revision);
	struct replica_record next = host->askers[3].record;
	next.primary = 1;
	next.epoch = 5;
	coord_records_change(&host->askers[3].client, &next);
	settle(w, 100);
	assert_true(host->seen[3].epoch == 5 && host->seen[3].primary == 1);
	assert_true(other->seen[3].epoch == 5 && other->seen[3].primary == 1);
	assert_int_equal(other->seen[3].revision, host->askers[3].record.revision);
	assert_int_equal(other->caught_up, coord_memory_revision(w->coordinator));
	close_world(w);
}

/* --- The next generation */

static struct rewind_record next_of(uint64_t generation, const char *checkpoint)
{
	struct rewind_record r = {.generation = generation, .step = 300, .why = "lost"};
	snprintf(r.checkpoint, sizeof r.checkpoint, "%s", checkpoint);
	return r;
}

static bool same_next(const struct rewind_record *a, const struct rewind_record *b)
{
	return a->generation == b->generation && a->step == b->step && strcmp(a->checkpoint, b->checkpoint) == 0 &&
	       strcmp(a->why, b->why) == 0;
}

static void the_next_generation_is_these_bytes(void **state)
{
	(void)state;
	static const uint8_t uuid[16] = {0xab},
	                     bytes[] = {0x08, 1, 0x10, 8, 0x1a, 2, 'c', 'k', 0x20, 0xac, 2, 0x2a, 4, 'l', 'o', 's', 't'},
	                     newer[] = {0x08, 2, 0x10, 8, 0x1a, 2, 'c', 'k'}, nothing[] = {0x08, 1, 0x10, 8};
	char prefix[WEIR_COORD_KEY_BYTES_MAX], key[WEIR_COORD_KEY_BYTES_MAX];
	const struct rewind_record r = next_of(8, "ck");
	struct rewind_record read;
	weir_error err = {0};
	coord_records_prefix(uuid, 7, prefix);
	coord_records_key(prefix, COORD_RECORDS_NEXT, 0, key);
	assert_string_equal(key, "/weir/ab000000000000000000000000000000/7/next");
	struct message *m = coord_records_pack_next(&r);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack_next(bytes, sizeof bytes, 7, &read, &err), err);
	assert_true(same_next(&read, &r));
	assert_int_equal(coord_records_unpack_next(bytes, sizeof bytes, 8, &read, &err),
	                 WEIR_E_CORRUPT); /* generation 8 cannot follow itself */
	assert_int_equal(coord_records_unpack_next(nothing, sizeof nothing, 7, &read, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "generation 8 cannot follow generation 7");
	assert_int_equal(coord_records_unpack_next(newer, sizeof newer, 7, &read, &err), WEIR_E_VERSION);
	assert_int_equal(coord_records_unpack_next(bytes, 5, 7, &read, &err), WEIR_E_CORRUPT);
}

static void note_succession(struct coord_records_succession *x)
{
	*(bool *)x->arg = true;
}

static void say_next(struct server *s, struct coord_records_succession *x, const struct rewind_record *r, bool *done)
{
	*done = false;
	*x = (struct coord_records_succession){
	    .record = *r, .run_on = task_queue_executor(s->loop), .done = note_succession, .arg = done};
	coord_records_succeed(s->records, x);
}

static void a_generation_is_followed_by_one_other(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct coord_records_succession x[SERVERS];
	bool done[SERVERS];
	const struct rewind_record first = next_of(8, "ck-first"), second = next_of(8, "ck-second");
	settle(w, 100);
	assert_int_equal(w->servers[0].nexts, 0);
	say_next(&w->servers[0], &x[0], &first, &done[0]); /* both at once */
	say_next(&w->servers[1], &x[1], &second, &done[1]);
	settle(w, 100);
	assert_true(done[0] && done[1]);
	const uint32_t late = x[0].status == WEIR_E_EXISTS ? 0 : 1;
	assert_int_equal(x[1 - late].status, WEIR_OK);
	assert_int_equal(x[late].status, WEIR_E_EXISTS);
	assert_true(same_next(&x[late].record, &x[1 - late].record));
	for (uint32_t i = 0; i < SERVERS; i++)
		assert_true(w->servers[i].nexts > 0 && same_next(&w->servers[i].next, &x[0].record));
	close_world(w);
}

static void nobody_knows_what_follows_while_the_coordinator_is_away(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct coord_records_succession x;
	bool done;
	const struct rewind_record next = next_of(8, "ck");
	settle(w, 100);
	coord_memory_down(w->coordinator, true);
	say_next(&w->servers[0], &x, &next, &done);
	settle(w, TIMEOUT_MS + 100);
	assert_true(done);
	assert_int_equal(x.status, WEIR_E_UNAVAILABLE);
	coord_memory_down(w->coordinator, false);
	settle(w, 100);
	say_next(&w->servers[0], &x, &next, &done);
	settle(w, 100);
	/* The first attempt may have succeeded. */
	assert_true(done && (x.status == WEIR_OK || x.status == WEIR_E_EXISTS));
	assert_true(same_next(&w->servers[1].next, &next));
	close_world(w);
}

/* A session that opens later reads the record. */
static void what_follows_is_read_by_whoever_comes_later(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct coord_records_succession x;
	bool done;
	const struct rewind_record next = next_of(8, "ck");
	settle(w, 100);
	coord_memory_freeze(w->servers[1].coord, true); /* its watch receives nothing */
	say_next(&w->servers[0], &x, &next, &done);
	settle(w, 100);
	assert_true(done && w->servers[0].nexts > 0);
	assert_int_equal(w->servers[1].nexts, 0);
	coord_memory_expire(w->servers[1].coord);
	tick(w);
	settle(w, 200);
	assert_true(w->servers[1].nexts > 0 && same_next(&w->servers[1].next, &next));
	close_world(w);
}

static void a_second_process_elsewhere_is_refused(void **state)
{
	(void)state;
	struct world *w = open_twins("here", "there", false);
	assert_int_equal(w->servers[0].displaced, 0);
	assert_true(w->servers[1].displaced > 0);
	close_world(w);
}

/* Both processes read the same last start, and both chose the next incarnation. */
static void a_second_process_elsewhere_is_refused_in_the_same_incarnation_too(void **state)
{
	(void)state;
	struct world *w = open_twins("here", "there", true);
	assert_int_equal(w->servers[0].displaced, 0);
	assert_true(w->servers[1].displaced > 0);
	close_world(w);
}

/* Neither process has learned of the other when it registers. */
static void of_two_processes_at_once_one_is_refused(void **state)
{
	(void)state;
	struct world *w = create_world();
	w->same_incarnation = true;
	w->addresses[0] = "here";
	w->addresses[1] = "there";
	open_server(w, 0, false, false);
	open_server(w, 1, false, false);
	settle(w, 100);
	assert_int_equal((w->servers[0].displaced > 0) + (w->servers[1].displaced > 0), 1);
	close_world(w);
}

static void a_later_start_takes_the_place(void **state)
{
	(void)state;
	struct world *w = open_twins("here", "here", false);
	assert_true(w->servers[0].displaced > 0);
	assert_int_equal(w->servers[1].displaced, 0);
	close_world(w);
}

/* The first process is paused, so it gets no notice of its successor. */
static void who_was_replaced_changes_nothing(void **state)
{
	(void)state;
	struct world *w = create_world();
	struct asker *a = &w->servers[0].askers[3];
	w->addresses[0] = w->addresses[1] = "here";
	open_server(w, 0, true, true);
	settle(w, 100);
	const struct replica_record first = read_one(w, a), next = record_of(first.revision, 1, 0);
	coord_memory_freeze(w->servers[0].coord, true);
	open_server(w, 1, false, false);
	settle(w, 100);
	assert_int_equal(w->servers[0].displaced, 0);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	assert_true(a->changes == 1 && a->record.revision == first.revision && a->record.primary == MEMBER_NONE);
	assert_true(w->servers[0].displaced > 0);
	close_world(w);
}

/* --- Marks */

static void a_mark_is_these_bytes(void **state)
{
	(void)state;
	static const uint8_t uuid[16] = {0xab}, bytes[] = {0x08, 1, 0x10, 2, 0x18, 5, 0x20, 0xac, 2},
	                     newer[] = {0x08, 2, 0x10, 2, 0x18, 5};
	char key[WEIR_COORD_KEY_BYTES_MAX];
	const struct mark some = {.generation = 2, .epoch = 5, .position = 300};
	struct mark read;
	weir_error err = {0};
	coord_records_mark_key(uuid, 17, key);
	assert_string_equal(key, "/weir/ab000000000000000000000000000000/mark/17");
	struct message *m = coord_records_pack_mark(&some);
	assert_int_equal(m->bytes, sizeof bytes);
	assert_memory_equal(m->spans[0].data, bytes, sizeof bytes);
	message_release(m);
	CHECK_OK(coord_records_unpack_mark(bytes, sizeof bytes, &read, &err), err);
	assert_true(read.generation == 2 && read.epoch == 5 && read.position == 300);
	assert_int_equal(coord_records_unpack_mark(newer, sizeof newer, &read, &err), WEIR_E_VERSION);
	assert_int_equal(coord_records_unpack_mark(bytes, 1, &read, &err), WEIR_E_CORRUPT);
}

static void note_marking(struct coord_records_marking *m)
{
	*(bool *)m->arg = true;
}

/* Moves the mark and returns the result. */
static weir_status mark(struct world *w, struct server *s, uint64_t position)
{
	bool done = false;
	struct coord_records_marking m = {.mark = {.generation = 7, .epoch = 1, .position = position},
	                                  .run_on = task_queue_executor(s->loop),
	                                  .done = note_marking,
	                                  .arg = &done};
	coord_records_mark(s->records, &m);
	settle(w, 3000);
	assert_true(done);
	return m.status;
}

static void on_mark_read(void *arg, const struct coord_answer *a)
{
	struct mark *m = arg;
	weir_error err = {0};
	assert_true(!a->status && a->count == 1);
	CHECK_OK(coord_records_unpack_mark(a->records[0].value, a->records[0].value_bytes, m, &err), err);
}

static uint64_t marked(struct world *w, struct server *s)
{
	char key[WEIR_COORD_KEY_BYTES_MAX];
	struct mark m = {0};
	weir_error err = {0};
	coord_records_mark_key((const uint8_t *)"authority\0\0\0\0\0\0", 0, key);
	CHECK_OK(coord_read(s->coord, key, TIMEOUT_MS, on_mark_read, &m, &err), err);
	settle(w, 100);
	return m.position;
}

static void a_mark_is_moved_by_the_last_start_alone(void **state)
{
	(void)state;
	struct world *w = create_world();
	struct server *first = &w->servers[0], *second = &w->servers[1];
	w->addresses[0] = w->addresses[1] = "here";
	open_server(w, 0, false, false);
	settle(w, 100);
	assert_int_equal(mark(w, first, 10), WEIR_OK);
	assert_int_equal(mark(w, first, 20), WEIR_OK);
	coord_memory_freeze(first->coord, true); /* it receives no notice of the second process */
	open_server(w, 1, false, false);
	settle(w, 100);
	assert_int_equal(mark(w, first, 30), WEIR_E_UNAVAILABLE);
	assert_int_equal(marked(w, second), 20);
	assert_int_equal(mark(w, second, 40), WEIR_E_UNAVAILABLE); /* it learns of the existing mark */
	assert_int_equal(mark(w, second, 40), WEIR_OK);
	assert_int_equal(marked(w, second), 40);
	coord_memory_down(w->coordinator, true);
	assert_int_equal(mark(w, second, 50), WEIR_E_UNAVAILABLE);
	coord_memory_down(w->coordinator, false);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_record_is_these_bytes),
	                                   cmocka_unit_test(a_mark_is_these_bytes),
	                                   cmocka_unit_test(a_mark_is_moved_by_the_last_start_alone),
	                                   cmocka_unit_test(keys_of_others_are_told_apart),
	                                   cmocka_unit_test(hosts_are_these_bytes),
	                                   cmocka_unit_test(hosts_are_changed_by_one_at_a_time),
	                                   cmocka_unit_test(what_cannot_be_is_refused),
	                                   cmocka_unit_test(the_first_record_is_put_once),
	                                   cmocka_unit_test(a_replica_that_may_not_say_puts_nothing),
	                                   cmocka_unit_test(all_are_read_at_once),
	                                   cmocka_unit_test(a_change_by_another_teaches),
	                                   cmocka_unit_test(nobody_knows_when_the_coordinator_is_away),
	                                   cmocka_unit_test(what_a_watch_has_missed_is_read),
	                                   cmocka_unit_test(a_lost_lease_is_replaced),
	                                   cmocka_unit_test(the_watch_begins_when_the_coordinator_is_there),
	                                   cmocka_unit_test(a_record_that_is_not_understood_is_none),
	                                   cmocka_unit_test(every_record_is_seen_by_all),
	                                   cmocka_unit_test(the_next_generation_is_these_bytes),
	                                   cmocka_unit_test(a_generation_is_followed_by_one_other),
	                                   cmocka_unit_test(nobody_knows_what_follows_while_the_coordinator_is_away),
	                                   cmocka_unit_test(what_follows_is_read_by_whoever_comes_later),
	                                   cmocka_unit_test(a_second_process_elsewhere_is_refused),
	                                   cmocka_unit_test(a_second_process_elsewhere_is_refused_in_the_same_incarnation_too),
	                                   cmocka_unit_test(of_two_processes_at_once_one_is_refused),
	                                   cmocka_unit_test(a_later_start_takes_the_place),
	                                   cmocka_unit_test(who_was_replaced_changes_nothing)};
	return cmocka_run_group_tests_name("coord_records", tests, NULL, NULL);
}
