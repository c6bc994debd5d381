/* Servers that compare their replicas. Equal replicas compare as equal while servers die. A replica
 * with a wrong value is found, named and repaired. */
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/on_loop.h"
#include "tests/unit/server/world_fixture.h"

enum { KEYS = 40, LINE_BYTES = 512 };

static struct world_totals await_in_sync(struct world *w)
{
	return world_await_in_sync(w, w->setting.replicas * CLUSTER_PARTITIONS);
}

/* --- Scrubs on command */

struct result {
	uint32_t compared, differ, replicas; /* partitions; replicas that answered */
};

static void add_scrub(struct world *w, uint32_t server, struct result *out)
{
	Weir__V1__ScrubRequest q = WEIR__V1__SCRUB_REQUEST__INIT;
	ProtobufCMessage *m;
	weir_error err = {0};
	CHECK_OK(client_call(&w->clients[server], RPC_SCRUB, &q.base, &weir__v1__scrub_reply__descriptor, &m, &err), err);
	const Weir__V1__ScrubReply *s = (const Weir__V1__ScrubReply *)m;
	for (size_t i = 0; i < s->n_partitions; i++) {
		const Weir__V1__PartitionScrub *p = s->partitions[i];
		bool differ = false;
		for (size_t j = 1; j < p->n_replicas; j++)
			differ |= p->replicas[j]->rows != p->replicas[0]->rows || p->replicas[j]->state != p->replicas[0]->state;
		out->compared += p->n_replicas > 1;
		out->differ += differ;
		out->replicas += (uint32_t)p->n_replicas;
	}
	wire_destroy(m);
}

static struct result scrub_all(struct world *w)
{
	struct result r = {0};
	for (uint32_t i = 0; i < WORLD_SERVERS; i++)
		if (w->servers[i])
			add_scrub(w, i, &r);
	return r;
}

static struct result scrub_in_sync(struct world *w)
{
	(void)await_in_sync(w);
	return scrub_all(w);
}

/* Repeats the scrub until it covers all partitions and replicas: a replica may be moving. */
static struct result await_scrub(struct world *w)
{
	struct result r;
	AWAIT((r = scrub_in_sync(w)).replicas == w->setting.replicas * CLUSTER_PARTITIONS,
	      "%u replicas of %u partitions have said what they have", r.replicas, r.compared);
	return r;
}

/* --- Wrong values */

static void poke(void *arg)
{
	struct partition *p = arg;
	struct store_table *t = store_table(partition_store(p), CLUSTER_ASYNC);
	const uint64_t key = cluster_key(CLUSTER_ASYNC, partition_id(p), 1);
	float *row;
	struct row_meta *meta;
	assert_int_equal(store_upsert(t, &key, 1, &row, &meta), WEIR_OK);
	row[3] += 1;
}

/* Changes one value of one row, without a record. */
static void spoil(struct world *w, uint32_t server, uint32_t partition)
{
	struct server *s = w->servers[server];
	on_loop(server_executor(s, partition)->loop, poke, s->partitions[partition]);
}

/* Whether a line contains all of these. */
static bool find_line(struct world *w, const char *a, const char *b, const char *c, char line[LINE_BYTES])
{
	bool found = false;
	rewind(w->lines);
	while (!found && fgets(line, LINE_BYTES, w->lines))
		found = strstr(line, a) && strstr(line, b) && strstr(line, c);
	return found;
}

static bool has_line(struct world *w, const char *a, const char *b, const char *c)
{
	char line[LINE_BYTES];
	return find_line(w, a, b, c, line);
}

static void check_line(struct world *w, uint32_t partition, uint32_t server)
{
	char which[32], who[32];
	snprintf(which, sizeof which, "partition=%u ", partition);
	snprintf(who, sizeof who, "server=%u ", server);
	if (!has_line(w, "replicas differ", which, who) || !has_line(w, "what=rows", which, who))
		fail_msg("no line names partition %u and server %u", partition, server);
}

