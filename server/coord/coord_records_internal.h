/* Between the files of authority.h. All of it is the session's thread's. */
#ifndef WEIR_AUTHORITY_INTERNAL_H
#define WEIR_AUTHORITY_INTERNAL_H

#include "server/coord/coord_records.h"
#include "server/coord/coord_records_format.h"
#include "server/log/journal.h"

#define SLOTS (WEIR_PARTITIONS_MAX + 1u)

struct authority {
	struct authority_options options;
	char prefix[WEIR_COORD_KEY_BYTES_MAX];
	pthread_mutex_t lock;
	/* Guarded by it. */
	struct authority_client *clients[SLOTS]; /* NULL: not hosted here */
	struct authority_client *asking;
	struct authority_placing *placing;
	struct authority_succession *succeeding;
	struct authority_look *looks;
	struct authority_marking *marking;
	bool turn_posted;
	/* The session's thread's. */
	struct coord *coord;                        /* NULL: there is none */
	struct coord_watch *watch;                  /* NULL: what others change is not told */
	bool stale;                                 /* it has missed something, or has not begun */
	uint64_t caught_up;                         /* every change up to this revision has been told */
	struct authority_client *waiting, *reading; /* for the next read, for the one under way */
	struct authority_look *to_look, *looking;   /* the same */
	bool read_under_way, reads_all;
	bool announced, announcing; /* the session has the record of this server; it is being put */
	bool displaced;             /* it has been told to end */
	uint64_t self_revision;     /* of what the coordinator has of this server, as was read or told last; 0: nothing */
	uint64_t start_revision;    /* the same, of its last start */
	bool started;               /* that is this one */
	uint64_t mark_revision;     /* of its mark, as was put or found last; 0: not known */
	bool lost, closing;         /* the session that is being opened has lost its lease already; for good */
	void (*ended)(void *arg);
	void *ended_arg;
	/* The keeper's, from keep to kept. */
	bool keeping, reopen;
	struct coord *kept; /* to be closed; then the one that was opened */
};

/* Of a partition among the clients. */
static inline uint32_t slot_of(uint16_t partition)
{
	return partition == JOURNAL_LEDGER ? WEIR_PARTITIONS_MAX : partition;
}

/* --- authority_records.c */

/* Reads everything, unless the watch tells the rest and one asks; whoever waits is told. Does nothing while a read is under way. */
void records_read(struct authority *a);
/* The watch has missed something: everything is read again. */
void records_missed(struct authority *a);
void record_change(struct authority_client *c);
void hosts_take_in(struct authority *a, uint16_t partition, const struct coord_record *r);
/* False: it is none that is understood. */
bool next_take_in(struct authority *a, const struct coord_record *r, struct rewind_record *next);

/* --- authority_self.c: this server's own record */

void start_take_in(struct authority *a, uint16_t server, const struct coord_record *r);
void server_take_in(struct authority *a, uint16_t server, const struct coord_record *r);
/* Once it is known that nobody else is this server. */
void self_announce(struct authority *a);
void self_mark(struct authority *a, struct authority_marking *m);

/* --- authority_place.c */

void place_all(struct authority *a, struct authority_placing *list);
void succeed_all(struct authority *a, struct authority_succession *list);

#endif
