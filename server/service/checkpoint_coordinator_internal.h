/* What checkpoint_coordinator.c (when a checkpoint is taken, and who asks), checkpoint_run.c (one try at it), checkpoint_run_ledger.c and checkpoint_run_servers.c
 * (what it asks the ledger, and the servers) share. Nobody else includes this. But for the life of a coordinator and for who asks, all of it happens on the
 * coordinator's thread, which waits for everything it asks. */
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
	uint32_t servers;                  /* that there may be */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Guarded by lock. */
	bool ending, wanted, running;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* of the one running */
	uint64_t sequence;                         /* of it */
	struct checkpoint_ended ended;
	struct checkpoint_counts counts; /* without `running` */
	/* The thread's. */
	struct rpc_loop *loop;
	char (*addresses)[WEIR_ADDRESS_BYTES_MAX]; /* (servers) */
	struct rpc_channel **channels;             /* (servers) to those; NULL: not asked yet */
	char base[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* the last one published by this coordinator; "": none */
	uint64_t last_step;                        /* batches of the job when the last one began */
};

bool checkpoint_is_replicated(const struct checkpoint_coordinator *c);
bool checkpoint_is_ending(struct checkpoint_coordinator *c);
void checkpoint_pause(void); /* a few milliseconds, for what is soon there */
/* Waits ms, or until the coordinator ends. */
void checkpoint_wait_ms(struct checkpoint_coordinator *c, uint32_t ms);

/* One try at a checkpoint, under a name of its own. */
struct checkpoint_run {
	struct checkpoint_coordinator *coordinator;
	struct checkpoint_manifest manifest;
	struct blob_store *store;
	uint8_t *ledger; /* (ledger_bytes) its state */
	size_t ledger_bytes;
	struct ledger_stand stand; /* of the ledger's log then */
	uint64_t steps_closed;
	uint64_t bytes;
	struct checkpoint_begun {
		uint32_t server; /* WEIR_SERVER_NONE: nobody yet */
		uint64_t epoch;
	} * begun;                     /* (manifest.partitions_count) who began each, as its primary */
	bool wanted[WEIR_SERVERS_MAX]; /* servers that have a partition, */
	bool asked[WEIR_SERVERS_MAX];  /* and those told to begin: one may not have heard, or its answer was late */
};

/* From beginning to end, for *ended: its name, what went wrong and its bytes. Says its name to those who ask as soon as it has one. */
weir_status checkpoint_try(struct checkpoint_coordinator *c, struct checkpoint_ended *ended);

/* --- checkpoint_run_ledger.c */
/* False: this server does not have it. *batches: so many were taken by the whole job. */
bool checkpoint_ledger_is_here(struct checkpoint_coordinator *c, uint64_t *batches);
/* From here to release the ledger answers nobody, also after an error. Fills in what the run has of it. */
weir_status checkpoint_hold_ledger(struct checkpoint_run *run, weir_error *err);
void checkpoint_release_ledger(struct checkpoint_run *run);
/* With replicas, that the ledger was here all the time, with all that the run has of it committed; and that the same servers were the partitions' primaries,
 * or only that. Waits for the former, and asks the servers' coordinator (coord.h). */
weir_status checkpoint_confirm_ledger(struct checkpoint_run *run, weir_error *err);
weir_status checkpoint_confirm_all(struct checkpoint_run *run, weir_error *err);

/* --- checkpoint_run_servers.c */
/* Those that have a partition, which are reached. E_MOVED: a partition has none. */
weir_status checkpoint_choose_servers(struct checkpoint_run *run, weir_error *err);
/* Until each has begun what it is primary of. E_MOVED: a partition that nobody has begun. */
weir_status checkpoint_begin_servers(struct checkpoint_run *run, weir_error *err);
/* Until each has written what it has begun, which goes into the manifest. */
weir_status checkpoint_wait_servers(struct checkpoint_run *run, weir_error *err);
/* Those that were told to begin give up; what they say does not matter. */
void checkpoint_cancel_servers(struct checkpoint_run *run);
void checkpoint_leave_servers(struct checkpoint_coordinator *c); /* closes what it has opened to them */

#endif
