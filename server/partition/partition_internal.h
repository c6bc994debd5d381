/* What the files of a partition share: partition.c (records in, entries into the log), partition_check.c (is a record right?), partition_role.c
 * (epochs begin, the log's end is cut off), partition_empty.c (all of it goes), partition_tail.c (what is in the log and not applied yet), partition_commit.c (committed entries in order,
 * replies out), partition_wait.c (who waits for what), partition_apply.c (entries to rows), partition_tables.c (which tables there are), partition_admit.c and partition_evict.c (which rows),
 * step.c (synchronous steps), partition_read.c (pulls and scans), partition_differences.c (pulls of what has changed), partition_follow.c (pulls of a replica that is not primary). Nobody else includes this. */
#ifndef WEIR_PARTITION_INTERNAL_H
#define WEIR_PARTITION_INTERNAL_H

#include "proto/frame/section_keys.h"
#include "server/partition/dedup.h"
#include "server/partition/delta_base.h"
#include "server/partition/partition.h"
#include "server/partition/record_table.h"
#include "server/partition/section_values.h"
#include "server/partition/step.h"
#include "server/records/epochs.h"
#include "server/store/cold_sweep.h"

#define APPLY_ROWS      256u /* embedding rows looked up and applied together */
#define ROW_KEYS_AHEAD  32u
#define PARTITION_MOVED "another server is its primary"

struct partition_table {
	struct store_table *rows;
	const weir_table_spec *spec;
	const struct optimizer *optimizer;
	bool is_logged;               /* an entry that is applied has brought it */
	bool full_decay;              /* rows that a push leaves out take its step too: optimizer_catch_up */
	struct optimizer_clock clock; /* state: as far as the entries applied here say */
	struct reference *reference;  /* dense: what trainers hold of it; NULL: nobody has asked */
	struct histogram *staleness;  /* NULL: of no push yet */
	struct partition_table_counters counters;
};

/* Memory that applying works in, allocated once. */
struct apply_scratch {
	uint64_t keys[APPLY_ROWS];
	float *rows[APPLY_ROWS];
	struct row_meta *metas[APPLY_ROWS];
	struct row_state *states[APPLY_ROWS];
	float values[WEIR_ROW_WIDTH_MAX];
	uint8_t tile[SECTION_TILE_BYTES];
	uint16_t offsets[CODEC_TILE + TOPK_SLACK];
	float sum[WEIR_ROW_WIDTH_MAX];
	float row[(1 + WEIR_OPTIMIZER_SLOTS_MAX) * WEIR_ROW_WIDTH_MAX];
	float rates[WEIR_TABLES_MAX + 1]; /* of the entry that a record becomes */
};

/* A record on its way through, to its reply. */
struct submission {
	struct submission *next; /* while it waits */
	struct partition *p;
	const struct record *r;
	const struct cursor *body;
	struct message *message;
	partition_reply_fn on_reply;
	void *arg;
	uint64_t ticket;      /* the rows it waits for; 0: none */
	uint64_t after;       /* the entry that must be applied before it is looked at; 0: none */
	uint64_t index;       /* of the entry that it has become; 0: none */
	uint64_t survives;    /* the reply waits until this log index is safe */
	struct message *made; /* EVICT: the entry's frame */
	struct unpacked {     /* a push that came with LZ4: what r, body and message are then */
		struct record r;
		struct cursor body;
		struct message *sections;
	} unpacked;
	struct partition_reply reply;
	weir_error err;
};

struct submissions { /* first in, first out */
	struct submission *first, **end;
};

/* A pull that waits for its step or its rows. */
struct parked {
	struct parked *next;
	const struct record *r;
	const struct cursor *body;
	uint64_t ticket; /* 0: of the step alone */
	int64_t deadline_ms;
	void (*ready)(void *arg, weir_status status);
	void *arg;
};

/* A reply that waits until what it says is safe, with copies of what it points to. */
struct deferred_reply;

/* One flush at a time: rows, then the header, then a sync. */
struct partition_flush_state {
	bool running, begun;   /* begun: the log is durable up to index, rows are being written */
	uint64_t index, needs; /* of the header: applied, and the first log entry that recovery from it needs */
	struct message *header;
	struct cold_write header_write, sync_write;
	int64_t next_ms;
	void (*done)(void *arg);
	void *arg;
};

