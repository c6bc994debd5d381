/* The records and the history that the sessions of coord_memory.c share. Its functions want the lock held; private to proto/. */
#ifndef WEIR_COORD_MEMORY_STORE_H
#define WEIR_COORD_MEMORY_STORE_H

#include <pthread.h>

#include "coord_memory.h"
#include "rpc_transport.h"

/* A record as it was at one revision, never changed once it is in the store; counted, as records, history and answers share it. */
struct coord_entry {
	uint32_t refs;
	struct coord_record record; /* its value is NULL where the record was deleted */
	char bytes[];               /* key, NUL, value */
};
struct coord_event {
	struct coord_entry *entry;
	int64_t at_ns;
};

struct coord_memory {
	pthread_mutex_t lock; /* guards all, and the sessions */
	const struct clock *clock;
	uint64_t revision, compacted;
	uint64_t leases; /* given out so far */
	bool down;
	struct coord_entry **records; /* (records_count), by key */
	size_t records_count, records_capacity;
	struct coord_event *history; /* (history_count), by revision */
	size_t history_count, history_capacity;
	struct rpc_link sessions;
};

void *coord_must_have(void *memory); /* or the process ends */
struct coord_entry *coord_entry_create(const char *key, const void *value, size_t value_bytes, uint64_t lease);
struct coord_entry *coord_entry_retain(struct coord_entry *e);
void coord_entry_release(struct coord_entry *e); /* NULL is allowed */

struct coord_entry *coord_store_find(struct coord_memory *m, const char *key); /* borrowed; NULL: no such record */
size_t coord_store_place(const struct coord_memory *m, const char *key);        /* of the first record at or after key */
/* Makes entries the records of their keys, at one new revision; takes them over. Deleting what is not there changes nothing. */
void coord_store_apply(struct coord_memory *m, struct coord_entry *const *entries, size_t count);
void coord_store_end_lease(struct coord_memory *m, uint64_t lease);
size_t coord_store_since(const struct coord_memory *m, uint64_t revision); /* the first event at or after it */

#endif
