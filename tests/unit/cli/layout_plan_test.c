/* Plans of moves: the resulting layout, the number of moves, and that no partition ever loses
 * replicas. */
#include <stdlib.h>
#include <string.h>

#include "cli/core/layout.h"
#include "tests/cmocka_check.h"

enum { PARTITIONS = 24 };

struct scene {
	struct layout now;
	struct layout_plan plan;
};

/* The partitions' replicas are spread evenly over the first `used` servers. */
static struct scene *scene_open(uint32_t servers, uint32_t used, uint32_t replicas)
{
	struct scene *s = calloc(1, sizeof *s);
	assert_non_null(s);
	struct layout *l = &s->now;
	*l = (struct layout){.replicas = replicas, .servers_count = servers, .partitions_count = PARTITIONS};
	for (uint32_t i = 0; i < servers; i++)
		l->lives[i] = true;
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		struct layout_partition *x = &l->partitions[p];
		x->primary = (uint16_t)(p % used);
		for (uint32_t i = 0; i < replicas; i++)
			member_set_add(&x->hosts, (uint16_t)((p + i) % used));
		x->in_sync = x->hosts;
	}
	for (uint32_t i = 0; i < replicas; i++)
		member_set_add(&l->ledger.hosts, (uint16_t)i);
	l->ledger.in_sync = l->ledger.hosts;
	return s;
}

static void scene_close(struct scene *s)
{
	free(s);
}

static void plan_move(struct scene *s, uint32_t partition, uint32_t to)
{
	weir_error err = {0};
	CHECK_OK(layout_plan_move(&s->plan, &s->now, partition, to, &err), err);
}

static void plan_drain(struct scene *s, uint32_t server)
{
	weir_error err = {0};
	CHECK_OK(layout_plan_drain(&s->plan, &s->now, server, &err), err);
}

static void plan_rebalance(struct scene *s)
{
	weir_error err = {0};
	CHECK_OK(layout_plan_rebalance(&s->plan, &s->now, &err), err);
}

/* Applies a plan as the servers do. */
static void carry_out(struct scene *s)
{
	struct layout *l = &s->now;
	for (uint32_t i = 0; i < s->plan.count; i++) {
		const struct layout_goal *g = &s->plan.goals[i];
		struct layout_partition *p = g->partition == LAYOUT_LEDGER ? &l->ledger : &l->partitions[g->partition];
		assert_int_equal(g->hosts.count, l->replicas);
		assert_false(layout_is_reached(l, g));
		p->hosts = p->in_sync = g->hosts;
		for (uint32_t k = 0; k < g->missing.count; k++)
			member_set_remove(&p->in_sync, g->missing.ids[k]);
		/* the election of another primary is automatic */
		if (g->primary == MEMBER_NONE && !member_set_has(&p->in_sync, p->primary))
			p->primary = p->in_sync.ids[0];
		else if (g->primary != MEMBER_NONE)
			p->primary = g->primary;
		assert_true(member_set_has(&p->in_sync, p->primary));
		assert_true(layout_is_reached(l, g));
	}
}

static void assert_loads(const struct scene *s, uint32_t server, uint32_t replicas_min, uint32_t replicas_max,
                         uint32_t primaries_min, uint32_t primaries_max)
{
	const struct layout *l = &s->now;
	uint32_t replicas = 0, primaries = 0;
	for (uint32_t p = 0; p < l->partitions_count; p++) {
		replicas += member_set_has(&l->partitions[p].hosts, (uint16_t)server);
		primaries += l->partitions[p].primary == server;
	}
	assert_in_range(replicas, replicas_min, replicas_max);
	assert_in_range(primaries, primaries_min, primaries_max);
}

