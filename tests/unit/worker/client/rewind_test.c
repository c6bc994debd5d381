/* An integer job rewinds to a checkpoint, because both replicas of its partitions lost their logs
 * or because a user asks once. Workers of the old generation get an error; in the new one every
 * batch counts once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/coord/coord_memory.h"
#include "server/checkpoint/rewind.h"
#include "server/checkpoint/rewind_follow.h"
#include "server/cluster/roles.h"
#include "server/coord/incarnation.h"
#include "server/log/journal.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/worker/client/checkpoint_fixture.h"
#include "tests/unit/worker/client/cluster_replicas.h"

enum { SERVERS = 3, PARTITIONS = 6 };

/* --- A job */

struct scene {
	struct place place;
	struct cluster cluster;
	pthread_mutex_t lock;
	pthread_cond_t told_more;
	/* The lock guards these: */
	uint32_t told; /* servers that know of the rewind */
	struct rewind_record next;
};

static void on_succeeded(void *arg, const struct rewind_record *next)
{
	struct scene *s = arg;
	pthread_mutex_lock(&s->lock);
	if (s->told) { /* all servers get the same record */
		assert_string_equal(s->next.checkpoint, next->checkpoint);
		assert_string_equal(s->next.why, next->why);
	}
	s->next = *next;
	s->told++;
	pthread_cond_signal(&s->told_more);
	pthread_mutex_unlock(&s->lock);
}

