/* Shared by the files of coord_records.h. Everything here runs on the session's thread. */
#ifndef WEIR_COORD_RECORDS_INTERNAL_H
#define WEIR_COORD_RECORDS_INTERNAL_H

#include "server/coord/coord_records.h"
#include "server/coord/coord_records_format.h"
#include "server/log/journal.h"

#define SLOTS (WEIR_PARTITIONS_MAX + 1u)

struct coord_records {
	struct coord_records_options options;
	char prefix[WEIR_COORD_KEY_BYTES_MAX];
	pthread_mutex_t lock;
	/* Guarded by lock. */
	struct coord_records_client *clients[SLOTS]; /* NULL: not hosted here */
	struct coord_records_client *asking;
	struct coord_records_placing *placing;
	struct coord_records_succession *succeeding;
	struct coord_records_look *looks;
	struct coord_records_marking *marking;
	bool turn_posted;
	/* The session's thread's. */
	struct coord *coord;       /* NULL: no session */
	struct coord_watch *watch; /* NULL: changes by others are not reported */
	/* The watch has missed something, or has not begun. */
	bool stale;
	/* Every change up to this revision has been reported. */
	uint64_t caught_up;
	struct coord_records_client *waiting, *reading; /* for the next read; for the one under way */
	struct coord_records_look *to_look, *looking;   /* likewise */
	bool read_under_way, reads_all;
	/* The session has this server's record; the record is being stored. */
	bool announced, announcing;
	bool displaced;          /* it has been told to end */
	uint64_t self_revision;  /* of this server's record, as last read or reported; 0: no record */
	uint64_t start_revision; /* likewise, of its last start */
	bool started;            /* the last start is this one */
	uint64_t mark_revision;  /* of its mark, as last stored or found; 0: unknown */
	/* lost: the session being opened has lost its lease already. closing: for good. */
	bool lost, closing;
	void (*ended)(void *arg);
	void *ended_arg;
	/* The keeper's, from keep to kept. */
	bool keeping, reopen;
	struct coord *kept; /* to be closed; then the session that was opened */
};

/* The partition's position among the clients. */
static inline uint32_t slot_of(uint16_t partition)
{
	return partition == JOURNAL_LEDGER ? WEIR_PARTITIONS_MAX : partition;
}

/* --- coord_records_keys.c */

/* Reads all records, or just one if the watch covers the rest and a single client asks. Answers the
 * waiting clients. Does nothing while a read is under way. */
void records_read(struct coord_records *a);
/* The watch has missed something: reads all records again. */
void records_missed(struct coord_records *a);
void record_change(struct coord_records_client *c);
void hosts_take_in(struct coord_records *a, uint16_t partition, const struct coord_record *r);
/* False: the record is not understood. */
bool next_take_in(struct coord_records *a, const struct coord_record *r, struct rewind_record *next);

/* --- coord_records_self.c: this server's own record */

void start_take_in(struct coord_records *a, uint16_t server, const struct coord_record *r);
void server_take_in(struct coord_records *a, uint16_t server, const struct coord_record *r);
/* Stores the record once it is known that no other process is this server. */
void self_announce(struct coord_records *a);
void self_mark(struct coord_records *a, struct coord_records_marking *m);

/* --- coord_records_place.c */

void place_all(struct coord_records *a, struct coord_records_placing *list);
void succeed_all(struct coord_records *a, struct coord_records_succession *list);

#endif
