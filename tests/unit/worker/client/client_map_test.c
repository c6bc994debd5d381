/* Partitions move while trainers work: every batch counts once, wherever it was when its partition
 * moved. A partition without a server ends in an error. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/prng.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/move_scene.h"

/* Three times a client's patience, for a slow machine. */
enum { PATIENCE_TEST_MS = 3 * (WEIR_DEAD_PEER_MS + 4000) };

enum { TRAINERS = 2 };

/* Lengthens the patience: on a busy machine a partition may have no server for a while. */
static void be_patient(weir_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->patience_ms = PATIENCE_MS;
	pthread_mutex_unlock(&c->lock);
}

/* --- Moving partitions */

struct traffic {
	struct mover mover;
	struct trainer_thread *trainers; /* (TRAINERS) */
	pthread_t id;
	uint64_t seed;
	uint32_t moves;
	atomic_bool stop;
};

static uint64_t changes_of_all(const struct traffic *t)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < TRAINERS; i++)
		sum += changes(t->trainers[i].trainer.client);
	return sum;
}

/* A move starts when something was pushed since the last. Sometimes the partition has no server
 * until clients have made several attempts, or only the right server knows of the move. */
static void move_one(struct traffic *t, struct prng *random)
{
	struct cluster *c = t->mover.cluster;
	const uint32_t partition = (uint32_t)prng_below(random, c->partitions);
	const uint32_t to = (uint32_t)prng_below(random, c->servers_count), from = t->mover.place[partition];
	if (prng_below(random, 4)) {
		mover_move(&t->mover, partition, to);
		return;
	}
	mover_take(&t->mover, partition);
	const uint64_t enough = changes_of_all(t) + prng_below(random, 2 * TRAINERS);
	AWAIT(changes_of_all(t) >= enough || atomic_load(&t->stop), "nobody has noticed that partition %u is nowhere", partition);
	mover_give(&t->mover, partition, to);
	mover_tell(&t->mover, to);
	if (from != to)
		mover_drop_old(&t->mover, partition, from);
}

static void *traffic_main(void *arg)
{
	struct traffic *t = arg;
	struct prng random;
	prng_seed(&random, t->seed);
	for (uint64_t pushed, seen = 0;; seen = pushed) {
		AWAIT((pushed = cluster_bytes_pushed(t->mover.cluster)) != seen || atomic_load(&t->stop), "nobody pushes");
		if (atomic_load(&t->stop))
			return NULL;
		move_one(t, &random);
		t->moves++;
	}
}

static void train_while_moving(uint64_t seed, weir_mode mode)
{
	struct cluster c;
	struct trainer_thread trainers[TRAINERS];
	struct traffic traffic = {.trainers = trainers, .seed = seed};
	cluster_start(&c, &(struct cluster_options){.servers = 3, .partitions = 6});
	threads_open(trainers, TRAINERS, &c, mode);
	for (uint32_t i = 0; i < TRAINERS; i++)
		be_patient(trainers[i].trainer.client);
	mover_open(&traffic.mover, &c);
	assert_int_equal(pthread_create(&traffic.id, NULL, traffic_main, &traffic), 0);
	threads_train(trainers, TRAINERS);
	atomic_store(&traffic.stop, true);
	pthread_join(traffic.id, NULL);
	assert_true(traffic.moves > 10);
	assert_true(changes_of_all(&traffic) > 10);
	assert_int_equal(cluster_audit(&c).workers_lost, 0); /* no worker noticed more than a pause */
	assert_audit(&c);
	if (mode.kind == WEIR_ASYNC)
		assert_sums(&trainers[0].trainer);
	else if (!mode.backup) /* a step takes the mean of its batches */
		assert_int_equal(cluster_audit(&c).dropped, 0);
	threads_close(trainers, TRAINERS);
	cluster_stop(&c);
}

static void asynchronous_pushes_follow_their_partitions(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		train_while_moving(seed, (weir_mode){WEIR_ASYNC});
}

static void steps_close_wherever_their_partitions_are(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		train_while_moving(seed, (weir_mode){WEIR_SYNC, .backup = seed % 2});
}

static void *train_main(void *arg)
{
	struct trainer_thread *t = arg;
	t->status = train(&t->trainer, UINT32_MAX, &t->err);
	return NULL;
}