static void a_move_takes_the_primarys_place(void **state)
{
	(void)state;
	struct scene *s = scene_open(3, 3, 2);
	weir_error err = {0};
	plan_move(s, 0, 2); /* away from servers 0 and 1 */
	assert_int_equal(s->plan.count, 1);
	assert_true(s->plan.goals[0].primary == 2 && member_set_has(&s->plan.goals[0].hosts, 1));
	carry_out(s);
	plan_move(s, 0, 2);
	assert_int_equal(s->plan.count, 0);
	plan_move(s, 0, 1); /* for a replica */
	assert_true(s->plan.goals[0].primary == 1 && member_set_equal(&s->plan.goals[0].hosts, &s->now.partitions[0].hosts));
	assert_int_equal(layout_plan_move(&s->plan, &s->now, PARTITIONS, 1, &err), WEIR_E_NOT_FOUND);
	s->now.lives[0] = false;
	assert_int_equal(layout_plan_move(&s->plan, &s->now, 0, 0, &err), WEIR_E_NOT_FOUND);
	scene_close(s);
}

static void a_drained_server_leaves_equal_loads(void **state)
{
	(void)state;
	for (uint32_t replicas = 2; replicas <= 3; replicas++) {
		struct scene *s = scene_open(4, 4, replicas);
		plan_drain(s, 1);
		assert_in_range(s->plan.count, PARTITIONS * replicas / 4, PARTITIONS);
		carry_out(s);
		assert_loads(s, 1, 0, 0, 0, 0);
		for (uint32_t i = 0; i < 4; i += 1 + (i == 0))
			assert_loads(s, i, PARTITIONS * replicas / 3, PARTITIONS * replicas / 3, PARTITIONS / 3 - 1, PARTITIONS / 3 + 1);
		plan_drain(s, 1);
		assert_int_equal(s->plan.count, 0);
		scene_close(s);
	}
}

static void replicas_without_a_place_are_not_drained(void **state)
{
	(void)state;
	struct scene *s = scene_open(3, 3, 2);
	weir_error err = {0};
	s->now.lives[2] = false;
	assert_int_equal(layout_plan_drain(&s->plan, &s->now, 0, &err), WEIR_E_STATE);
	assert_non_null(strstr(err.text, "too few servers"));
	scene_close(s);
}

static void added_servers_get_their_share_in_few_moves(void **state)
{
	(void)state;
	struct scene *s = scene_open(4, 3, 2);
	plan_rebalance(s);
	carry_out(s);
	for (uint32_t i = 0; i < 4; i++)
		assert_loads(s, i, PARTITIONS * 2 / 4, PARTITIONS * 2 / 4, PARTITIONS / 4 - 1, PARTITIONS / 4 + 1);
	/* the replicas that must move, and a few roles */
	assert_in_range(s->plan.count, PARTITIONS * 2 / 4, PARTITIONS * 2 / 4 + 3);
	plan_rebalance(s);
	assert_int_equal(s->plan.count, 0);
	scene_close(s);
}

static void partitions_in_a_good_place_stay(void **state)
{
	(void)state;
	for (uint32_t servers = 2; servers <= 6; servers++) {
		struct scene *s = scene_open(servers, servers, 2);
		plan_rebalance(s);
		assert_int_equal(s->plan.count, 0);
		scene_close(s);
	}
}

static void the_ledger_moves_like_a_partition(void **state)
{
	(void)state;
	struct scene *s = scene_open(4, 4, 2);
	weir_error err = {0};
	plan_move(s, LAYOUT_LEDGER, 3); /* away from servers 0 and 1 */
	assert_int_equal(s->plan.count, 1);
	carry_out(s);
	assert_true(s->now.ledger.primary == 3 && member_set_has(&s->now.ledger.hosts, 1) &&
	            !member_set_has(&s->now.ledger.hosts, 0));
	plan_move(s, LAYOUT_LEDGER, 3);
	assert_int_equal(s->plan.count, 0);
	s->now.ledger = (struct layout_partition){.primary = MEMBER_NONE};
	assert_int_equal(layout_plan_move(&s->plan, &s->now, LAYOUT_LEDGER, 3, &err), WEIR_E_NOT_FOUND);
	plan_drain(s, 0);
	plan_rebalance(s);
	assert_int_equal(s->plan.count, 0);
	scene_close(s);
}

