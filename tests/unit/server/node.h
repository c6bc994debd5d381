/* What a server has around one partition: its log in a journal on a disk that can crash, its rows in RocksDB under a small memory budget; or neither, and all is
 * in memory. What threads post runs in a task queue that nodes may share. */
#ifndef TEST_NODE_H
#define TEST_NODE_H

#include "cold_fetch.h"
#include "cold_sweep.h"
#include "cold_writer.h"
#include "faulty_disk.h"
#include "folder.h"
#include "journal.h"
#include "partition_fixture.h"
#include "task_queue.h"

enum { COUNTED_ROWS = ASYNC_DENSE + 1, WIDE_DENSE, NODE_TABLES_END };
#define WIDE_CHUNKS 12u /* of WIDE_DENSE: 3 MiB */

struct node {
	struct task_queue *loop;
	const struct clock *clock;
	uint32_t pool_bytes; /* 0: all in memory */
	char folder[FOLDER_BYTES];
	struct faulty_disk *disk;
	struct journal *journal;
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct cold_sweep *sweep;
	struct pool pool;
	struct partition *p;
	struct log *log;
	bool was_unfinished; /* as node_start has found it */
};

void node_init(struct node *n, struct task_queue *loop, const struct clock *clock, uint32_t pool_bytes);
void node_start(struct node *n); /* recovers what there is, as durable.c does */
void node_stop(struct node *n, enum faulty_crash how, uint64_t seed);
void node_free(struct node *n); /* stopped */
/* A new partition of this node without log; tables: with the tables of all nodes here. */
struct partition *node_partition(struct node *n, bool tables);
void node_add_tables(struct partition *p);
struct built node_wide_push(const struct record *r, uint64_t chunk); /* r, with that chunk of WIDE_DENSE */
/* What there is in p and log makes room for a partition without tables, to be filled and given to node_adopt. The log is n->log. */
struct partition *node_make_room(struct node *n);
void node_adopt(struct node *n, struct partition *p);

#endif
