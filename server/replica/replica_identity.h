/* The identity of a server toward the other replicas of its partitions. It comprises the owner of
 * its folder's data, the number of this start, the epochs that it has promised, and which of its
 * replicas are whole.
 *
 * Servers with the log on disk have one. So have servers with the log in memory when partitions
 * have replicas elsewhere: such a server may lose everything else, but never a promise. */
#ifndef WEIR_REPLICA_IDENTITY_H
#define WEIR_REPLICA_IDENTITY_H

#include "common/base/clock.h"
#include "server/log/data_folder.h"
#include "server/replica/vote_store.h"

struct replica_identity_options {
	struct disk *disk;        /* outlives it */
	const char *path;         /* of the folder, created when missing; copied */
	const char *holder;       /* as for folder_open */
	uint8_t machine_boot[16]; /* process_machine_boot */
	const struct clock *clock;
	struct folder_identity who;
	enum vote_log log;
	struct folder_start start;
	uint64_t incarnation_least; /* as in server_options */
};

struct replica_identity {
	struct folder *folder;    /* NULL: closed, or never opened */
	struct vote_store *votes; /* the same */
};

/* Opens the folder. folder_begin later writes down this start. Errors: those of folder_open and
 * vote_store_open. Call replica_identity_close also after a failure; it closes what was opened. */
weir_status replica_identity_open(struct replica_identity *s, const struct replica_identity_options *options,
                                  weir_error *err) WEIR_MUST_CHECK;
/* clean: everything acknowledged is on disk. If anything was submitted, call vote_store_stop
 * first. */
void replica_identity_close(struct replica_identity *s, bool clean);

#endif