/* What a replica that is not primary knows of how old it is. */
struct partition_following {
	bool on;          /* it is in sync */
	int64_t heard_ms; /* when its primary was heard last */
	int64_t level_ms; /* when it last had applied all that its primary had committed, at least */
	uint64_t goal;    /* the log's last index at goal_ms; 0: none. Once applied, level_ms is goal_ms */
	int64_t goal_ms;
};

/* The look for rows to evict: where it is. */
struct partition_eviction {
	bool busy;  /* a look below, or candidates, are under way */
	bool below; /* memory has been looked through, in this round */
	uint32_t table;
	uint64_t cursor; /* of store_look; below: a key */
	int64_t next_ms; /* of the next round */
	struct cold_sweep_request request;
	uint64_t keys[WEIR_EVICT_KEYS_MAX];
};

/* Rows of the entry being replayed that hold its effect already: bit i is the i-th row of its sections. NULL bits: none does. */
struct replay_skip {
	uint64_t *bits;
	size_t capacity; /* words */
	size_t row;      /* next one to be applied */
	bool active;
};

struct partition {
	struct partition_options options;
	struct store *store;
	struct identity identity;
	struct steps steps;
	struct partition_table *tables[WEIR_TABLES_MAX + 1];
	uint32_t tables_end; /* largest table id + 1 */
	uint64_t applied;    /* index of the last applied entry; the tail is what the log has behind it */
	uint64_t committed;  /* entries up to here may be applied */
	uint64_t epoch;      /* that its own entries are of; 0: none has begun here */
	bool beginning;      /* that epoch's first entry is not in the log yet */
	bool moved;          /* another replica is primary */
	bool paused;         /* records wait */
	bool halted;         /* what it has is to go */
	uint64_t origins;    /* references that it has begun, ever */
	weir_status failed;  /* an entry could not be applied: nothing is accepted any more */
	struct apply_scratch *scratch;
	struct epochs epochs;               /* of what is applied */
	struct store_options store_options; /* options.store points here */
	bool cold, closed;                  /* rows may be below memory; no longer */
	struct partition_pin *pins;
	struct replay_skip skip;
	uint64_t replayed;      /* rows may be ahead of entries up to here: what the log had when it was replayed */
	uint64_t fetched;       /* tickets up to here are served */
	uint64_t commit_ticket; /* the rows that the next committed entry waits for */
	uint64_t present;       /* the entry whose rows are in memory for certain, as it is being appended; 0: none */
	struct parked *parked;  /* pulls */
	bool parked_behind;     /* one of them waits for entries to be applied */
	struct partition_following following;
	/* That wait for rows; for space on the disk, or for the epoch to begin, or while paused; for their entries, in the log's order, to be applied; for other
	 * entries to be applied. */
	struct submissions unfetched, blocked, tail, unsettled;
	struct submission *spare; /* memory for the next one */
	struct deferred_reply *deferred, **deferred_end;
	uint64_t flushed; /* log index that the last complete flush covers */
	bool unflushed;   /* there was none: not even what it began with is in RocksDB */
	struct partition_flush_state flush;
	struct partition_eviction eviction;
	struct partition_counters counters;
};