static uint32_t told(struct scene *s)
{
	pthread_mutex_lock(&s->lock);
	const uint32_t n = s->told;
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Waits until n servers know of the rewind; returns their record. */
static struct rewind_record await_told(struct scene *s, uint32_t n)
{
	pthread_mutex_lock(&s->lock);
	while (s->told < n)
		pthread_cond_wait(&s->told_more, &s->lock);
	const struct rewind_record next = s->next;
	pthread_mutex_unlock(&s->lock);
	return next;
}

static void scene_open(struct scene *s)
{
	memset(s, 0, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->told_more, NULL);
	place_make(&s->place);
	cluster_start(&s->cluster, &(struct cluster_options){.servers = SERVERS,
	                                                     .partitions = PARTITIONS,
	                                                     .executors = 2,
	                                                     .lease_ms = 2001,
	                                                     .replicas = 2,
	                                                     .checkpoint = &s->place.options,
	                                                     .succeeded = on_succeeded,
	                                                     .succeeded_arg = s});
	/* before a server is killed: a partition with one replica in sync would wait for that server */
	cluster_await_in_sync(&s->cluster, 2);
}

static void scene_close(struct scene *s)
{
	cluster_stop(&s->cluster);
	place_remove(&s->place);
	pthread_cond_destroy(&s->told_more);
	pthread_mutex_destroy(&s->lock);
}

/* All processes restart with only the record and the coordinator. */
static void begin_anew(struct scene *s)
{
	struct cluster *c = &s->cluster;
	for (uint32_t i = 0; i < SERVERS; i++)
		cluster_kill_server(c, i);
	c->options.generation = s->next.generation;
	c->options.restore = s->next.checkpoint;
	c->options.rewound = &s->next;
	for (uint32_t i = 0; i < SERVERS; i++) {
		cluster_lose_votes(c, i);
		cluster_start_server(c, i);
	}
}

static void take(struct scene *s, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	struct asker a;
	asker_open(&a, &s->cluster);
	asker_take(&a, name);
	asker_close(&a);
}

/* --- Requests */

static struct rewind_record ask(struct scene *s, uint32_t server, uint64_t generation, const char *checkpoint,
                                weir_status expected, const char *says)
{
	Weir__V1__RewindRequest q = WEIR__V1__REWIND_REQUEST__INIT;
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	uint8_t uuid[16] = {0}; /* the cluster's id */
	char address[16];
	struct rewind_record out = {0};
	struct rpc_channel *channel;
	struct message *reply = NULL;
	ProtobufCMessage *m = NULL;
	weir_error err = {0};
	struct rpc_loop *loop = rpc_loop_create(s->cluster.rpc, "asks", &err);
	assert_non_null(loop);
	snprintf(address, sizeof address, "memory:%u", server);
	CHECK_OK(rpc_channel_open(&channel, s->cluster.rpc, loop, address, &err), err);
	job.uuid = (ProtobufCBinaryData){.len = sizeof uuid, .data = uuid};
	job.generation = generation;
	q.job = &job;
	q.checkpoint = (char *)(uintptr_t)checkpoint;
	CHECK_OK(rpc_call_wait(channel, RPC_REWIND, wire_pack(&q.base), PATIENCE_MS, &reply, &err), err);
	CHECK_OK(wire_unpack(&weir__v1__rewind_reply__descriptor, reply, &m, &err), err);
	const Weir__V1__RewindReply *r = (const Weir__V1__RewindReply *)m;
	if (r->status->code != expected)
		fail_msg("%s instead of %s: %s", weir_status_name((weir_status)r->status->code), weir_status_name(expected),
		         r->status->text);
	CHECK_CONTAINS(r->status->text, says);
	out.generation = r->generation;
	out.step = r->step;
	snprintf(out.checkpoint, sizeof out.checkpoint, "%s", r->checkpoint);
	wire_destroy(m);
	message_release(reply);
	rpc_channel_close(channel);
	rpc_loop_destroy(loop);
	return out;
}

/* --- Starting */

struct starter {
	struct scene *scene;
	struct rpc_loop *loop;
	bool ends;
	FILE *lines;    /* its log lines; NULL: discarded */
	uint32_t calls; /* calls of asked_to_end since it said that it waits */
};

enum { CALLS = 50 };

static uint32_t times_said(FILE *lines, const char *what)
{
	char text[4096];
	uint32_t n = 0;
	const ssize_t bytes = pread(fileno(lines), text, sizeof text - 1, 0);
	assert_true(bytes >= 0);
	text[bytes] = '\0';
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* A session in memory, opened and closed on its own thread, behind one on the caller's thread, as
 * for etcd. */
struct session {
	struct coord base, *real;
	const struct starter *starter;
	const struct coord_options *options;
	weir_status status; /* of the open */
	weir_error *err;
};

static void open_there(void *session)
{
	struct session *x = session;
	const struct callback_executor run_on = rpc_loop_executor(x->starter->loop);
	x->status = coord_memory_open(&x->real, x->starter->scene->cluster.coordinator, &run_on, x->options, x->err);
}

static void close_there(void *session)
{
	struct session *x = session;
	coord_close(x->real);
}

static weir_status read_there(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg,
                              weir_error *err)
{
	return coord_read(((struct session *)c)->real, name, timeout_ms, done, arg, err);
}

static weir_status txn_there(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                             weir_error *err)
{
	return coord_txn(((struct session *)c)->real, txn, timeout_ms, done, arg, err);
}

static void close_session(struct coord *c)
{
	on_loop(((struct session *)c)->starter->loop, close_there, c);
	free(c);
}

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	static const struct coord_ops ops = {.read = read_there, .txn = txn_there, .close = close_session};
	struct session *x = calloc(1, sizeof *x);
	assert_non_null(x);
	*x = (struct session){.base.ops = &ops, .starter = arg, .options = options, .err = err};
	on_loop(x->starter->loop, open_there, x);
	*out = &x->base;
	return x->status;
}

/* If its lines are read, the coordinator returns some time after the line that says it is
 * awaited. */
static bool asked_to_end(void *arg)
{
	struct starter *s = arg;
	struct coord_memory *m = s->scene->cluster.coordinator;
	if (s->lines) {
		s->calls += s->calls || times_said(s->lines, "waiting");
		if (s->calls == CALLS)
			coord_memory_down(m, false);
		coord_memory_run(m);
	}
	return s->ends;
}

/* What a server finds when it is told to serve a generation. */
static weir_status follow_and_say(struct scene *s, uint64_t generation, const char *restore, bool ends, FILE *lines,
                                  struct rewind_record *last, weir_error *err)
{
	struct starter starter = {.scene = s, .loop = rpc_loop_create(s->cluster.rpc, "coord", err), .ends = ends, .lines = lines};
	struct logger *logger = lines ? logger_create(&(struct logger_options){.out = lines, .who = "server"}) : NULL;
	assert_non_null(starter.loop);
	const struct rewind_follow_options o = {.generation = generation,
	                                        .restore = restore,
	                                        .ask = {.open = open_session,
	                                                .session = rpc_loop_executor(starter.loop),
	                                                .asked_to_end = asked_to_end,
	                                                .arg = &starter,
	                                                .logger = logger,
	                                                .coordinator = "memory"}};
	weir_status status = rewind_follow(&o, last, err);
	rpc_loop_destroy(starter.loop);
	logger_destroy(logger);
	return status;
}

static weir_status follow(struct scene *s, uint64_t generation, const char *restore, bool ends, struct rewind_record *last,
                          weir_error *err)
{
	return follow_and_say(s, generation, restore, ends, NULL, last, err);
}

/* --- Tests */

static void by_itself_when_no_full_log_is_left(void **state)
{
	(void)state;
	struct scene s;
	struct trainer t;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err = {0};
	scene_open(&s);
	trainer_open(&t, &s.cluster, "before", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, 8, &err), &err);
	take(&s, name);
	assert_ok(train(&t, 8, &err), &err);
	assert_int_equal(weir_generation(t.client), 1);
	cluster_kill_server(&s.cluster, 0);
	cluster_kill_server(&s.cluster, 1);
	assert_int_equal(told(&s), 0);
	cluster_start_server(&s.cluster, 0);
	cluster_start_server(&s.cluster, 1);
	const struct rewind_record next = await_told(&s, SERVERS);
	assert_int_equal(next.generation, 2);
	assert_string_equal(next.checkpoint, name);
	assert_int_equal(next.step, 0); /* this trainer reports no batches */
	CHECK_CONTAINS(next.why, " was lost: no server has a full log of it any more");
	begin_anew(&s);
	assert_int_equal(train(&t, UINT32_MAX, &err), WEIR_E_GENERATION);
	/* the same client cannot rejoin */
	assert_int_equal(weir_rejoin(t.client, &err), WEIR_E_GENERATION);
	trainer_abandon(&t);
	trainer_open(&t, &s.cluster, "before", (weir_mode){WEIR_ASYNC});
	assert_int_equal(weir_generation(t.client), 2);
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	assert_sums(&t);
	assert_audit(&s.cluster);
	trainer_close(&t);
	scene_close(&s);
}

