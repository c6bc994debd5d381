/* The roles of this server in its partitions: their drivers (replication.h), the records that
 * drivers follow (coord_records.h), and their messages to replicas on other servers (peers.h).
 *
 * The record of a partition with one copy is kept in this process, which is enough: each start
 * becomes primary in an epoch of its own. Partitions with several copies share a coordinator. A
 * replica that has fallen behind the logs that others keep (backlog.h), or has lost its data,
 * receives a snapshot (snapshot_offer.h) and starts over with it (learner.h). */
#ifndef WEIR_ROLES_H
#define WEIR_ROLES_H

#include "server/context/context.h"
#include "server/replication/replication.h"

struct coord_records;
struct placement;
struct roles;
struct scrub;

/* Calls from roles to the server above them. On any executor's loop, except `rewound`. */
struct roles_host {
	/* Creates an empty partition that was not here. On its executor's loop. */
	weir_status (*begin_partition)(struct server *s, uint32_t id, weir_error *err);
	/* Whether a table fits, before a partition learns of it. */
	weir_status (*keep_table)(struct server *s, uint32_t id, const weir_table_spec *spec, weir_error *err);
	/* A partition's log or rows can no longer be written: the server must stop. */
	void (*storage_failed)(struct server *s, const weir_error *err);
	/* No full log of the partition is left anywhere. */
	void (*lost)(struct server *s, uint16_t partition);
	/* The job goes back to a checkpoint, as `next` says. Any thread. */
	void (*rewound)(struct server *s, const struct rewind_record *next);
};

/* Call before the partitions are created. Call roles_destroy also after a failure. host:
 * borrowed. */
weir_status roles_create(struct server *s, const struct server_options *o, const struct roles_host *host, weir_error *err);
/* Sets the partition's host. */
void roles_prepare_partition(struct server *s, struct partition_options *options);
/* Partitions are recovered. On return, an epoch has begun in each partition with one copy; with a
 * full disk it begins once there is space. E_TIMEOUT: a shared coordinator has not answered within
 * coordinator_options' patience_ms what single copies must know. From a thread that is no loop. */
weir_status roles_start(struct server *s, weir_error *err);
/* The coordinator's records have been read; any thread. */
bool roles_are_known(const struct server *s);
/* NULL: not here. The ledger's belongs to ledger_role.h; with one copy it has none. */
struct replication *roles_replication(const struct server *s, uint16_t partition);
/* Options for the driver of a partition or the ledger, on its loop: all except the subject. */
struct replication_options roles_driver_options(const struct server *s, uint16_t partition, struct rpc_loop *loop);
/* Calls the `failed` of server_options; any thread. */
void roles_storage_failed(void *server, const weir_error *err);
void roles_tick_links(const struct server *s, const struct rpc_loop *loop); /* on that loop */
/* The in-sync set, as far as this server knows; on the partition's loop. NULL: not here. */
const struct member_set *roles_in_sync(const struct server *s, uint16_t partition);
/* As its primary; on the partition's loop. */
bool roles_serves(const struct server *s, uint16_t partition);
/* The replica here has less than it had: replica_distrust. On the partition's loop. False: not
 * now. */
bool roles_distrust(const struct server *s, uint16_t partition);
/* Whether messages of other replicas concern it. False: the partition does not belong to this
 * server any more. On the partition's loop. */
bool roles_take_part(const struct server *s, uint16_t partition);
/* NULL: partitions have one copy, and stay where they are. */
struct placement *roles_placement(const struct server *s);
struct coord_records *roles_records(const struct server *s);
/* Takes a stream of replicas that another server has opened. */
const struct rpc_stream_handler *roles_open_link(struct server *s, struct rpc_stream *stream, void **arg);
/* NULL: not here, or one copy. */
struct scrub *roles_scrub(const struct server *s, uint16_t partition);
const struct rpc_stream_handler *roles_open_snapshot(struct server *s, struct rpc_stream *stream, void **arg);
/* Ends those streams, and scrubs, on its loop: the server is about to end. */
void roles_end_links(struct executor *e);
/* Ends snapshots and scrubs. Once the server is idle afterwards, no snapshot is sent or received,
 * and nothing is hashed. Call before the layers below are closed. */
void roles_end_snapshots(struct server *s);
void roles_tick(struct executor *e); /* about every 100 ms, on its loop */
/* Commits nothing more. From a thread that is no loop. The loops must run, and no stream comes in
 * any more. */
void roles_stop(struct server *s);
/* Closes the coordinator records, links, snapshots and the scrub reader, once the ledger's role has
 * stopped, too. Conditions as for roles_stop. */
void roles_close(struct server *s);
void roles_destroy(struct server *s); /* after the loops */

#endif