static void a_unit_is_sealed_in_a_partition_that_is_between_servers(void **state)
{
	(void)state;
	struct cluster c;
	struct mover m;
	struct trainer first;
	struct trainer_thread second;
	weir_unit u;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){.servers = 2, .partitions = 4, .lease_ms = 2000});
	mover_open(&m, &c);
	trainer_open(&first, &c, "first", (weir_mode){WEIR_ASYNC});
	trainer_lease(&first, &u);
	for (uint32_t batch = 0; batch < 3; batch++)
		assert_ok(run_batch(&first, &u, batch, &err), &err);
	trainer_abandon(&first);
	/* the ledger leases that unit next */
	AWAIT(cluster_audit(&c).leases_expired > 0, "the lease has not run out");
	threads_open(&second, 1, &c, (weir_mode){WEIR_ASYNC});
	mover_take(&m, 1);
	mover_take(&m, 2);
	assert_int_equal(pthread_create(&second.id, NULL, train_main, &second), 0);
	await_changes(second.trainer.client, 2);
	mover_give(&m, 1, 0);
	mover_give(&m, 2, 1);
	mover_tell(&m, 1);
	pthread_join(second.id, NULL);
	assert_ok(second.status, &second.err);
	mover_drop_old(&m, 1, 1);
	mover_drop_old(&m, 2, 0);
	assert_audit(&c);
	assert_sums(&second.trainer);
	threads_close(&second, 1);
	cluster_stop(&c);
}

/* An evaluator between passes makes no requests. It still learns that a dead server has no
 * partitions any more. */
static void a_client_that_only_waits_ignores_a_server_without_partitions(void **state)
{
	(void)state;
	struct scene s;
	weir_client *evaluator;
	weir_error err = {0};
	weir_unit u;
	scene_open(&s);
	const weir_options options = {.ledger = "memory:0", .name = "evaluator", .role = WEIR_EVALUATOR};
	assert_ok(client_open(&evaluator, &options, s.cluster.rpc, &err), &err);
	mover_move(&s.mover, 2, 0);
	mover_move(&s.mover, 5, 1);
	mover_tell(&s.mover, 1);
	server_destroy(s.cluster.servers[2]);
	s.cluster.servers_count = 2;
	assert_int_equal(weir_unit_lease(evaluator, &u, WEIR_DEAD_PEER_MS + 2500, &err), WEIR_E_TIMEOUT);
	weir_abandon(evaluator);
	scene_close(&s);
}

static int count_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	(void)key, (void)values, (void)elements;
	++*(uint32_t *)arg;
	return 0;
}

static void a_scan_finds_a_partition_that_has_moved(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	uint64_t keys[KEY_SPACE];
	static float values[KEY_SPACE * WIDTH];
	uint32_t rows = 0;
	scene_open(&s);
	for (uint64_t k = 0; k < KEY_SPACE; k++)
		keys[k] = k;
	assert_ok(weir_assign(s.trainer.client, s.trainer.embedding, keys, KEY_SPACE, values, &err), &err);
	mover_move(&s.mover, 1, 2);
	mover_move(&s.mover, 5, 0);
	assert_ok(weir_scan(s.trainer.client, s.trainer.embedding, 0, count_row, &rows, &err), &err);
	assert_int_equal(rows, KEY_SPACE);
	scene_close(&s);
}

enum { WIDE_ROWS = 24 }; /* wide enough for several pages in each of two partitions */

struct scan {
	struct mover mover;
	uint32_t rows;
};

static int move_at_first_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	struct scan *s = arg;
	(void)key, (void)values, (void)elements;
	if (s->rows++ == 0)
		mover_move(&s->mover, 0, 1);
	return 0;
}

static void a_scan_does_not_follow_a_partition_between_two_pages(void **state)
{
	(void)state;
	struct cluster c;
	struct scan s = {.rows = 0};
	weir_error err = {0};
	static const float values[WEIR_ROW_WIDTH_MAX];
	uint32_t rows = 0;
	cluster_start(&c, &(struct cluster_options){.servers = 2, .partitions = 2});
	mover_open(&s.mover, &c);
	weir_client *client = cluster_trainer(&c, "worker", UNITS);
	const uint32_t table = cluster_table(client, "wide", WEIR_EMBEDDING, WEIR_ROW_WIDTH_MAX, (weir_mode){WEIR_ASYNC});
	for (uint64_t key = 0; key < WIDE_ROWS; key++)
		assert_ok(weir_assign(client, table, &key, 1, values, &err), &err);
	assert_int_equal(weir_scan(client, table, 0, move_at_first_row, &s, &err), WEIR_E_MOVED);
	assert_non_null(strstr(err.text, "scan it again"));
	assert_in_range(s.rows, 1, WIDE_ROWS / 2);
	assert_ok(weir_scan(client, table, 0, count_row, &rows, &err), &err);
	assert_int_equal(rows, WIDE_ROWS);
	weir_abandon(client);
	cluster_stop(&c);
}

