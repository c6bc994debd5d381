/* The bytes and the speed of replication: entries of one size are appended at a primary and commit
 * when both followers have them.
 *
 *     bench_link [memory|unix] [BODY_BYTES] [MIB] */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/cmocka_check.h"
#include "tests/unit/proto/rpc_fixture.h"
#include "tests/unit/server/replica/replica_node.h"
#include "tests/unit/server/replication/replica_frames.h"

#define AHEAD_BYTES (32u << 20) /* appended but not committed */

struct batch {
	struct node *node;
	uint16_t partition;
	uint64_t count;
	struct log_entry entry;
};

static void append_batch(void *arg)
{
	struct batch *b = arg;
	for (uint64_t i = 0; i < b->count; i++) {
		struct log_entry e = b->entry;
		message_retain(e.message);
		node_append(b->node, b->partition, &e);
	}
}

/* Followers' committed entries have no reader. */
static void release(void *arg)
{
	struct node *n = arg;
	for (uint32_t p = 0; p < NODE_PARTITIONS; p++)
		n->replicas[p].log->ops->release_below(n->replicas[p].log, replica_commit(n->replicas[p].r));
}

static double cpu_seconds(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void load(struct node_world *w, size_t body, uint64_t entries)
{
	struct batch b = {.node = &w->nodes[0], .entry = replica_frames_entry(4, 1, body, NULL)};
	const uint64_t ahead = AHEAD_BYTES / (body ? body : 1) / NODE_PARTITIONS + 1, rounds = entries / NODE_PARTITIONS / ahead + 1;
	for (uint64_t round = 0; round < rounds; round++) {
		for (b.partition = 0; b.partition < NODE_PARTITIONS; b.partition++) {
			b.count = ahead;
			on_loop(w->nodes[0].home, append_batch, &b);
		}
		for (uint16_t p = 0; p < NODE_PARTITIONS && round > 0; p++)
			world_wait_commit(w, p, round * ahead);
		for (uint32_t i = 1; i < NODES; i++)
			on_loop(w->nodes[i].home, release, &w->nodes[i]);
	}
	for (uint16_t p = 0; p < NODE_PARTITIONS; p++)
		world_wait_commit(w, p, rounds * ahead + 1);
	message_release(b.entry.message);
}

int main(int argc, char **argv)
{
	static struct node_world w;
	const char *transport = argc > 1 ? argv[1] : "unix";
	const size_t body = argc > 2 ? strtoull(argv[2], NULL, 10) : 65536;
	const uint64_t bytes = (argc > 3 ? strtoull(argv[3], NULL, 10) : 1024) << 20;
	world_open(&w, transport, true, 7);
	world_wait_serving(&w);
	const double started = seconds_now(), cpu = cpu_seconds();
	load(&w, body, bytes / (body ? body : 1));
	const double seconds = seconds_now() - started, busy = cpu_seconds() - cpu;
	struct replica_links_stats sum = {0}, back = {0};
	uint64_t appended = 0;
	for (uint32_t p = 0; p < NODE_PARTITIONS; p++)
		appended += w.nodes[0].commit[p] - 1; /* the first entry only begins the epoch */
	for (uint16_t i = 1; i < NODES; i++) {
		const struct replica_links_stats s = replica_links_get_stats(w.nodes[0].links, i),
		                                 b = replica_links_get_stats(w.nodes[i].links, 0);
		sum.frames += s.frames;
		sum.bytes += s.bytes;
		sum.entries += s.entries;
		back.bytes += b.bytes;
		back.frames += b.frames;
	}
	const double payload = (double)appended * (double)body;
	printf("%s, %llu entries of %zu bytes: %.0f MB/s appended and committed, %.2f s of CPU a GB and follower\n", transport,
	       (unsigned long long)appended, body, payload / seconds * 1e-6, busy / payload * 1e9 / (NODES - 1));
	printf("a follower, per payload byte: %.4f bytes to it, %.4f from it; entries sent %.3f times; %.0f KiB a frame\n",
	       (double)sum.bytes / payload / (NODES - 1), (double)back.bytes / payload / (NODES - 1),
	       (double)sum.entries / (double)appended / (NODES - 1), (double)sum.bytes / (double)sum.frames / 1024);
	world_close(&w);
	return 0;
}
