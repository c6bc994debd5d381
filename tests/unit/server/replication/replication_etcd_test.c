/* A single copy with its records in a real etcd and production's threads. Every start begins a new
 * epoch, also after a kill. While etcd is unreachable, pushes still commit. */
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "proto/coord/coord_etcd.h"
#include "proto/rpc/rpc.h"
#include "server/replication/replication.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/proto/etcd_process.h"
#include "tests/unit/server/replication/task_queue.h"

enum { PARTITION = 2 };
#define TICK_MS    20
#define LEASE_MS   2000
#define TIMEOUT_MS 1000

struct single {
	struct etcd_process etcd;
	struct rpc *rpc;
	struct rpc_loop *coord_loop, *keeper, *ticker;
	struct faulty_disk *disk;
	struct task_queue *loop;
	struct coord_records *records;
	struct vote_store *votes;
	struct replication *x;
	struct heartbeat heartbeat;
	uint64_t last, committed, epoch; /* of the log, which consists of these numbers */
	bool serves, ended, ticking;
};

/* --- The driver's subject: a log that is always durable */

static void append(struct single *s)
{
	replication_appended(s->x, ++s->last);
}

static void commit(void *subject, uint64_t index)
{
	((struct single *)subject)->committed = index;
}

static void begin(void *subject, uint64_t epoch)
{
	struct single *s = subject;
	s->epoch = epoch;
	append(s);
}

static void serve(void *subject)
{
	((struct single *)subject)->serves = true;
}

static void step_down(void *subject)
{
	((struct single *)subject)->serves = false;
}

static uint64_t durable(const void *subject)
{
	return ((const struct single *)subject)->last;
}

/* --- Start and stop */

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	struct single *s = arg;
	char url[WEIR_ADDRESS_BYTES_MAX + 16];
	snprintf(url, sizeof url, COORD_ETCD_SCHEME "%s", s->etcd.address);
	return coord_etcd_open(out, s->rpc, s->coord_loop, url, options, err);
}

static void tick(void *arg)
{
	struct single *s = arg;
	s->ticking = false;
	coord_records_tick(s->records);
	replication_tick(s->x, &s->heartbeat);
}

static void tick_later(void *arg)
{
	struct single *s = arg;
	const struct callback_executor run_on = task_queue_executor(s->loop);
	callback_executor_post(&run_on, tick, s);
}

/* Waits for a condition, with simulated time. */
static void await(struct single *s, bool (*holds)(const struct single *s))
{
	while (!holds(s)) {
		if (!s->ticking)
			rpc_loop_after(s->ticker, TICK_MS, tick_later, s);
		s->ticking = true;
		(void)task_queue_run(s->loop, true);
	}
}

static void open_votes(struct single *s)
{
	weir_error err = {0};
	const struct vote_store_options o = {.disk = faulty_disk_interface(s->disk),
	                                     .path = "folder/PROMISES",
	                                     .id = "etcd",
	                                     .machine_boot = "boot",
	                                     .partitions = PARTITION + 1,
	                                     .log = VOTE_LOG_CACHED};
	CHECK_OK(vote_store_open(&s->votes, &o, &err), err);
}