/* In the background, or on command. */
static void await_differ(struct world *w)
{
	AWAIT((w->setting.scrub_interval_ms ? world_totals(w).differ : scrub_all(w).differ) > 0, "not found in %u comparisons",
	      (unsigned)world_totals(w).scrubs);
}

static void await_mended(struct world *w)
{
	AWAIT(await_scrub(w).differ == 0, "replicas still differ");
}

/* --- Tests */

static void equal_replicas_are_found_equal(uint32_t replicas, bool on_disk)
{
	struct world *w = world_open(&(struct world_setting){.executors = 2, .keys = KEYS, .replicas = replicas, .on_disk = on_disk});
	world_push_batches(w, 100);
	(void)await_in_sync(w);
	const struct result r = await_scrub(w);
	assert_int_equal(r.compared, CLUSTER_PARTITIONS);
	assert_int_equal(r.differ, 0);
	assert_int_equal(world_totals(w).differ, 0);
	world_close(w);
}

static void two_equal_replicas(void **state)
{
	(void)state;
	equal_replicas_are_found_equal(2, false);
}

static void three_equal_replicas_on_disk(void **state)
{
	(void)state;
	equal_replicas_are_found_equal(3, true);
}

static void a_wrong_value_is_found_and_mended(const struct world_setting *setting, uint32_t replica)
{
	struct world *w = world_open(setting);
	const uint32_t partition = 4;
	world_push_batches(w, 60);
	struct world_totals t = await_in_sync(w);
	/* A server with a replica, as key_partition.h places them. */
	const uint32_t server = (t.primary[partition] + replica) % WORLD_SERVERS;
	spoil(w, server, partition);
	await_differ(w);
	check_line(w, partition, replica ? server : (server + 1) % WORLD_SERVERS);
	world_push_batches(w, 60);
	await_mended(w);
	world_close(w);
}

static void of_a_follower_of_two(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(&(struct world_setting){.executors = 2, .keys = KEYS, .replicas = 2, .backlog_bytes = 1},
	                                  1);
}

static void of_a_follower_of_two_by_and_by(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(
	    &(struct world_setting){.executors = 2, .keys = KEYS, .replicas = 2, .backlog_bytes = 1, .scrub_interval_ms = 50}, 1);
}

static void of_a_follower_of_three_on_disk(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(
	    &(struct world_setting){.executors = 2, .keys = KEYS, .replicas = 3, .on_disk = true, .backlog_bytes = 1}, 2);
}

static void of_the_primary_of_three(void **state)
{
	(void)state;
	a_wrong_value_is_found_and_mended(&(struct world_setting){.executors = 2, .keys = KEYS, .replicas = 3, .backlog_bytes = 1},
	                                  0);
}

static void nothing_is_found_where_nothing_is_wrong(void **state)
{
	(void)state;
	struct world *w = world_open(
	    &(struct world_setting){.executors = 2, .keys = KEYS, .replicas = 3, .on_disk = true, .scrub_interval_ms = 200});
	for (uint32_t dies = 0; dies < WORLD_SERVERS; dies++) {
		world_push_batches(w, 60);
		world_kill(w, dies);
		world_push_batches(w, 60);
		world_restart(w, dies);
		world_push_batches(w, 60);
		(void)await_in_sync(w);
	}
	const struct world_totals t = world_totals(w);
	assert_int_equal(await_scrub(w).differ, 0);
	assert_true(t.scrubs > 0);
	assert_int_equal(t.differ, 0);
	char line[LINE_BYTES];
	if (find_line(w, "replicas differ", "", "", line))
		fail_msg("%s", line);
	world_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_equal_replicas),
	    cmocka_unit_test(three_equal_replicas_on_disk),
	    cmocka_unit_test(of_a_follower_of_two),
	    cmocka_unit_test(of_a_follower_of_two_by_and_by),
	    cmocka_unit_test(of_a_follower_of_three_on_disk),
	    cmocka_unit_test(of_the_primary_of_three),
	    cmocka_unit_test(nothing_is_found_where_nothing_is_wrong),
	};
	return cmocka_run_group_tests_name("scrub", tests, NULL, NULL);
}
