/* Checkpoints of a job whose pushes are whole numbers: whichever moment one is of, and on however many servers it is restored, the job ends with every
 * batch applied once. Over the in-memory transport, so that threads and memory are checked too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint_manifest.h"
#include "checkpoint_take.h"
#include "integer_trainer.h"

#define CHECKPOINTS_MAX 3u /* every file of one is synced */

struct place {
	char folder[64];
	struct checkpoint_options options;
};

static void place_make(struct place *p)
{
	snprintf(p->folder, sizeof p->folder, "/tmp/weir-ckjob-XXXXXX");
	assert_non_null(mkdtemp(p->folder));
	p->options = (struct checkpoint_options){.place = p->folder, .job = "integers", .keep = 1000};
}

static void place_remove(const struct place *p)
{
	char command[128];
	snprintf(command, sizeof command, "rm -r %s", p->folder);
	assert_int_equal(system(command), 0);
}

/* --- A client of RPC_CHECKPOINT */

struct asker {
	struct rpc_loop *loop;
	struct rpc_channel *channel;
};

static void asker_open(struct asker *a, struct cluster *c)
{
	weir_error err = {0};
	a->loop = rpc_loop_create(c->rpc, "asker", &err);
	assert_non_null(a->loop);
	assert_ok(rpc_channel_open(&a->channel, c->rpc, a->loop, "memory:0", &err), &err);
}

static void asker_close(struct asker *a)
{
	rpc_channel_close(a->channel);
	rpc_loop_destroy(a->loop);
}

static Weir__V1__CheckpointReply *ask(const struct asker *a, bool start)
{
	Weir__V1__CheckpointRequest q = WEIR__V1__CHECKPOINT_REQUEST__INIT;
	struct message *reply = NULL;
	ProtobufCMessage *m = NULL;
	weir_error err = {0};
	q.start = start;
	assert_ok(rpc_call_wait(a->channel, RPC_CHECKPOINT, wire_pack(&q.base), 5000, &reply, &err), &err);
	assert_ok(wire_unpack(&weir__v1__checkpoint_reply__descriptor, reply, &m, &err), &err);
	message_release(reply);
	return (Weir__V1__CheckpointReply *)m;
}

/* Has one written, and waits for it. */
static void take(const struct asker *a, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	Weir__V1__CheckpointReply *r = ask(a, true);
	uint64_t sequence = r->sequence;
	while (!r->outcome || r->ended_sequence < sequence) {
		wire_free(&r->base);
		usleep(1000);
		r = ask(a, false);
	}
	if (r->outcome->code)
		fail_msg("checkpoint: %s", r->outcome->text);
	snprintf(name, WEIR_CHECKPOINT_NAME_BYTES_MAX, "%s", r->name);
	wire_free(&r->base);
}

/* --- Checkpoints while a trainer works */

struct taker {
	struct asker asker;
	_Atomic bool stop;
	uint32_t count;
	char names[CHECKPOINTS_MAX][WEIR_CHECKPOINT_NAME_BYTES_MAX];
};

static void *take_again_and_again(void *arg)
{
	struct taker *t = arg;
	while (!atomic_load(&t->stop) && t->count < CHECKPOINTS_MAX)
		take(&t->asker, t->names[t->count++]);
	return NULL;
}

static void restore_and_finish(const struct place *place, const char *name, uint32_t servers, uint64_t generation, weir_mode mode)
{
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	cluster_start(
	    &c, &(struct cluster_options){
	            .servers = servers, .executors = 2, .checkpoint = &place->options, .restore = name, .generation = generation});
	trainer_open(&t, &c, "restored", mode);
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	assert_sums(&t);
	assert_audit(&c);
	trainer_close(&t);
	cluster_stop(&c);
}

static void every_moment_restores(weir_mode mode, enum row_precision values)
{
	struct place place;
	struct cluster c;
	struct trainer a, b;
	struct taker taker = {.count = 0};
	pthread_t thread;
	weir_error err = {0};
	place_make(&place);
	place.options.values = values;
	cluster_start(&c, &(struct cluster_options){.servers = 2, .executors = 2, .lease_ms = 3001, .checkpoint = &place.options});
	asker_open(&taker.asker, &c);
	trainer_open(&a, &c, "mortal", mode);
	assert_ok(train(&a, 15, &err), &err); /* it holds a unit, in the middle of it */
	take(&taker.asker, taker.names[taker.count++]);
	trainer_abandon(&a);
	trainer_open(&b, &c, "survivor", mode);
	assert_int_equal(pthread_create(&thread, NULL, take_again_and_again, &taker), 0);
	assert_ok(train(&b, UINT32_MAX, &err), &err);
	atomic_store(&taker.stop, true);
	pthread_join(thread, NULL);
	assert_sums(&b);
	assert_audit(&c);
	trainer_close(&b);
	asker_close(&taker.asker);
	cluster_stop(&c);
	for (uint32_t i = 0; i < taker.count; i++)
		restore_and_finish(&place, taker.names[i], 1 + i % 3, 2, mode);
	place_remove(&place);
}