static void start(struct single *s)
{
	static const struct replication_subject_ops subject = {
	    .commit = commit, .begin = begin, .serve = serve, .step_down = step_down, .durable = durable};
	weir_error err = {0};
	s->loop = task_queue_create();
	s->coord_loop = rpc_loop_create(s->rpc, "coord", &err);
	s->keeper = rpc_loop_create(s->rpc, "keeper", &err);
	s->ticker = rpc_loop_create(s->rpc, "ticker", &err);
	const struct coord_records_options a = {.uuid = "etcd",
	                                        .generation = 1,
	                                        .partitions = PARTITION + 1,
	                                        .session = rpc_loop_executor(s->coord_loop),
	                                        .keeper = rpc_loop_executor(s->keeper),
	                                        .open = open_session,
	                                        .arg = s,
	                                        .lease_ms = LEASE_MS,
	                                        .timeout_ms = TIMEOUT_MS};
	CHECK_OK(coord_records_create(&s->records, &a, &err), err);
	open_votes(s);
	struct replication_options o = {.partition = PARTITION,
	                                .replica = {.incarnation = vote_store_incarnation(s->votes),
	                                            .alone = true,
	                                            .silent_ticks = 5,
	                                            .stall_ticks = 20,
	                                            .retry_ticks = 2},
	                                .primary = MEMBER_NONE,
	                                .min_isr = 1,
	                                .subject = {&subject, s},
	                                .records = s->records,
	                                .votes = s->votes,
	                                .run_on = task_queue_executor(s->loop),
	                                .failed = check_no_error};
	struct replica_found found = {.first = 1, .last = s->last, .durable = s->last, .applied = s->last};
	if (s->last)
		epochs_begin(&found.epochs, s->epoch, 1);
	member_set_add(&o.hosts, 0);
	s->x = replication_create(&o, &found);
	assert_non_null(s->x);
}

static void ended(void *arg)
{
	((struct single *)arg)->ended = true;
}

static void on_ended(void *arg)
{
	struct single *s = arg;
	const struct callback_executor run_on = task_queue_executor(s->loop);
	callback_executor_post(&run_on, ended, s);
}

static bool has_ended(const struct single *s)
{
	return s->ended;
}

static bool does_not_tick(const struct single *s)
{
	return !s->ticking;
}

static void stop(struct single *s)
{
	await(s, does_not_tick);
	replication_stop(s->x);
	coord_records_close(s->records, on_ended, s);
	while (!has_ended(s))
		(void)task_queue_run(s->loop, true);
	vote_store_close(s->votes, false);
	while (task_queue_run(s->loop, false) > 0)
		;
	coord_records_destroy(s->records);
	replication_destroy(s->x);
	rpc_loop_destroy(s->coord_loop);
	rpc_loop_destroy(s->keeper);
	rpc_loop_destroy(s->ticker);
	task_queue_destroy(s->loop);
	s->serves = s->ended = false;
}

static struct single *open_single(void)
{
	struct single *s = calloc(1, sizeof *s);
	assert_non_null(s);
	etcd_process_prepare(&s->etcd);
	etcd_process_start(&s->etcd);
	s->rpc = rpc_grpc_create(NULL);
	s->disk = faulty_disk_create();
	return s;
}

static void close_single(struct single *s)
{
	rpc_destroy(s->rpc);
	faulty_disk_destroy(s->disk);
	etcd_process_end(&s->etcd);
	free(s);
}

/* --- Tests */

static bool serves(const struct single *s)
{
	return s->serves;
}

static void every_start_begins_an_epoch(void **state)
{
	(void)state;
	struct single *s = open_single();
	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		start(s);
		await(s, serves);
		assert_int_equal(s->epoch, epoch);
		append(s);
		assert_int_equal(s->committed, 2 * epoch);
		stop(s);
	}
	close_single(s);
}

static void pushes_go_on_without_etcd_and_a_start_waits_for_it(void **state)
{
	(void)state;
	struct single *s = open_single();
	start(s);
	await(s, serves);
	etcd_process_kill(&s->etcd);
	for (uint32_t i = 0; i < 100; i++)
		append(s);
	assert_int_equal(s->committed, 101);
	stop(s);
	start(s);
	etcd_process_start(&s->etcd);
	await(s, serves);
	assert_int_equal(s->epoch, 2);
	assert_int_equal(s->committed, 102);
	stop(s);
	close_single(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_start_begins_an_epoch),
	                                   cmocka_unit_test(pushes_go_on_without_etcd_and_a_start_waits_for_it)};
	return cmocka_run_group_tests_name("replication_etcd", tests, NULL, NULL);
}