/* --- A lost folder */

static bool is_told_and_serves_nothing(struct scene *s)
{
	if (told(s))
		return true;
	assert_false(cluster_replica(&s->cluster, 0, 0).serves);
	assert_false(cluster_replica(&s->cluster, 0, JOURNAL_LEDGER).serves);
	return false;
}

/* Server 0 was the last one with some entries, and they are gone: it must not start as if they had
 * never existed. */
static void by_itself_when_the_folder_of_the_last_is_gone(void **state)
{
	(void)state;
	struct scene s;
	struct trainer t;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err = {0};
	scene_open(&s);
	trainer_open(&t, &s.cluster, "before", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, 8, &err), &err);
	take(&s, name);
	cluster_kill_server(&s.cluster, 1);
	cluster_await_dropped(&s.cluster, 1);
	trainer_abandon(&t);
	cluster_kill_server(&s.cluster, 0);
	cluster_lose_votes(&s.cluster, 0);
	cluster_start_server(&s.cluster, 0);
	AWAIT(is_told_and_serves_nothing(&s), "nobody is told");
	const struct rewind_record next = await_told(&s, 1);
	assert_string_equal(next.checkpoint, name);
	cluster_start_server(&s.cluster, 1);
	(void)await_told(&s, SERVERS);
	scene_close(&s);
}

static bool is_lost(const struct scene *s, char lost[WEIR_ERROR_TEXT_BYTES])
{
	lost[0] = '\0';
	for (uint32_t i = 0; i < SERVERS && !lost[0]; i++)
		rewind_get_lost(s->cluster.servers[i]->rewind, lost);
	return lost[0] != '\0';
}

