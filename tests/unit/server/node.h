/* The server around one partition. With storage: its log is in a journal on a disk that can crash,
 * and its rows are in RocksDB under a small memory budget. Without storage: everything is in
 * memory. Work that threads post runs in a task queue that nodes may share. */
#ifndef TEST_NODE_H
#define TEST_NODE_H

#include "server/log/journal.h"
#include "server/store/cold_fetch.h"
#include "server/store/cold_sweep.h"
#include "server/store/cold_writer.h"
#include "tests/folder.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/partition/partition_fixture.h"
#include "tests/unit/server/replication/task_queue.h"

enum { COUNTED_ROWS = ASYNC_DENSE + 1, WIDE_DENSE, NODE_TABLES_END };
#define WIDE_CHUNKS 12u /* of WIDE_DENSE, 3 MiB */

struct node_options {
	uint32_t pool_bytes;                     /* memory budget for rows; 0: rows and log in memory */
	bool lazy;                               /* rows of embeddings stay in RocksDB until used */
	void (*add_tables)(struct partition *p); /* NULL: node_add_tables */
	uint32_t tables_end;                     /* above their ids; 0: NODE_TABLES_END */
	struct partition_options partition;      /* acknowledgement and replication */
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
	uint64_t tail; /* uncommitted entries that node_start must find */
	/* As node_start found it: */
	bool was_unfinished;
	uint32_t replayed; /* entries */
	uint64_t last;     /* last index of the log */
};

void node_init(struct node *n, struct task_queue *loop, const struct clock *clock, const struct node_options *options);
void node_start(struct node *n); /* recovers the node's data, as durable.c does */
void node_stop(struct node *n, enum faulty_crash how, uint64_t seed);
void node_free(struct node *n); /* requires: stopped */
/* Creates a partition of this node without a log. `tables`: with the tables of all nodes here. */
struct partition *node_partition(struct node *n, bool tables);
void node_add_tables(struct partition *p);
/* r with this chunk of WIDE_DENSE. */
struct built node_wide_push(const struct record *r, uint64_t chunk);
/* Discards p and the log's entries, and returns a partition without tables. Fill it and pass it to
 * node_adopt. The log is n->log. */
struct partition *node_make_room(struct node *n);
void node_adopt(struct node *n, struct partition *p);

/* --- The expected partition */

struct kept {       /* A record that became a log entry. */
	uint64_t epoch; /* the epoch that the entry begins; 0: the entry is this record: */
	struct built built;
	int64_t stamp_ns;
};
/* Creates a partition in memory with the node's tables, and applies entries 1 to `last`, each at
 * its time. kept: by index. now_ns: of the node's clock. */
struct partition *node_twin(const struct node *n, const struct kept *kept, uint64_t last, int64_t *now_ns);
/* Compares values, slots and metadata of a row. */
void assert_equal_row(struct partition *a, struct partition *b, uint32_t table, uint64_t key);
void assert_equal_messages(struct message *a, struct message *b); /* releases both */

#endif