static void a_drained_server_gives_the_ledger_away(void **state)
{
	(void)state;
	for (uint16_t server = 0; server < 2; server++) { /* 0: its primary; 1: a replica */
		struct scene *s = scene_open(3, 3, 2);
		plan_drain(s, server);
		assert_int_equal(s->plan.goals[s->plan.count - 1].partition, LAYOUT_LEDGER);
		carry_out(s);
		assert_false(member_set_has(&s->now.ledger.hosts, server));
		plan_rebalance(s); /* server 0 or 1 has partitions again, but not the ledger */
		carry_out(s);
		assert_loads(s, server, PARTITIONS * 2 / 3, PARTITIONS * 2 / 3, PARTITIONS / 3 - 1, PARTITIONS / 3 + 1);
		assert_false(member_set_has(&s->now.ledger.hosts, server));
		scene_close(s);
	}
}

static void the_ledger_leaves_servers_that_are_gone(void **state)
{
	(void)state;
	struct scene *s = scene_open(4, 4, 3);
	s->now.lives[0] = s->now.lives[1] = false;
	plan_rebalance(s);
	assert_int_equal(s->plan.left[s->plan.left_count - 1].partition, LAYOUT_LEDGER);
	carry_out(s);
	assert_true(s->now.ledger.primary == 2 &&
	            /* a third server can take the place of one of them */
	            s->now.ledger.hosts.count == 3);
	assert_true(member_set_has(&s->now.ledger.hosts, 3) && member_set_has(&s->now.ledger.hosts, 1));
	s->now.lives[0] = true;
	plan_rebalance(s);
	carry_out(s);
	assert_true(s->now.ledger.primary == 2 && member_set_has(&s->now.ledger.hosts, 0) &&
	            !member_set_has(&s->now.ledger.hosts, 1));
	scene_close(s);
}

/* --- Dead servers */

/* The server has lost its lease. told: the others have noticed. */
static void end_server(struct layout *l, uint16_t server, bool told)
{
	l->lives[server] = false;
	for (uint32_t i = 0; i <= PARTITIONS && told; i++) {
		struct layout_partition *p = i < PARTITIONS ? &l->partitions[i] : &l->ledger;
		if (p->in_sync.count > 1)
			member_set_remove(&p->in_sync, server);
		if (p->primary == server)
			p->primary = member_set_has(&p->in_sync, server) ? MEMBER_NONE : p->in_sync.ids[0];
	}
}

static uint32_t living(const struct layout *l, const struct member_set *of)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < of->count; i++)
		n += l->lives[of->ids[i]];
	return n;
}

/* As many of the partition's replicas as possible are on living servers. */
static void assert_revived(const struct scene *s, uint32_t partition, uint32_t servers_living)
{
	const struct layout *l = &s->now;
	const struct layout_plan *plan = &s->plan;
	const struct layout_partition *p = layout_get(l, partition);
	const struct layout_left *left = NULL;
	for (uint32_t i = 0; i < plan->left_count; i++)
		left = plan->left[i].partition == partition ? &plan->left[i] : left;
	assert_int_equal(left && left->is_lost, living(l, &p->in_sync) == 0);
	if (left && left->is_lost)
		return;
	assert_int_equal(living(l, &p->hosts), servers_living < l->replicas ? servers_living : l->replicas);
	assert_int_equal(left ? left->servers.count : 0, l->replicas - living(l, &p->hosts));
}

/* For every set of dead servers, noticed or not: the layout becomes even, and a second plan is
 * empty. */
