/* A client finds the new primary of a partition, and learns which of its pushes that primary
 * lacks. */
#include "server/service/server_internal.h"
#include "tests/cmocka_check.h"
#include "tests/unit/worker/client/move_scene.h"

/* The batch ends once its partition has a server again; until then the client asks for the map. */
struct batch_thread {
	pthread_t id;
	struct scene *scene;
	uint32_t batch;
	weir_status status;
	weir_error err;
};

static void *batch_main(void *arg)
{
	struct batch_thread *b = arg;
	b->status = run_batch(&b->scene->trainer, &b->scene->unit, b->batch, &b->err);
	return NULL;
}

static void batch_start(struct batch_thread *b, struct scene *s, uint32_t batch)
{
	*b = (struct batch_thread){.scene = s, .batch = batch};
	assert_int_equal(pthread_create(&b->id, NULL, batch_main, b), 0);
}

static void batch_end(struct batch_thread *b)
{
	pthread_join(b->id, NULL);
	assert_ok(b->status, &b->err);
}

static void a_partition_is_found_where_only_its_new_primary_knows(void **state)
{
	(void)state;
	struct scene s;
	struct batch_thread b;
	weir_error err = {0};
	scene_open(&s);
	assert_ok(run_batch(&s.trainer, &s.unit, 0, &err), &err);
	mover_take(&s.mover, 4);
	batch_start(&b, &s, 1);
	await_changes(s.trainer.client, 3); /* the client has asked and retried several times */
	mover_give(&s.mover, 4, 2);
	mover_tell(&s.mover, 2);
	batch_end(&b);
	mover_drop_old(&s.mover, 4, 1);
	for (uint32_t batch = 2; batch < BATCHES; batch++)
		assert_ok(run_batch(&s.trainer, &s.unit, batch, &err), &err);
	assert_ok(weir_unit_commit(s.trainer.client, &s.unit, &err), &err);
	finish_by(&s.trainer, &s.cluster);
	assert_sums(&s.trainer);
	scene_close(&s);
}

/* Failover: another server has exactly the acknowledged state of the dead one's partitions. */
static void partitions_of_a_dead_server_are_found_on_another(void **state)
{
	(void)state;
	struct scene s;
	struct batch_thread b;
	weir_error err = {0};
	scene_open(&s);
	assert_ok(run_batch(&s.trainer, &s.unit, 0, &err), &err);
	mover_take(&s.mover, 2);
	mover_take(&s.mover, 5);
	batch_start(&b, &s, 1);
	server_destroy(s.cluster.servers[2]);
	s.cluster.servers_count = 2;
	mover_give(&s.mover, 2, 1);
	mover_give(&s.mover, 5, 0);
	mover_tell(&s.mover, 1); /* server 0 does not know */
	batch_end(&b);
	for (uint32_t batch = 2; batch < BATCHES; batch++)
		assert_ok(run_batch(&s.trainer, &s.unit, batch, &err), &err);
	assert_ok(weir_unit_commit(s.trainer.client, &s.unit, &err), &err);
	finish_by(&s.trainer, &s.cluster);
	assert_sums(&s.trainer);
	scene_close(&s);
}

/* RESUME: the client first resends what the old primary acknowledged and the new one lacks. */
static void entries_that_a_new_primary_lacks_are_reported(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	scene_open(&s);
	assert_ok(run_batch(&s.trainer, &s.unit, 0, &err), &err);
	mover_copy(&s.mover, 4);
	assert_ok(run_batch(&s.trainer, &s.unit, 1, &err), &err);
	mover_give(&s.mover, 4, 2);
	mover_tell(&s.mover, 2);
	mover_tell(&s.mover, 1);
	mover_drop_old(&s.mover, 4, 1);
	assert_int_equal(run_batch(&s.trainer, &s.unit, 2, &err), WEIR_E_STALE);
	trainer_abandon(&s.trainer);
	cluster_stop(&s.cluster);
}

/* The client takes the partition's last answers for unstable. */
static void forget_stable(weir_client *c, uint32_t partition)
{
	pthread_mutex_lock(&c->lock);
	assert_true(c->acknowledged[partition] > 0);
	c->stable_seen[partition] = c->acknowledged[partition] - 1;
	pthread_mutex_unlock(&c->lock);
}

/* The primary loses its role and gets it back in a new epoch, while no request is in flight that
 * would be refused. */
static void come_back_unnoticed(struct scene *s, uint32_t partition, void (*leave)(struct mover *m, uint32_t partition))
{
	weir_error err = {0};
	assert_ok(run_batch(&s->trainer, &s->unit, 0, &err), &err);
	if (leave == mover_copy)
		mover_copy(&s->mover, partition);
	assert_ok(run_batch(&s->trainer, &s->unit, 1, &err), &err);
	if (leave == mover_take)
		mover_take(&s->mover, partition);
	forget_stable(s->trainer.client, partition);
	mover_give(&s->mover, partition, s->mover.place[partition]);
}

static void entries_that_a_primary_lost_unnoticed_are_reported(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	weir_status status = WEIR_OK;
	scene_open(&s);
	come_back_unnoticed(&s, 4, mover_copy); /* without batch 1 */
	for (uint32_t batch = 2; batch < BATCHES && !status; batch++)
		status = run_batch(&s.trainer, &s.unit, batch, &err);
	if (!status)
		status = weir_unit_commit(s.trainer.client, &s.unit, &err);
	assert_int_equal(status, WEIR_E_STALE);
	trainer_abandon(&s.trainer);
	cluster_stop(&s.cluster);
}

/* An answer of a later epoch counts once the earlier ones are known to be there, and the client
 * then asks about it too; otherwise it would never hear that it is stable. Here the partition lacks
 * that entry, and the client hears so. */
static void later_reports_are_checked_too(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	scene_open(&s);
	assert_ok(run_batch(&s.trainer, &s.unit, 0, &err), &err);
	weir_client *c = s.trainer.client;
	pthread_mutex_lock(&c->lock);
	c->later[4] = (struct told){.index = c->acknowledged[4] + 1, .epoch = c->epoch_seen[4]};
	assert_int_equal(resume_ask_all(c), WEIR_OK);
	const int64_t end_ms = client_now(c) + PATIENCE_MS;
	while (!c->stale && client_wait(c, end_ms))
		;
	assert_true(c->stale);
	pthread_mutex_unlock(&c->lock);
	trainer_abandon(&s.trainer);
	cluster_stop(&s.cluster);
}

static void a_primary_that_has_lost_nothing_goes_on_unnoticed(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	scene_open(&s);
	come_back_unnoticed(&s, 4, mover_take);
	for (uint32_t batch = 2; batch < BATCHES; batch++)
		assert_ok(run_batch(&s.trainer, &s.unit, batch, &err), &err);
	assert_ok(weir_unit_commit(s.trainer.client, &s.unit, &err), &err);
	finish_by(&s.trainer, &s.cluster);
	assert_sums(&s.trainer);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_partition_is_found_where_only_its_new_primary_knows),
	    cmocka_unit_test(partitions_of_a_dead_server_are_found_on_another),
	    cmocka_unit_test(entries_that_a_new_primary_lacks_are_reported),
	    cmocka_unit_test(entries_that_a_primary_lost_unnoticed_are_reported),
	    cmocka_unit_test(later_reports_are_checked_too),
	    cmocka_unit_test(a_primary_that_has_lost_nothing_goes_on_unnoticed),
	};
	return cmocka_run_group_tests_name("client_failover", tests, NULL, NULL);
}
