/* How the partitions of a running job, and its ledger, lie on its servers, and changes of that: what `weir move`, `weir drain` and `weir rebalance` have in common. Plans
 * are functions of a layout; carrying one out is asking the servers for it (weir.proto, Place) and waiting until it is so. */
#ifndef WEIR_LAYOUT_H
#define WEIR_LAYOUT_H

#include "server/records/member_set.h"
#include "server/records/rewind_record.h"
#include "weir/status.h"

#define LAYOUT_AT_ONCE    4u      /* partitions that are on the move together */
#define LAYOUT_DRAINS_MAX 5u      /* so often a drain begins anew before it says that others undo it */
#define LAYOUT_LEDGER     0xffffu /* in the place of a partition's number, as in weir.proto: the ledger */
#define LAYOUT_NAME_BYTES 24u
#define LAYOUT_LIST_BYTES 96u

struct layout_partition {
	uint16_t primary; /* MEMBER_NONE: there is none now */
	struct member_set in_sync, hosts;
};
struct layout {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	uint32_t replicas, servers_count, partitions_count;
	char addresses[WEIR_SERVERS_MAX][WEIR_ADDRESS_BYTES_MAX]; /* (servers_count) "": not known */
	bool lives[WEIR_SERVERS_MAX];  /* (servers_count) it has a lease with the coordinator; one that does not is gone */
	bool silent[WEIR_SERVERS_MAX]; /* (servers_count) it has one, and does not answer: nothing moves to it, nor away */
	struct layout_partition partitions[WEIR_PARTITIONS_MAX]; /* (partitions_count) */
	struct layout_partition ledger;                          /* without hosts: the job has none */
};
const struct layout_partition *layout_get(const struct layout *l, uint32_t partition);
const char *layout_name(uint32_t partition, char out[LAYOUT_NAME_BYTES]); /* "partition 7", "the ledger"; out */

/* What a server has, or is about to be sent: "partitions 1, 5 and the ledger"; a longer list is cut. False: nothing. */
bool layout_list(const struct layout *l, uint32_t server, char out[LAYOUT_LIST_BYTES]);

/* What a partition is to become: on these servers, of which that one is primary. */
struct layout_goal {
	uint32_t partition;
	struct member_set hosts;
	struct member_set missing; /* of these, that keep their place and are not waited for; mostly empty */
	uint16_t primary;          /* MEMBER_NONE: whoever is */
};
/* What a plan cannot mend. Lost: no server that lives has all of it. Else these servers keep their place, as every server that lives has it already. */
struct layout_left {
	uint32_t partition;
	bool is_lost;
	struct member_set servers; /* that are gone */
};
struct layout_plan {
	uint32_t count, left_count;
	struct layout_goal goals[WEIR_PARTITIONS_MAX + 1]; /* (count), each of another partition; the ledger is last */
	struct layout_left left[WEIR_PARTITIONS_MAX + 1];  /* (left_count) the same; only a rebalance has any */
};

bool layout_is_reached(const struct layout *l, const struct layout_goal *g);

/* --- Plans. What is as it should be is left out. */
/* `to` becomes primary; if it has no replica, in the place of the present one. E_NOT_FOUND: no such partition or server. */
weir_status layout_plan_move(struct layout_plan *out, const struct layout *l, uint32_t partition, uint32_t to,
                             weir_error *err) WEIR_MUST_CHECK;
/* Nothing is left on the server, the ledger neither: every other one takes a share. E_STATE: too few servers are left for the job's replicas. */
weir_status layout_plan_drain(struct layout_plan *out, const struct layout *l, uint32_t server, weir_error *err) WEIR_MUST_CHECK;
/* Hosts that are gone are replaced, as far as there are others; then as few moves as give every server that lives its share of the replicas, and of the primaries. The ledger,
 * which is no load, stays where its hosts live. */
weir_status layout_plan_rebalance(struct layout_plan *out, const struct layout *l, weir_error *err) WEIR_MUST_CHECK;

/* --- Asking. Any server of the job knows, and carries changes to the coordinator; where the one asked does not answer, the others that were heard of are. */
struct layout_asker;
struct rpc;
/* rpc: borrowed. addresses: "A,B,C", of any servers. E_INVALID: there is none; E_MEMORY. */
weir_status layout_open(struct layout_asker **out, struct rpc *rpc, const char *addresses, weir_error *err) WEIR_MUST_CHECK;
void layout_close(struct layout_asker *a); /* NULL is allowed */
/* Called once, when a change could not be asked for in about a second: "the coordinator does not answer: ..." */
void layout_when_late(struct layout_asker *a, void (*late)(void *arg, const char *why), void *arg);
weir_status layout_ask(struct layout_asker *a, struct layout *out, weir_error *err) WEIR_MUST_CHECK;
/* The same, with `silent`: every server that lives is asked until it answers, or is gone, which takes one that was killed as long as its lease; for patience_ms at most.
 * waits: it does not answer at once; may be NULL. */
weir_status layout_ask_all(struct layout_asker *a, struct layout *out, uint32_t patience_ms,
                           void (*waits)(void *arg, uint32_t server), void *arg, weir_error *err) WEIR_MUST_CHECK;
/* Has the whole job go back from the layout's generation to a checkpoint, "": its last one (weir.proto, Rewind); *out: as it does. The servers begin anew at once, and their
 * answer may be lost: they are asked again, for patience_ms at most. E_NOT_FOUND: there is no such checkpoint; E_EXISTS: it goes back to another one, the text says why. */
weir_status layout_rewind(struct layout_asker *a, const struct layout *l, const char *checkpoint, uint32_t patience_ms,
                          struct rewind_record *out, weir_error *err) WEIR_MUST_CHECK;
/* Returns when all of it is so; LAYOUT_AT_ONCE at a time. reached: may be NULL; each goal once. What dies with the caller goes on by itself, but for what was
 * not begun: the same plan, or a new one, does the rest. E_TIMEOUT: no goal was reached for patience_ms; *err says which is not, and what is missing. */
weir_status layout_carry_out(struct layout_asker *a, const struct layout_plan *plan, uint32_t patience_ms,
                             void (*reached)(void *arg, const struct layout_goal *g, uint32_t left), void *arg,
                             weir_error *err) WEIR_MUST_CHECK;
/* A plan is of a layout that others may change while it is carried out. Returns when nothing is on the server, as a look at the layout behind its moves shows; what has come
 * back is moved again. l: as it is at first. E_STATE: it always came back, *err says what. reached: of each move. */
weir_status layout_drain(struct layout_asker *a, const struct layout *l, uint32_t server, uint32_t patience_ms,
                         void (*reached)(void *arg, const struct layout_goal *g, uint32_t left), void *arg,
                         weir_error *err) WEIR_MUST_CHECK;

#endif