static void replicas_leave_servers_that_are_gone(void **state)
{
	(void)state;
	for (uint32_t dead = 0; dead < 2u * 32 * 2; dead++) {
		const uint32_t servers = 5, replicas = 2 + dead % 2;
		struct scene *s = scene_open(servers, servers, replicas);
		uint32_t lives = servers, most = 0, least = UINT32_MAX, lost = 0;
		for (uint16_t i = 0; i < servers; i++)
			if (dead >> 2 & 1u << i) {
				end_server(&s->now, i, dead >> 1 & 1);
				lives--;
			}
		plan_rebalance(s);
		carry_out(s);
		for (uint32_t p = 0; p < PARTITIONS; p++)
			assert_revived(s, p, lives);
		assert_revived(s, LAYOUT_LEDGER, lives);
		for (uint32_t i = 0; i < s->plan.left_count; i++)
			lost += s->plan.left[i].is_lost;
		for (uint16_t i = 0; i < servers; i++) {
			uint32_t here = 0;
			for (uint32_t p = 0; p < PARTITIONS; p++)
				here += member_set_has(&s->now.partitions[p].hosts, i);
			most = s->now.lives[i] && here > most ? here : most;
			least = s->now.lives[i] && here < least ? here : least;
		}
		if (lives && !lost)
			assert_in_range(most - least, 0, 1);
		plan_rebalance(s);
		assert_int_equal(s->plan.count, 0);
		scene_close(s);
	}
}

static void one_that_was_added_takes_the_place_of_one_that_is_gone(void **state)
{
	(void)state;
	struct scene *s = scene_open(5, 4, 2);
	end_server(&s->now, 1, false);
	plan_rebalance(s);
	assert_int_equal(s->plan.left_count, 0);
	carry_out(s);
	assert_loads(s, 1, 0, 0, 0, 0);
	for (uint32_t i = 0; i < 5; i += 1 + (i == 0))
		assert_loads(s, i, PARTITIONS * 2 / 4, PARTITIONS * 2 / 4, PARTITIONS / 4 - 1, PARTITIONS / 4 + 1);
	scene_close(s);
}

static void nothing_goes_to_servers_that_do_not_answer(void **state)
{
	(void)state;
	struct scene *s = scene_open(4, 3, 2);
	weir_error err = {0};
	s->now.silent[3] = true; /* the added server */
	plan_rebalance(s);
	assert_int_equal(s->plan.count, 0);
	assert_int_equal(layout_plan_move(&s->plan, &s->now, 0, 3, &err), WEIR_E_NOT_FOUND);
	s->now.silent[3] = false;
	s->now.silent[0] = true; /* its replicas stay, in sync or not */
	member_set_remove(&s->now.partitions[0].in_sync, 0);
	s->now.partitions[0].primary = 1;
	plan_rebalance(s);
	for (uint32_t i = 0; i < s->plan.count; i++)
		assert_int_not_equal(s->plan.goals[i].partition, 0);
	carry_out(s);
	assert_loads(s, 0, PARTITIONS * 2 / 3, PARTITIONS * 2 / 3, PARTITIONS / 3 - 1, PARTITIONS / 3 - 1);
	assert_loads(s, 3, PARTITIONS * 2 / 3 * 2 / 3 - 1, PARTITIONS * 2 / 3 * 2 / 3 + 1, PARTITIONS / 4 - 2, PARTITIONS / 4 + 1);
	scene_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_move_takes_the_primarys_place),
	    cmocka_unit_test(a_drained_server_leaves_equal_loads),
	    cmocka_unit_test(replicas_without_a_place_are_not_drained),
	    cmocka_unit_test(added_servers_get_their_share_in_few_moves),
	    cmocka_unit_test(partitions_in_a_good_place_stay),
	    cmocka_unit_test(the_ledger_moves_like_a_partition),
	    cmocka_unit_test(a_drained_server_gives_the_ledger_away),
	    cmocka_unit_test(the_ledger_leaves_servers_that_are_gone),
	    cmocka_unit_test(replicas_leave_servers_that_are_gone),
	    cmocka_unit_test(one_that_was_added_takes_the_place_of_one_that_is_gone),
	    cmocka_unit_test(nothing_goes_to_servers_that_do_not_answer),
	};
	return cmocka_run_group_tests_name("layout_plan", tests, NULL, NULL);
}
