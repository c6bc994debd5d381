/* What a server has around one partition: its log in a journal on a disk that can crash, its rows in RocksDB under a small memory budget; or neither, and all is
 * in memory. What threads post runs in a task queue that nodes may share. */
#ifndef TEST_NODE_H
#define TEST_NODE_H

#include "server/log/journal.h"
#include "server/store/cold_fetch.h"
#include "server/store/cold_sweep.h"
#include "server/store/cold_writer.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/folder.h"
#include "tests/unit/server/partition/partition_fixture.h"
#include "tests/unit/server/replication/task_queue.h"

enum { COUNTED_ROWS = ASYNC_DENSE + 1, WIDE_DENSE, NODE_TABLES_END };
#define WIDE_CHUNKS 12u /* of WIDE_DENSE: 3 MiB */

struct node_options {
	uint32_t pool_bytes;                     /* of memory for rows; 0: all in memory, and the log */
	bool lazy;                               /* rows of embedding tables stay below until they are wanted */
	void (*add_tables)(struct partition *p); /* NULL: node_add_tables */
	uint32_t tables_end;                     /* beyond those; 0: NODE_TABLES_END */
	struct partition_options partition;      /* how it acknowledges, and who drives it */
};

struct node {
	struct task_queue *loop;
	const struct clock *clock;
	struct node_options options;
	char folder[FOLDER_BYTES];
	struct faulty_disk *disk;
	struct journal *journal;
	struct cold *cold;
	struct cold_writer *writer;
	struct cold_fetch *fetch;
	struct cold_sweep *sweep;
	struct memory_budget pool;
	struct partition *p;
	struct log *log;
	uint64_t tail; /* entries that are not committed, as node_start should find */
	/* As node_start has found it: */
	bool was_unfinished;
	uint32_t replayed; /* entries */
	uint64_t last;     /* of the log */
};

void node_init(struct node *n, struct task_queue *loop, const struct clock *clock, const struct node_options *options);
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

/* --- What a partition must be equal to */

struct kept {       /* what became a log entry */
	uint64_t epoch; /* that it began; 0: none, but this: */
	struct built built;
	int64_t stamp_ns;
};
/* A partition like the node's, in memory, that has been given entries 1 to `last`, each at its time. kept: by index. now_ns: of the node's clock. */
struct partition *node_twin(const struct node *n, const struct kept *kept, uint64_t last, int64_t *now_ns);
/* Equal values, slots, and what else is known of a row. */
void assert_equal_row(struct partition *a, struct partition *b, uint32_t table, uint64_t key);
void assert_equal_messages(struct message *a, struct message *b); /* releases them */

#endif
