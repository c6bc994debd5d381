/* Shared by checkpoint_coordinator.c (when a checkpoint is taken, requests), checkpoint_run.c (one
 * try), checkpoint_run_ledger.c and checkpoint_run_servers.c (its calls to the ledger and to the
 * servers). Nothing else includes this. Except for a coordinator's life and its requests,
 * everything runs on the coordinator's thread, which waits for every answer. */
#ifndef WEIR_CHECKPOINT_COORDINATOR_INTERNAL_H
#define WEIR_CHECKPOINT_COORDINATOR_INTERNAL_H

#include "server/service/checkpoint_coordinator.h"
#include "server/service/ledger_role.h"
#include "server/service/server_internal.h"

struct checkpoint_ended { /* the last checkpoint that ended */
	bool any;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_error err;
	uint64_t bytes, wall_ms, sequence;
};

struct checkpoint_coordinator {
	struct server *server;
	struct checkpoint_options options; /* with copies of what it points to */
	uint32_t servers;                  /* number that there may be */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Guarded by lock. */
	bool ending, wanted, running;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* of the running one */
	uint64_t sequence;                         /* of the running one */
	struct checkpoint_ended ended;
	struct checkpoint_counts counts; /* `running` is not maintained here */
	/* The thread's. */
	struct rpc_loop *loop;
	char (*addresses)[WEIR_ADDRESS_BYTES_MAX]; /* (servers) */
	/* (servers) to those addresses; NULL: not opened yet. */
	struct rpc_channel **channels;
	/* Last one published by this coordinator; "": none. */
	char base[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	uint64_t last_step; /* batches of the job when the last one began */
};

bool checkpoint_is_replicated(const struct checkpoint_coordinator *c);
bool checkpoint_is_ending(struct checkpoint_coordinator *c);
void checkpoint_pause(void); /* a few milliseconds, for a condition that is soon true */
/* Waits ms, or until the coordinator ends. */
void checkpoint_wait_ms(struct checkpoint_coordinator *c, uint32_t ms);

/* One try at a checkpoint, under a name of its own. */
struct checkpoint_run {
	struct checkpoint_coordinator *coordinator;
	struct checkpoint_manifest manifest;
	struct blob_store *store;
	uint8_t *ledger; /* (ledger_bytes) its exported state */
	size_t ledger_bytes;
	struct ledger_stand stand; /* of the ledger's log at that time */
	uint64_t steps_closed;
	uint64_t bytes;
	struct checkpoint_begun {
		uint32_t server; /* WEIR_SERVER_NONE: none yet */
		uint64_t epoch;
		/* (manifest.partitions_count) primary that began each partition. */
	} * begun;
	bool wanted[WEIR_SERVERS_MAX]; /* servers that have a partition */
	/* Servers told to begin. One may not have heard, or answered late. */
	bool asked[WEIR_SERVERS_MAX];
};

/* Runs one try from beginning to end. *ended gets its name, error and bytes. Publishes the name to
 * requests as soon as it is chosen. */
weir_status checkpoint_try(struct checkpoint_coordinator *c, struct checkpoint_ended *ended);

/* --- checkpoint_run_ledger.c */
/* False: this server does not have the ledger. *batches: taken by the whole job. */
bool checkpoint_ledger_is_here(struct checkpoint_coordinator *c, uint64_t *batches);
/* From here to release the ledger answers nobody, also after an error. Fills in the run's data from
 * the ledger. */
weir_status checkpoint_hold_ledger(struct checkpoint_run *run, weir_error *err);
void checkpoint_release_ledger(struct checkpoint_run *run);
/* With replicas: checkpoint_confirm_ledger confirms that the ledger was here all the time, and that
 * all that the run has of it is committed. checkpoint_confirm_all also confirms that the same
 * servers were the partitions' primaries. Both wait for the commits and ask the servers'
 * coordinator (coord.h). */
weir_status checkpoint_confirm_ledger(struct checkpoint_run *run, weir_error *err);
weir_status checkpoint_confirm_all(struct checkpoint_run *run, weir_error *err);

/* --- checkpoint_run_servers.c */
/* Chooses and reaches the servers that have a partition. E_MOVED: a partition has none. */
weir_status checkpoint_choose_servers(struct checkpoint_run *run, weir_error *err);
/* Waits until each server has begun the partitions that it is primary of. E_MOVED: no server has
 * begun a partition. */
weir_status checkpoint_begin_servers(struct checkpoint_run *run, weir_error *err);
/* Waits until each server has written what it began, and adds that to the manifest. */
weir_status checkpoint_wait_servers(struct checkpoint_run *run, weir_error *err);
/* Tells the servers that were told to begin to give up. Their answers do not matter. */
void checkpoint_cancel_servers(struct checkpoint_run *run);
void checkpoint_leave_servers(struct checkpoint_coordinator *c); /* closes the channels to them */

#endif
