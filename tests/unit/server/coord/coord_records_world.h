/* Servers that keep their records in one coordinator in memory, over simulated time. Sessions count
 * their calls. */
#ifndef WEIR_TESTS_COORD_RECORDS_WORLD_H
#define WEIR_TESTS_COORD_RECORDS_WORLD_H

#include "proto/coord/coord_memory.h"
#include "server/coord/coord_records.h"
#include "server/coord/coord_records_format.h"
#include "tests/manual_clock.h"
#include "tests/unit/server/replication/task_queue.h"

enum { PARTITIONS = 64, SERVERS = 2 };

#define TIMEOUT_MS 1000
#define LEDGER     0xffff

struct world;

/* A replica that reads and changes its partition's record. */
struct asker {
	struct coord_records_client client;
	uint32_t reads, changes, told; /* calls of the three callbacks */
	bool known;                    /* the last answer had this record: */
	struct replica_record record;
	struct replica_record learned;
};

struct server {
	struct world *world;
	struct task_queue *loop;
	struct coord *coord;
	struct coord_records *records;
	uint32_t sessions, ranges, txns; /* sessions opened; calls that the coordinator received */
	bool ended;
	struct asker askers[PARTITIONS];
	struct replica_record seen[PARTITIONS];
	struct assignment placed; /* the last notice, of any partition */
	uint64_t caught_up;
	struct rewind_record next; /* the last notice */
	uint32_t nexts;            /* notices of a next generation */
	uint32_t displaced;        /* notices that another process took the place */
};

struct world {
	struct manual_clock clock;
	int64_t now_ms;
	struct coord_memory *coordinator;
	struct server servers[SERVERS];
	const char
	    /* NULL: the server registers no address. Otherwise all servers are server 0, later ones
	     * with later incarnations. */
	    *addresses[SERVERS];
	bool same_incarnation; /* all have incarnation 1 */
};

struct replica_record record_of(uint64_t revision, uint64_t epoch, uint16_t primary);
/* `hosts` false: the server has no replicas. */
void open_server(struct world *w, uint32_t i, bool hosts, bool puts_first);
struct world *create_world(void);
struct world *open_hosts(uint32_t hosts, bool puts_first);
struct world *open_world(bool puts_first);
void settle(struct world *w, int64_t ms);
void tick(struct world *w);
void close_world(struct world *w);
struct replica_record read_one(struct world *w, struct asker *a);
struct assignment hosts_of(uint64_t revision, uint16_t a, uint16_t b);
struct rewind_record next_of(uint64_t generation, const char *checkpoint);
bool same_next(const struct rewind_record *a, const struct rewind_record *b);

#endif