/* --- A server beyond its credit */

enum { MANY_PARTITIONS = 96, MANY_KEYS = 1024, CROWDED = 2 /* CROWDED: a server */ };
enum { AHEAD = 24 }; /* batches: 768 requests for each server, more than half of the credit */

struct many {
	sem_t done;
	atomic_uint failed;
};

static void many_done(void *arg, weir_ticket ticket, weir_status status, const char *text)
{
	struct many *m = arg;
	(void)ticket;
	if (status)
		fprintf(stderr, "%s\n", text);
	atomic_fetch_add(&m->failed, status != WEIR_OK);
	sem_post(&m->done);
}

/* Returns true once more requests than its credit are for the crowded server and at least half of
 * it has been sent. */
static bool is_crowded(weir_client *c, uint32_t *sent)
{
	pthread_mutex_lock(&c->lock);
	const uint32_t waiting = c->links[CROWDED]->push.requests;
	*sent = c->links[CROWDED]->push.sent_requests;
	pthread_mutex_unlock(&c->lock);
	return waiting > WEIR_STREAM_CREDIT_REQUESTS && *sent >= WEIR_STREAM_CREDIT_REQUESTS / 2;
}

static void pushes_to_a_new_server_wait_for_its_credit(void **state)
{
	(void)state;
	struct cluster c;
	struct mover m;
	struct trainer t;
	weir_unit u;
	weir_error err = {0};
	static uint64_t keys[MANY_KEYS];
	static float values[MANY_KEYS * WIDTH];
	struct many many = {.failed = 0};
	struct held_loop held;
	uint32_t sent;
	cluster_start(&c, &(struct cluster_options){.servers = 3, .partitions = MANY_PARTITIONS});
	mover_open(&m, &c);
	sem_init(&many.done, 0, 0);
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	be_patient(t.client);
	assert_ok(weir_unit_lease(t.client, &u, PATIENCE_MS, &err), &err);
	assert_ok(weir_unit_begin(t.client, &u, AHEAD, &err), &err);
	for (uint32_t p = 0; p < MANY_PARTITIONS; p++)
		if (m.place[p] != CROWDED)
			mover_take(&m, p);
	for (uint32_t i = 0; i < MANY_KEYS; i++)
		keys[i] = i;
	for (uint32_t batch = 0; batch < AHEAD; batch++) {
		const weir_batch id = {.pass = u.pass, .unit = u.unit, .batch = batch, .attempt = u.attempt};
		const weir_push_item item = {.table = t.embedding, .keys = keys, .rows = MANY_KEYS, .values = values};
		assert_ok(weir_push(t.client, &id, &item, 1, NULL, many_done, &many, NULL, &err), &err);
	}
	for (uint32_t p = 0; p < MANY_PARTITIONS; p++)
		if (m.place[p] != CROWDED)
			mover_give(&m, p, CROWDED);
	held_loop_hold(&held, c.servers[CROWDED]->executors[0].loop);
	mover_tell(&m, 0);
	mover_tell(&m, 1);
	AWAIT(is_crowded(t.client, &sent), "server %u has been sent %u requests", CROWDED, sent);
	assert_in_range(sent, 1, WEIR_STREAM_CREDIT_REQUESTS);
	held_loop_release(&held);
	for (uint32_t batch = 0; batch < AHEAD; batch++)
		while (sem_wait(&many.done) != 0) /* a signal interrupts the wait */
			;
	assert_int_equal(atomic_load(&many.failed), 0);
	trainer_abandon(&t);
	sem_destroy(&many.done);
	cluster_stop(&c);
}

/* --- The end of patience */