static void asynchronous_jobs_restore_exactly(void **state)
{
	(void)state;
	every_moment_restores((weir_mode){WEIR_ASYNC}, ROWS_FP32);
}

static void synchronous_jobs_restore_exactly(void **state)
{
	(void)state;
	every_moment_restores((weir_mode){WEIR_SYNC}, ROWS_FP32);
}

/* What a job has restored and not touched since is in its next checkpoint. */
static void what_was_restored_is_in_the_next_checkpoint(void **state)
{
	(void)state;
	struct place place;
	struct cluster c;
	struct trainer t;
	struct asker a;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err = {0};
	place_make(&place);
	cluster_start(&c, &(struct cluster_options){.checkpoint = &place.options});
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	asker_open(&a, &c);
	take(&a, name);
	asker_close(&a);
	trainer_close(&t);
	cluster_stop(&c);
	cluster_start(&c, &(struct cluster_options){.checkpoint = &place.options, .restore = name, .generation = 2});
	asker_open(&a, &c);
	take(&a, name);
	asker_close(&a);
	cluster_stop(&c);
	restore_and_finish(&place, name, 3, 3, (weir_mode){WEIR_ASYNC});
	place_remove(&place);
}

/* Servers that keep next to nothing in memory: what checkpoints are made of is read back from RocksDB, while rows go there and come back. */
static void rows_that_are_on_disk_only_are_in_checkpoints(void **state)
{
	(void)state;
	struct place place, data;
	struct cluster c;
	struct trainer t;
	struct taker taker = {.count = 0};
	char last[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* of the finished job: most of its rows are on disk only */
	pthread_t thread;
	weir_error err = {0};
	place_make(&place);
	place_make(&data);
	cluster_start(&c, &(struct cluster_options){
	                      .executors = 2, .checkpoint = &place.options, .folder = data.folder, .memory_budget_bytes = 1});
	asker_open(&taker.asker, &c);
	trainer_open(&t, &c, "worker", (weir_mode){WEIR_SYNC});
	assert_int_equal(pthread_create(&thread, NULL, take_again_and_again, &taker), 0);
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	atomic_store(&taker.stop, true);
	pthread_join(thread, NULL);
	while (cluster_audit(&c).resident_rows > KEY_SPACE / 2)
		usleep(1000);
	take(&taker.asker, last);
	assert_sums(&t);
	assert_audit(&c);
	trainer_close(&t);
	asker_close(&taker.asker);
	cluster_stop(&c);
	for (uint32_t i = 0; i < taker.count; i++)
		restore_and_finish(&place, taker.names[i], 1 + i % 3, 2, (weir_mode){WEIR_SYNC});
	restore_and_finish(&place, last, 1, 2, (weir_mode){WEIR_SYNC});
	place_remove(&data);
	place_remove(&place);
}

static void a_job_may_end_while_a_checkpoint_is_written(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 4; round++) {
		struct place place;
		struct cluster c;
		struct trainer t;
		struct asker a;
		weir_error err = {0};
		place_make(&place);
		place.options.bytes_per_s = 1 << 20; /* slow: it is under way when the servers end */
		cluster_start(&c, &(struct cluster_options){.executors = 2, .checkpoint = &place.options});
		trainer_open(&t, &c, "worker", (weir_mode){WEIR_ASYNC});
		assert_ok(train(&t, UINT32_MAX, &err), &err);
		asker_open(&a, &c);
		wire_free(&ask(&a, true)->base);
		usleep(round * 4000);
		asker_close(&a);
		trainer_close(&t);
		cluster_stop(&c);
		place_remove(&place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(asynchronous_jobs_restore_exactly),
	    cmocka_unit_test(synchronous_jobs_restore_exactly),
	    cmocka_unit_test(what_was_restored_is_in_the_next_checkpoint),
	    cmocka_unit_test(rows_that_are_on_disk_only_are_in_checkpoints),
	    cmocka_unit_test(a_job_may_end_while_a_checkpoint_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
