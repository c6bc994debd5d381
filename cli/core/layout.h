/* The layout of a running job: the placement of its partitions and its ledger on servers. Shared by
 * `weir move`, `weir drain` and `weir rebalance`. A plan is a function of a layout. To carry out a
 * plan, ask the servers for each goal (weir.proto, Place) and wait until the layout matches. */
#ifndef WEIR_LAYOUT_H
#define WEIR_LAYOUT_H

#include "server/records/member_set.h"
#include "server/records/rewind_record.h"
#include "weir/status.h"

#define LAYOUT_AT_ONCE    4u /* partitions that move at the same time */
#define LAYOUT_DRAINS_MAX 5u /* attempts of a drain before it reports that others undo it */
/* in place of a partition's number, as in weir.proto: the ledger */
#define LAYOUT_LEDGER     0xffffu
#define LAYOUT_NAME_BYTES 24u
#define LAYOUT_LIST_BYTES 96u

struct layout_partition {
	uint16_t primary; /* MEMBER_NONE: no primary now */
	struct member_set in_sync, hosts;
};
struct layout {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint32_t replicas, servers_count, partitions_count;
	char addresses[WEIR_SERVERS_MAX][WEIR_ADDRESS_BYTES_MAX]; /* (servers_count) "": unknown */
	/* (servers_count) the server holds a lease with the coordinator; a server without one is
	 * gone */
	bool lives[WEIR_SERVERS_MAX];
	/* (servers_count) the server holds a lease but does not answer: nothing moves to it or away
	 * from it */
	bool silent[WEIR_SERVERS_MAX];
	struct layout_partition partitions[WEIR_PARTITIONS_MAX]; /* (partitions_count) */
	/* without hosts if the job has no ledger */
	struct layout_partition ledger;
};
const struct layout_partition *layout_get(const struct layout *l, uint32_t partition);
/* "partition 7", "the ledger"; returns out */
const char *layout_name(uint32_t partition, char out[LAYOUT_NAME_BYTES]);

/* Lists what a server has or is about to receive: "partitions 1, 5 and the ledger". Truncates a
 * long list. False: nothing. */
bool layout_list(const struct layout *l, uint32_t server, char out[LAYOUT_LIST_BYTES]);

/* The target of a partition: its hosts, and which of them is primary. */
struct layout_goal {
	uint32_t partition;
	struct member_set hosts;
	/* hosts that keep their place although the move does not wait for them; mostly empty */
	struct member_set missing;
	uint16_t primary; /* MEMBER_NONE: any host */
};
/* A problem that a plan cannot repair. is_lost: no living server has all of the partition.
 * Otherwise the listed servers keep their place, because every living server already hosts it. */
struct layout_left {
	uint32_t partition;
	bool is_lost;
	struct member_set servers; /* servers that are gone */
};
struct layout_plan {
	uint32_t count, left_count;
	/* (count), each for a different partition; the ledger is last */
	struct layout_goal goals[WEIR_PARTITIONS_MAX + 1];
	/* (left_count) likewise; only a rebalance has any */
	struct layout_left left[WEIR_PARTITIONS_MAX + 1];
};

bool layout_is_reached(const struct layout *l, const struct layout_goal *g);

/* --- Plans. A plan omits partitions that are already as intended. */
/* Makes `to` the primary. If `to` has no replica, it replaces the present primary as a host.
 * E_NOT_FOUND: no such partition or server. */
weir_status layout_plan_move(struct layout_plan *out, const struct layout *l, uint32_t partition, uint32_t to,
                             weir_error *err) WEIR_MUST_CHECK;
/* Moves everything off the server, including the ledger, and spreads it over the other servers.
 * E_STATE: too few servers remain for the job's replicas. */
weir_status layout_plan_drain(struct layout_plan *out, const struct layout *l, uint32_t server, weir_error *err) WEIR_MUST_CHECK;
/* Replaces hosts that are gone, as far as other servers exist. Then plans the fewest moves that
 * give every living server its share of the replicas and of the primaries. The ledger counts as no
 * load and stays while its hosts live. */
weir_status layout_plan_rebalance(struct layout_plan *out, const struct layout *l, weir_error *err) WEIR_MUST_CHECK;

/* --- Asking. Any server of the job knows the layout and passes changes to the coordinator. If one
 * server does not answer, the asker tries the other servers that it knows. */
struct layout_asker;
struct rpc;
/* rpc: borrowed. addresses: "A,B,C", of any servers. E_INVALID: no address; E_MEMORY. */
weir_status layout_open(struct layout_asker **out, struct rpc *rpc, const char *addresses, weir_error *err) WEIR_MUST_CHECK;
void layout_close(struct layout_asker *a); /* NULL is allowed */
/* Sets a callback that runs once, when a change could not be requested for about a second: "the
 * coordinator does not answer: ..." */
void layout_when_late(struct layout_asker *a, void (*late)(void *arg, const char *why), void *arg);
weir_status layout_ask(struct layout_asker *a, struct layout *out, weir_error *err) WEIR_MUST_CHECK;
/* As layout_ask, but also fills `silent`. It asks every living server until the server answers or
 * is gone, for at most patience_ms. A killed server counts as living until its lease ends. waits:
 * called for a server that does not answer immediately; may be NULL. */
weir_status layout_ask_all(struct layout_asker *a, struct layout *out, uint32_t patience_ms,
                           void (*waits)(void *arg, uint32_t server), void *arg, weir_error *err) WEIR_MUST_CHECK;
/* Rewinds the whole job from the layout's generation to a checkpoint; "" means its last one
 * (weir.proto, Rewind). *out: the rewind that takes place. The servers restart immediately and
 * their answer may be lost, so the request repeats for at most patience_ms. E_NOT_FOUND: no such
 * checkpoint. E_EXISTS: a rewind to another checkpoint is in progress; the text says why. */
weir_status layout_rewind(struct layout_asker *a, const struct layout *l, const char *checkpoint, uint32_t patience_ms,
                          struct rewind_record *out, weir_error *err) WEIR_MUST_CHECK;
/* Carries out a plan, LAYOUT_AT_ONCE goals at a time; returns when all goals are reached. reached:
 * called once for each goal; may be NULL. If the caller dies, moves that have begun still complete.
 * The same plan, or a new one, does the rest. E_TIMEOUT: no goal was reached for patience_ms; *err
 * names an unreached goal and what it lacks. */
weir_status layout_carry_out(struct layout_asker *a, const struct layout_plan *plan, uint32_t patience_ms,
                             void (*reached)(void *arg, const struct layout_goal *g, uint32_t left), void *arg,
                             weir_error *err) WEIR_MUST_CHECK;
/* Drains a server. Others may change the layout while a plan is carried out, so this function
 * checks the layout after its moves and moves again whatever has come back. It returns when nothing
 * is on the server. l: the initial layout. E_STATE: something came back every time; *err says what.
 * reached: called for each move. */
weir_status layout_drain(struct layout_asker *a, const struct layout *l, uint32_t server, uint32_t patience_ms,
                         void (*reached)(void *arg, const struct layout_goal *g, uint32_t left), void *arg,
                         weir_error *err) WEIR_MUST_CHECK;

#endif