/* Then nothing can be done; the server's error says so. */
static void without_a_checkpoint_it_is_lost_for_good(void **state)
{
	(void)state;
	struct scene s;
	struct trainer t;
	char lost[WEIR_ERROR_TEXT_BYTES];
	weir_error err = {0};
	scene_open(&s);
	trainer_open(&t, &s.cluster, "before", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, 8, &err), &err);
	trainer_abandon(&t);
	for (uint32_t i = 0; i < SERVERS; i++) {
		rewind_get_lost(s.cluster.servers[i]->rewind, lost);
		assert_string_equal(lost, "");
	}
	cluster_kill_server(&s.cluster, 0);
	cluster_kill_server(&s.cluster, 1);
	cluster_start_server(&s.cluster, 0);
	cluster_start_server(&s.cluster, 1);
	AWAIT(is_lost(&s, lost), "nobody says what was lost");
	CHECK_CONTAINS(lost, " was lost: no server has a full log of it any more, and ");
	CHECK_CONTAINS(lost, " holds no checkpoint of this run: the job must begin anew");
	assert_int_equal(told(&s), 0);
	scene_close(&s);
}

/* Without the coordinator a starting server does not know its generation: it waits, says so once,
 * and continues. */
static void a_starting_server_waits_for_the_coordinator(void **state)
{
	(void)state;
	struct scene s;
	struct rewind_record last;
	weir_error err = {0};
	FILE *lines = tmpfile();
	assert_non_null(lines);
	scene_open(&s);
	coord_memory_down(s.cluster.coordinator, true);
	CHECK_OK(follow_and_say(&s, 1, NULL, false, lines, &last, &err), err);
	assert_int_equal(last.generation, 0);
	assert_int_equal(times_said(lines, "waiting"), 1);
	assert_int_equal(times_said(lines, "cluster.coord memory does not answer yet"), 1);
	fclose(lines);
	scene_close(&s);
}

static weir_status take_incarnation(struct scene *s, uint16_t server, uint64_t least, bool ends, FILE *lines,
                                    uint64_t *incarnation)
{
	static const uint8_t uuid[16] = "incarnations";
	weir_error err = {0};
	struct starter starter = {.scene = s, .loop = rpc_loop_create(s->cluster.rpc, "coord", &err), .ends = ends, .lines = lines};
	struct logger *logger = lines ? logger_create(&(struct logger_options){.out = lines, .who = "server"}) : NULL;
	const struct coord_ask_options o = {.open = open_session,
	                                    .session = rpc_loop_executor(starter.loop),
	                                    .asked_to_end = asked_to_end,
	                                    .arg = &starter,
	                                    .logger = logger,
	                                    .coordinator = "memory"};
	const weir_status status = incarnation_take(&o, uuid, server, least, incarnation, &err);
	rpc_loop_destroy(starter.loop);
	logger_destroy(logger);
	return status;
}

static uint64_t incarnation_of(struct scene *s, uint16_t server, uint64_t least)
{
	uint64_t incarnation;
	assert_int_equal(take_incarnation(s, server, least, false, NULL, &incarnation), WEIR_OK);
	return incarnation;
}

/* Incarnations grow whatever the clock says, and whether or not the previous start succeeded. */
static void a_start_is_above_all_before_it(void **state)
{
	(void)state;
	struct scene s;
	uint64_t incarnation;
	scene_open(&s);
	assert_int_equal(incarnation_of(&s, 1, 1000), 1000);
	assert_int_equal(incarnation_of(&s, 1, 1000), 1001); /* within the same ms */
	assert_int_equal(incarnation_of(&s, 1, 900), 1002);  /* the clock went back */
	assert_int_equal(incarnation_of(&s, 1, 5000), 5000);
	assert_int_equal(incarnation_of(&s, 0, 700), 700); /* a different server */
	assert_int_equal(incarnation_of(&s, 1, 1), 5001);
	coord_memory_down(s.cluster.coordinator, true);
	assert_int_equal(take_incarnation(&s, 1, 1, true, NULL, &incarnation), WEIR_E_CANCELLED);
	FILE *lines = tmpfile(); /* it waits for the coordinator */
	assert_non_null(lines);
	assert_int_equal(take_incarnation(&s, 1, 1, false, lines, &incarnation), WEIR_OK);
	assert_int_equal(incarnation, 5002);
	assert_int_equal(times_said(lines, "waiting"), 1);
	fclose(lines);
	scene_close(&s);
}

