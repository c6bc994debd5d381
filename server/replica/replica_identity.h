/* What a server is to the other replicas of its partitions: whose data its folder holds, which of its starts this is, what it has promised, and which of
 * its replicas have all that they ever acknowledged. Servers whose log is on disk have it, and those whose log is in memory where partitions have
 * replicas elsewhere: a promise must not be forgotten, even by who forgets everything else. */
#ifndef WEIR_STANDING_H
#define WEIR_STANDING_H

#include "common/base/clock.h"
#include "server/log/data_folder.h"
#include "server/replica/vote_store.h"

struct standing_options {
	struct disk *disk;        /* outlives it */
	const char *path;         /* of the folder, made when missing; copied */
	const char *holder;       /* folder_open's */
	uint8_t machine_boot[16]; /* process_machine_boot */
	const struct clock *clock;
	struct folder_identity who;
	enum promises_log log;
	struct folder_start start;
	uint64_t incarnation_least; /* as server_options has it */
};

struct standing {
	struct folder *folder;     /* NULL: closed, or never opened */
	struct promises *promises; /* the same */
};

/* Takes the folder; folder_begin writes this start down. Errors of folder_open and
 * promises_open; what was opened is closed by standing_close, also after a failure. */
weir_status standing_open(struct standing *s, const struct standing_options *options, weir_error *err) WEIR_MUST_CHECK;
/* clean: all that was acknowledged is on disk. Needs: promises_stop, where anything was submitted. */
void standing_close(struct standing *s, bool clean);

#endif