/* One writer, many readers: no locked instruction needed. */
static inline void counter_bump(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline struct partition_table *partition_table(const struct partition *p, uint32_t id)
{
	return id < p->tables_end ? p->tables[id] : NULL;
}

/* --- partition_differences.c: pulls of dense tables by trainers that hold something of them */

/* Of what the section asks for, at most: what its table's pulls are coded as, or fp32. */
uint64_t pull_answer_max(const struct partition *p, const struct partition_table *t, const struct section *s);
/* Whether the section is answered with differences. Then the next two, one after the other: versions are made, and *bytes is the answer's data (E_MEMORY:
 * answer in fp32); it is written. */
bool wants_differences(const struct partition *p, const struct partition_table *t, const struct section *s);
weir_status differences_prepare(struct partition *p, struct partition_table *t, const struct section *s,
                                size_t *bytes) WEIR_MUST_CHECK;
void differences_write(const struct partition *p, const struct partition_table *t, const struct section *s, uint8_t *out);
/* Nobody asks here any more for what is held. */
void references_drop(struct partition *p);

/* --- partition_check.c */

/* The row keys of a section, in order, whatever its index codec. Of one that was not checked: at most as many as it has rows. */
struct row_keys {
	struct section_keys listed;
	uint64_t ahead[ROW_KEYS_AHEAD]; /* decoded together for who asks one by one: [at, end) are left */
	uint32_t at, end;
	uint64_t chunk, stride; /* INDEX_ALL: the next chunk */
	uint32_t left;
	bool all;
};
struct row_keys row_keys_of(const struct partition *p, const struct partition_table *t, const struct section *s);
size_t row_keys_next(struct row_keys *k, uint64_t *keys, size_t max); /* 0 only in the end */
/* Of all its rows. */
uint64_t section_elements(const struct partition *p, const struct partition_table *t, const struct section *s);

/* Checks every section: known table, its width, supported codecs, keys that live here, and data of the right size
 * (values; a pull has none). E_NOT_FOUND, E_INVALID, E_UNSUPPORTED. *sync: some table is synchronous; of a push all are or none. */
weir_status check_sections(const struct partition *p, const struct record *r, struct cursor body, bool *sync, weir_error *err);
/* Whether the keys of each table come once in a record whose sections were checked. E_INVALID, E_MEMORY.
 * Where a client's record comes in alone: entries of a log of before may have some twice, which count
 * twice. */
weir_status check_distinct(const struct partition *p, const struct record *r, struct cursor body, weir_error *err);
/* Whether all values of all sections are finite. On false *table is where. The sections were checked. */
bool sections_finite(const struct partition *p, const struct record *r, struct cursor body, uint32_t *table);

/* --- partition_apply.c */

/* Applies an entry. What it returns is the outcome for the one who sent it; p->failed is set when memory ran out. */
weir_status partition_apply(struct partition *p, const struct log_entry *e);
void partition_publish(struct partition *p); /* into the counters of the status report */
void row_meta_touch(struct row_meta *m, const struct log_entry *e);
/* The step of an asynchronous table that a push is: a function of its batch's place in the training,
 * so that it is the same in every partition, whoever computed the batch, and whenever. Tables with
 * local steps take one for a round. Of a push that does not say its place: the next here. */
uint64_t push_step(const struct partition_table *t, const struct record *push);
/* The table has taken this step, at this rate. */
void table_step(struct partition_table *t, uint64_t step, float lr);

/* --- partition_admit.c */

/* Whether pushes to all of these keys have effect already. */
bool rows_admitted(const struct partition_table *t, const uint64_t *keys, size_t count);
/* Whether the entry's push to the key has effect; one that has not is counted. E_MEMORY. */
weir_status row_admit(struct partition_table *t, uint32_t table, uint64_t key, const struct log_entry *e,
                      bool *admitted) WEIR_MUST_CHECK;

/* --- partition_evict.c */

weir_status submit_evict(struct submission *s, struct log_entry *e);
weir_status evict_apply(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK; /* E_MEMORY */
void evict_tick(struct partition *p, int64_t now_ms);

/* --- partition.c */

struct store *partition_new_store(struct partition *p); /* with its callbacks here; NULL: out of memory */

/* Makes the record the log's next entry: *e, which is to be appended. */
weir_status submission_enter(struct submission *s, struct log_entry *e);
/* Gives the entry the log's next place. */
void entry_place(const struct partition *p, struct log_entry *e);
/* The log has it; its rows are in memory. It may be applied before this returns. */
void entry_appended(struct partition *p, uint64_t index);
/* The log had no space: what comes waits. */
void note_full_disk(struct partition *p, const weir_error *err);
/* Lets the log's memory go below what steps and pins need. */
void partition_release_log(struct partition *p);

/* --- partition.c: what becomes of a record (record_table.h) */

weir_status submit_push(struct submission *s, struct log_entry *e);
weir_status submit_seal(struct submission *s, struct log_entry *e);
weir_status submit_close(struct submission *s, struct log_entry *e);
weir_status submit_retire(struct submission *s, struct log_entry *e);
weir_status submit_assign(struct submission *s, struct log_entry *e);
weir_status submit_resume(struct submission *s, struct log_entry *e);
weir_status want_rows(struct submission *s);
weir_status want_close(struct submission *s);

/* --- partition_apply.c: what an entry does (record_table.h) */

weir_status apply_push(struct partition *p, const struct log_entry *e);
weir_status apply_seal(struct partition *p, const struct log_entry *e);
weir_status apply_close(struct partition *p, const struct log_entry *e);
weir_status apply_retire(struct partition *p, const struct log_entry *e);
weir_status apply_assign(struct partition *p, const struct log_entry *e);
weir_status apply_evict(struct partition *p, const struct log_entry *e);
weir_status apply_table(struct partition *p, const struct log_entry *e);
weir_status apply_nothing(struct partition *p, const struct log_entry *e);

/* --- partition_tables.c */

void partition_free_tables(struct partition *p);
weir_status submit_table(struct submission *s, struct log_entry *e);
/* The entry is about to be put behind the log. Errors of partition_add_table and of keep_table: it must not be. */
weir_status table_take(struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
weir_status table_apply(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK;

/* --- partition_role.c */

/* Tries again to put the epoch's first entry into the log. */
void epoch_continue(struct partition *p);
/* Whether records wait before anything of them is looked at. */
bool role_holds_records(const struct partition *p);

/* --- partition_tail.c: entries in the log that are not applied yet */

/* Of record_table.h: whether what identity_check says to a push or a seal changes with e. */
bool tail_decides_identity(const struct record *e, const struct record *r);
bool tail_is_of_kind(const struct record *e, const struct record *r);

/* The entry of the tail that must be applied before r is looked at, as its answer may depend on it; 0: none. */
uint64_t tail_decides(const struct partition *p, const struct record *r);

/* --- partition_follow.c */

/* Whether this replica, which is not primary, may answer a pull: OK; E_BUSY: not yet, E_NOT_CURRENT: no; E_MOVED: nor would the pull let it. */
weir_status follow_pull(struct partition *p, const struct record *r);

/* --- partition_commit.c */

/* Applies what is committed, as far as its rows are in memory. */
void commit_continue(struct partition *p);

/* --- partition_rows.c: rows that a record needs in memory */

/* Asks for the embedding rows that a record's sections name, as far as they can be read. E_MEMORY. */
weir_status rows_want(struct partition *p, const struct record *r, struct cursor body) WEIR_MUST_CHECK;
/* The same for all that applying an entry changes. */
weir_status rows_want_entry(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK;
/* Sends for what was wanted; whether the caller must wait for *ticket. */
bool rows_missing(struct partition *p, uint64_t *ticket);

/* --- partition_wait.c */

void submissions_add(struct submissions *l, struct submission *s); /* taken over */
struct submission *submissions_pop(struct submissions *l);
/* Answers all of them with status and "partition N: why". */
void submissions_end(struct submissions *l, weir_status status, const char *why);
/* Runs a record: it is answered, or waits. Both take it over. */
void submission_run(struct submission *s);
/* Replies with s->reply.status, now or once what it says is safe. */
void submission_answer(struct submission *s);
/* The record is the log's last entry, of this epoch; whether that will do for an answer, which then has been given. */
bool submission_answer_appended(struct submission *s, const struct log_entry *e);
/* Answers all replies that wait to be safe with this status instead. */
void deferred_end(struct partition *p, weir_status status);
void unsettled_retry(struct partition *p);
void blocked_retry(struct partition *p);
void parked_wake(struct partition *p, int64_t now_ms);
void deferred_end(struct partition *p, weir_status status); /* answers all replies that wait for what they say to be durable */
void rows_fetched(void *arg, uint64_t ticket);              /* store_options.fetched */

/* --- partition_flush.c: the log is durable up to `durable` */
void flush_continue(struct partition *p, uint64_t durable);

/* --- partition_replay.c */

/* Which rows of the entry are ahead of it; E_MEMORY. */
weir_status replay_skip_find(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK;
/* A table that is missing, or rows that are not of it, would otherwise show as a broken invariant. Errors of check_sections. */
weir_status entry_check_tables(const struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
/* All that the log had when it was replayed is applied. */
void replay_end(struct partition *p);

static inline bool replay_skips(const struct partition *p, size_t row)
{
	return p->skip.active && (p->skip.bits[row / 64] >> row % 64 & 1);
}

#endif