static void on_command_and_once(void **state)
{
	(void)state;
	struct scene s;
	struct trainer t;
	char first[WEIR_CHECKPOINT_NAME_BYTES_MAX], second[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	struct rewind_record last;
	weir_error err = {0};
	scene_open(&s);
	(void)ask(&s, 0, 1, "", WEIR_E_NOT_FOUND, "holds no checkpoint of this run");
	trainer_open(&t, &s.cluster, "before", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, 8, &err), &err);
	take(&s, first);
	assert_ok(train(&t, 8, &err), &err);
	take(&s, second);
	trainer_abandon(&t);
	(void)ask(&s, 0, 1, "ck-20270115T080000.123Z-abcdef01", WEIR_E_NOT_FOUND,
	          "holds no checkpoint 'ck-20270115T080000.123Z-abcdef01'");
	(void)ask(&s, 0, 2, "", WEIR_E_UNAVAILABLE, "from generation 2");
	assert_int_equal(told(&s), 0);
	assert_string_equal(ask(&s, 1, 1, first, WEIR_OK, "").checkpoint, first);
	/* any later request gets the first one's answer */
	assert_string_equal(ask(&s, 2, 1, "", WEIR_E_EXISTS, first).checkpoint, first);
	(void)await_told(&s, SERVERS);

	struct asker a; /* this generation publishes no more checkpoints */
	asker_open(&a, &s.cluster);
	asker_begin(&a);
	assert_int_equal(asker_await_end(&a), WEIR_E_GENERATION);
	asker_close(&a);

	CHECK_OK(follow(&s, 1, NULL, false, &last, &err), err);
	assert_true(last.generation == 2 && strcmp(last.checkpoint, first) == 0);
	CHECK_OK(follow(&s, 2, first, false, &last, &err), err); /* the same answer as before */
	assert_true(last.generation == 2 && strcmp(last.checkpoint, first) == 0);
	CHECK_OK(follow(&s, 2, NULL, false, &last, &err), err);
	assert_string_equal(last.checkpoint, first);
	assert_int_equal(follow(&s, 2, second, false, &last, &err), WEIR_E_STATE);
	CHECK_CONTAINS(err.text, "generation 2 of the job began with checkpoint");
	/* a job that was restored or begun, above all of those */
	CHECK_OK(follow(&s, 3, second, false, &last, &err), err);
	assert_int_equal(last.generation, 0);
	coord_memory_down(s.cluster.coordinator, true);
	assert_int_equal(follow(&s, 1, NULL, true, &last, &err), WEIR_E_CANCELLED);
	coord_memory_down(s.cluster.coordinator, false);

	begin_anew(&s);
	assert_string_equal(ask(&s, 0, 1, "", WEIR_E_EXISTS, "it was asked for").checkpoint,
	                    first); /* a client with a lost answer asks again */
	trainer_open(&t, &s.cluster, "after", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	assert_sums(&t);
	assert_audit(&s.cluster);
	trainer_close(&t);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_itself_when_no_full_log_is_left),
	    cmocka_unit_test(by_itself_when_the_folder_of_the_last_is_gone),
	    cmocka_unit_test(without_a_checkpoint_it_is_lost_for_good),
	    cmocka_unit_test(a_starting_server_waits_for_the_coordinator),
	    cmocka_unit_test(a_start_is_above_all_before_it),
	    cmocka_unit_test(on_command_and_once),
	};
	return cmocka_run_group_tests_name("rewind", tests, NULL, NULL);
}
