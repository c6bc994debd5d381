/* Everything at once, by seed: trainers die in mid-unit, give units up, refuse gradients, are
 * replaced under their own name while they continue, and lose their streams. The job must end, and
 * ledger and partitions must agree on every part. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/rounds.h"
#include "tests/unit/worker/client/integer_trainer.h"

/* EVENTS: misfortunes of one actor, which then works to the end */
enum { SEEDS = 2, ACTORS = 3, EVENTS = 25 };

struct actor {
	pthread_t id;
	struct cluster *cluster;
	weir_mode mode;
	char name[16]; /* outlives the clients, which log with it */
	uint32_t events, given_up;
	struct prng random;
	/* ghost: an older incarnation of this process, stopped except for its loop */
	struct trainer trainer, ghost;
	bool has_ghost;
	weir_unit ghost_unit;
	weir_error err;
	weir_status status;
};

static void cut_a_stream(void *arg)
{
	struct actor *a = arg;
	struct link *l = a->trainer.client->links[a->events % a->trainer.client->links_count];
	struct lane *lane = a->events % 3 ? &l->push : &l->pull;
	if (lane->stream)
		rpc_stream_cancel(lane->stream, WEIR_E_UNAVAILABLE, "cut by the test");
}

static void actor_open(struct actor *a)
{
	trainer_open(&a->trainer, a->cluster, a->name, a->mode);
}

/* The trainer is replaced while it holds a unit; its ghost then continues and must do no harm. */
static void haunt(struct actor *a, const weir_unit *u)
{
	if (a->has_ghost) {
		weir_error ignored = {0};
		(void)run_batch(&a->ghost, &a->ghost_unit, BATCHES - 1, &ignored);
		(void)weir_unit_commit(a->ghost.client, &a->ghost_unit, &ignored);
		trainer_abandon(&a->ghost);
	}
	a->ghost = a->trainer;
	a->ghost_unit = *u;
	a->has_ghost = true;
	cluster_displace(a->ghost.client);
	actor_open(a);
}

/* WEIR_E_CANCELLED: the unit is no longer this trainer's. */
static weir_status misfortune(struct actor *a, const weir_unit *u)
{
	if (a->events == EVENTS || prng_below(&a->random, 4))
		return WEIR_OK;
	a->events++;
	switch (prng_below(&a->random, 6)) {
	case 0:
		haunt(a, u);
		return WEIR_E_CANCELLED;
	case 1:
		cluster_displace(a->trainer.client);
		trainer_abandon(&a->trainer);
		actor_open(a);
		return WEIR_E_CANCELLED;
	case 2:
		if (a->given_up++ < 3)
			return weir_unit_fail(a->trainer.client, u, "bad luck", &a->err) == WEIR_OK ? WEIR_E_CANCELLED : WEIR_E_STALE;
		return WEIR_OK;
	case 3:
		a->trainer.not_finite = true;
		return WEIR_OK;
	default:
		rpc_loop_post(a->trainer.client->loop, cut_a_stream, a);
		return WEIR_OK;
	}
}

static weir_status work(struct actor *a)
{
	for (;;) {
		weir_unit u = {0};
		weir_client *c = a->trainer.client;
		weir_status s = weir_unit_lease(c, &u, -1, &a->err);
		if (s == WEIR_OK && u.state == WEIR_UNIT_FINISHED)
			return WEIR_OK;
		if (s == WEIR_OK)
			s = weir_unit_begin(c, &u, BATCHES, &a->err);
		for (uint32_t b = u.watermark; s == WEIR_OK && b < BATCHES; b++) {
			s = misfortune(a, &u);
			if (s == WEIR_OK)
				s = run_batch(&a->trainer, &u, b, &a->err);
			if (s == WEIR_E_NOT_FINITE)
				s = WEIR_OK; /* skipped */
			a->trainer.not_finite = false;
		}
		if (s == WEIR_OK)
			s = weir_unit_commit(c, &u, &a->err);
		if (s == WEIR_E_STALE)
			s = weir_rejoin(c, &a->err);
		if (s != WEIR_OK && s != WEIR_E_CANCELLED)
			return s;
	}
}

static void *actor_main(void *arg)
{
	struct actor *a = arg;
	a->status = work(a);
	return NULL;
}

static void turmoil(uint64_t seed, weir_mode mode)
{
	struct cluster c;
	struct actor actors[ACTORS];
	memset(actors, 0, sizeof actors);
	cluster_start(&c, &(struct cluster_options){.lease_ms = 6000, .executors = 2, .passes = 2, .allow_skip = UNITS});
	for (uint32_t i = 0; i < ACTORS; i++) {
		actors[i] = (struct actor){.cluster = &c, .mode = mode};
		snprintf(actors[i].name, sizeof actors[i].name, "worker-%u", i);
		prng_seed(&actors[i].random, seed * 100 + i);
		actor_open(&actors[i]);
	}
	for (uint32_t i = 0; i < ACTORS; i++)
		pthread_create(&actors[i].id, NULL, actor_main, &actors[i]);
	for (uint32_t i = 0; i < ACTORS; i++)
		pthread_join(actors[i].id, NULL);
	for (uint32_t i = 0; i < ACTORS; i++)
		assert_ok(actors[i].status, &actors[i].err);
	assert_audit(&c);
	for (uint32_t i = 0; i < ACTORS; i++) {
		struct actor *a = &actors[i];
		if (a->has_ghost)
			trainer_abandon(&a->ghost);
		trainer_close(&a->trainer);
	}
	cluster_stop(&c);
}

static void asynchronous_turmoil(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= rounds(SEEDS); seed++)
		turmoil(seed, (weir_mode){WEIR_ASYNC});
}

static void synchronous_turmoil(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= rounds(SEEDS); seed++)
		turmoil(seed, (weir_mode){WEIR_SYNC, .backup = seed % 2});
}

static void bounded_turmoil(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= rounds(SEEDS); seed++)
		turmoil(seed, (weir_mode){.kind = WEIR_SSP, .bound = (uint32_t)seed % 3});
}

static void turmoil_in_rounds(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= rounds(SEEDS); seed++)
		turmoil(seed, (weir_mode){.kind = (weir_mode_kind)(seed % 3), .local_steps = 1 + (uint32_t)seed % 4});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(asynchronous_turmoil),
	    cmocka_unit_test(synchronous_turmoil),
	    cmocka_unit_test(bounded_turmoil),
	    cmocka_unit_test(turmoil_in_rounds),
	};
	return cmocka_run_group_tests_name("turmoil", tests, NULL, NULL);
}
