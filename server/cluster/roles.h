/* Who plays which role in the partitions of this server: their drivers (replication.h), the records that these go by (authority.h), and what they say to those of
 * other servers (peers.h).
 *
 * Of a partition that has one copy the record is kept in this process, which is enough for that: each start becomes primary in an epoch of its own. Where it
 * has several they share a coordinator. A replica that has fallen behind what the others keep of their logs (backlog.h), or has lost what it had, is sent a
 * snapshot (snapshot_offer.h) and begins anew with it (learner.h). */
#ifndef WEIR_ROLES_H
#define WEIR_ROLES_H

#include "server/context/context.h"
#include "server/replication/replication.h"

struct authority;
struct hosting;
struct roles;
struct scrub;

/* What roles ask of the server above them. Any executor's loop, but for `rewound`. */
struct roles_host {
	/* A partition that was not here, empty. On its executor's loop. */
	weir_status (*begin_partition)(struct server *s, uint32_t id, weir_error *err);
	/* Before a partition learns of a table: whether it fits. */
	weir_status (*keep_table)(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* No full log of the partition is left anywhere. */
	void (*lost)(struct server *s, uint16_t partition);
	/* The job goes back to a checkpoint, as `next` says. Any thread. */
	void (*rewound)(struct server *s, const struct rewind_record *next);
};

/* Before the partitions are created; roles_free also after a failure. host: borrowed. */
weir_status roles_create(struct server *s, const struct server_options *o, const struct roles_host *host, weir_error *err);
/* Sets what a partition tells its driver by. */
void roles_prepare_partition(struct server *s, struct partition_options *options);
/* Partitions are recovered. When it returns, an epoch has begun in each that has one copy; on a full disk, it begins when there is space. E_TIMEOUT: a shared coordinator has
 * not said for coordinator_options' patience_ms what single copies must know. From a thread that is no loop. */
weir_status roles_start(struct server *s, weir_error *err);
bool roles_are_known(const struct server *s); /* what the coordinator has was read; any thread */
/* NULL: not here. The ledger's is ledger_role.h's; with one copy it has none. */
struct replication *roles_replication(const struct server *s, uint16_t partition);
/* Of the driver of a partition or the ledger, on its loop: all but the subject. */
struct replication_options roles_driver_options(const struct server *s, uint16_t partition, struct rpc_loop *loop);
void roles_storage_failed(void *server, const weir_error *err);             /* as server_options' `failed` is told; any thread */
void roles_tick_links(const struct server *s, const struct rpc_loop *loop); /* on it */
/* Whose replicas are, as far as this server knows; on the partition's loop. NULL: not here. */
const struct member_set *roles_in_sync(const struct server *s, uint16_t partition);
bool roles_serves(const struct server *s, uint16_t partition); /* as its primary; on the partition's loop */
/* What its replica here has is less than it had: replica_distrust. On the partition's loop.
 * False: not now. */
bool roles_distrust(const struct server *s, uint16_t partition);
/* Whether messages of other replicas concern it: else it is not this server's any more. On the partition's loop. */
bool roles_take_part(const struct server *s, uint16_t partition);
struct hosting *roles_hosting(const struct server *s); /* NULL: partitions have one copy, and stay where they are */
struct authority *roles_authority(const struct server *s);
/* A stream of replicas that another server has opened. */
const struct rpc_stream_handler *roles_open_link(struct server *s, struct rpc_stream *stream, void **arg);
struct scrub *roles_scrub(const struct server *s, uint16_t partition); /* NULL: it is not here, or has one copy */
const struct rpc_stream_handler *roles_open_snapshot(struct server *s, struct rpc_stream *stream, void **arg);
void roles_end_links(struct executor *e); /* those streams, and scrubs, on its loop: the server is about to end */
/* From when the server is idle no snapshot is sent or received any more, nothing hashed. Before what lies below is closed. */
void roles_end_snapshots(struct server *s);
void roles_tick(struct executor *e); /* every 100 ms or so, on its loop */
/* Nothing is committed any more. From a thread that is no loop; the loops must run, and no stream
 * comes in any more. */
void roles_stop(struct server *s);
void roles_close(struct server *s); /* the same, once the ledger's role has stopped, too */
void roles_free(struct server *s);  /* after the loops */

#endif