static void a_partition_that_nobody_has_is_an_error_in_time(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	scene_open(&s);
	mover_take(&s.mover, 3);
	const int64_t before = clock_ms(clock_system());
	assert_int_equal(run_batch(&s.trainer, &s.unit, 0, &err), WEIR_E_UNAVAILABLE);
	assert_in_range(clock_ms(clock_system()) - before, WEIR_DEAD_PEER_MS, PATIENCE_TEST_MS);
	assert_non_null(strstr(err.text, "partition 3"));
	assert_non_null(strstr(err.text, "memory:0"));
	mover_give(&s.mover, 3, 1);
	mover_drop_old(&s.mover, 3, 0);
	scene_close(&s);
}

/* --- Order of map entries */

static Weir__V1__PartitionMap map_of(uint64_t revision, char **servers, uint32_t *server, uint64_t *epoch)
{
	Weir__V1__PartitionMap m = WEIR__V1__PARTITION_MAP__INIT;
	m.revision = revision;
	m.n_servers = 3;
	m.servers = servers;
	m.n_server = m.n_epoch = 6;
	m.server = server;
	m.epoch = epoch;
	return m;
}

static uint32_t place_after(weir_client *c, uint64_t revision, uint32_t server, uint64_t epoch)
{
	char *servers[3] = {"memory:0", "memory:1", "memory:2"};
	uint32_t placed[6] = {server, 1, 2, 0, 1, 2};
	uint64_t epochs[6] = {epoch};
	weir_error err = {0};
	const Weir__V1__PartitionMap m = map_of(revision, servers, placed, epochs);
	pthread_mutex_lock(&c->lock);
	weir_status status = map_take(c, &m, &err);
	const uint32_t at = c->map.places[0].server;
	pthread_mutex_unlock(&c->lock);
	assert_ok(status, &err);
	return at;
}

static void an_older_claim_changes_nothing(void **state)
{
	(void)state;
	struct scene s;
	scene_open(&s);
	weir_client *c = s.trainer.client;
	assert_int_equal(c->map.places[0].server, 0);
	assert_int_equal(place_after(c, 5, 1, 3), 1);
	assert_int_equal(place_after(c, 4, 2, 3), 1); /* same epoch, older revision */
	assert_int_equal(place_after(c, 5, 2, 3), 1);
	assert_int_equal(place_after(c, 9, 2, 2), 1); /* older epoch, newer revision */
	/* newer epoch, older revision: its server knows less of the others */
	assert_int_equal(place_after(c, 4, 2, 4), 2);
	assert_int_equal(place_after(c, 6, WEIR_SERVER_NONE, 5), 2); /* its last server */
	assert_int_equal(place_after(c, 6, 0, 5), 0);
	scene_close(&s);
}

static void a_map_that_cannot_be_is_refused(void **state)
{
	(void)state;
	struct scene s;
	char *servers[3] = {"memory:0", "memory:1", "memory:2"};
	uint32_t placed[6] = {0, 1, 2, 3, 1, 2};
	uint64_t epochs[6] = {0};
	scene_open(&s);
	weir_client *c = s.trainer.client;
	weir_error err = {0};
	Weir__V1__PartitionMap m = map_of(2, servers, placed, epochs);
	pthread_mutex_lock(&c->lock);
	assert_int_equal(map_take(c, &m, &err), WEIR_E_CORRUPT);
	assert_non_null(strstr(err.text, "partition 3 on server 3 of 3"));
	m.n_server = 5;
	assert_int_equal(map_take(c, &m, &err), WEIR_E_CORRUPT);
	assert_non_null(strstr(err.text, "the job has 6 partitions"));
	pthread_mutex_unlock(&c->lock);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(asynchronous_pushes_follow_their_partitions),
	    cmocka_unit_test(steps_close_wherever_their_partitions_are),
	    cmocka_unit_test(a_unit_is_sealed_in_a_partition_that_is_between_servers),
	    cmocka_unit_test(a_client_that_only_waits_ignores_a_server_without_partitions),
	    cmocka_unit_test(a_scan_finds_a_partition_that_has_moved),
	    cmocka_unit_test(a_scan_does_not_follow_a_partition_between_two_pages),
	    cmocka_unit_test(pushes_to_a_new_server_wait_for_its_credit),
	    cmocka_unit_test(a_partition_that_nobody_has_is_an_error_in_time),
	    cmocka_unit_test(an_older_claim_changes_nothing),
	    cmocka_unit_test(a_map_that_cannot_be_is_refused),
	};
	return cmocka_run_group_tests_name("client_map", tests, NULL, NULL);
}
