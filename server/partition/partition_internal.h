/* Shared by the files of a partition; no other file includes this header.
 *
 *   partition.c              its life, checks of each kind of record
 *   partition_record.c       records from arrival to reply: the drawing of their states
 *   partition_reply.c        replies, now or once their entries are safe
 *   partition_check.c        checks of records
 *   partition_role.c         starts of epochs, cuts of the log's end
 *   partition_empty.c        return to the state at creation
 *   partition_tail.c         entries in the log that are not applied
 *   partition_commit.c       committed entries in order, replies out
 *   partition_wait.c         waiting pulls; what makes waiting go on
 *   partition_apply.c        entries to rows
 *   partition_tables.c       the tables
 *   partition_admit.c        admission of rows
 *   partition_evict.c        eviction of rows
 *   step.c                   synchronous steps
 *   partition_read.c         pulls and scans
 *   partition_differences.c  pulls of differences
 *   partition_follow.c       pulls at a replica that is not primary */
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

#define APPLY_ROWS      256u /* embedding rows that are looked up and applied together */
#define ROW_KEYS_AHEAD  32u
#define PARTITION_MOVED "another server is its primary"

struct partition_table {
	struct store_table *rows;
	const weir_table_spec *spec;
	const struct optimizer *optimizer;
	bool is_logged;                /* an applied entry has brought it */
	bool full_decay;               /* rows outside a push take its step too: optimizer_catch_up */
	struct optimizer_clock clock;  /* part of the state: as far as the entries applied here tell */
	struct delta_base *delta_base; /* of a dense table: its delta base; NULL: not asked for yet */
	struct histogram *staleness;   /* NULL: no push yet */
	struct partition_table_counters counters;
};

/* Work memory for applying, allocated once. */
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

/* The states of a record; partition_record.c draws how it gets from one to another. */
enum record_state {
	STATE_CHECKED,   /* in hand: it is looked at */
	STATE_HELD,      /* waits for the epoch to begin, the end of a pause, or disk space */
	STATE_BEHIND,    /* waits for entries to be applied, because they may change its answer */
	STATE_UNFETCHED, /* waits for its rows, which are on disk */
	STATE_LOGGED,    /* is an entry of the log, which waits to be committed and applied */
	STATE_UNSAFE,    /* its reply waits until the entries that it reports are safe */
	STATE_ANSWERED
};

/* A record on its way to its reply. */
struct submission {
	enum record_state state;
	struct submission *next; /* among those of its state */
	struct partition *p;
	const struct record *r;
	const struct cursor *body;
	struct message *message;
	partition_reply_fn on_reply;
	void *arg;
	uint64_t ticket;      /* UNFETCHED: of its rows */
	uint64_t after;       /* BEHIND: the last entry that it waits for */
	uint64_t index;       /* of the entry that the record has become; 0: none */
	uint64_t survives;    /* the reply waits until this log index is safe */
	int64_t begun_ns;     /* of the trace's present span; 0: none */
	uint8_t *bitmap;      /* UNSAFE: the reply's */
	struct message *made; /* EVICT: the frame of the entry */
	struct unpacked {     /* a push that came with LZ4: r, body and message then point here */
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

/* A pull that waits. */
struct parked {
	enum record_state state; /* BEHIND or UNFETCHED */
	struct parked *next;
	const struct record *r;
	const struct cursor *body;
	uint64_t ticket; /* UNFETCHED: of its rows */
	int64_t deadline_ms;
	void (*ready)(void *arg, weir_status status);
	void *arg;
};

/* One flush at a time: rows, then the header, then a sync. */
struct partition_flush_state {
	bool running, begun; /* begun: the log is durable up to index, and rows are being written */
	/* Of the header: the applied index, and the first log entry that recovery from it needs. */
	uint64_t index, needs;
	struct message *header;
	struct cold_write header_write, sync_write;
	int64_t next_ms;
	void (*done)(void *arg);
	void *arg;
};

/* What a replica that is not primary knows of its own age. */
struct partition_following {
	bool on;          /* the replica is in sync */
	int64_t heard_ms; /* when the primary was last heard */
	/* Lower bound of the last time at which it had applied all that the primary had committed. */
	int64_t level_ms;
	/* The log's last index at goal_ms; 0: none. Once it is applied, level_ms becomes goal_ms. */
	uint64_t goal;
	int64_t goal_ms;
};

/* The search for rows to evict: its position. */
struct partition_eviction {
	bool busy;  /* a search below memory, or a set of candidates, is under way */
	bool below; /* memory has been searched in this round */
	uint32_t table;
	uint64_t cursor; /* of store_look; below memory: a key */
	int64_t next_ms; /* when the next round begins */
	struct cold_sweep_request request;
	uint64_t keys[WEIR_EVICT_KEYS_MAX];
};

/* Rows that already hold the effect of the entry being replayed: bit i is row i of its sections.
 * NULL bits: no row does. */
struct replay_skip {
	uint64_t *bits;
	size_t capacity; /* words */
	size_t row;      /* the next one to apply */
	bool active;
};

struct partition {
	struct partition_options options;
	struct store *store;
	struct dedup identity;
	struct steps steps;
	struct partition_table *tables[WEIR_TABLES_MAX + 1];
	uint32_t tables_end; /* largest table id + 1 */
	uint64_t applied;    /* index of the last applied entry; the tail is the log behind it */
	uint64_t committed;  /* entries up to here may be applied */
	uint64_t epoch;      /* of its own entries; 0: it has begun none */
	bool beginning;      /* the epoch's first entry is not in the log yet */
	bool moved;          /* another replica is primary */
	bool paused;         /* records are held */
	bool halted;         /* the state is about to be discarded */
	uint64_t origins;    /* delta bases that it has created, ever */
	weir_status failed;  /* an entry could not be applied: nothing is accepted any more */
	struct apply_scratch *scratch;
	struct epochs epochs;               /* of the applied entries */
	struct store_options store_options; /* options.store points here */
	/* Cold: rows may be below memory. Closed: they are no longer fetched or written. */
	bool cold, closed;
	struct partition_pin *pins;
	struct replay_skip skip;
	/* Rows may be ahead of entries up to here: the log's last index at recovery. */
	uint64_t replayed;
	uint64_t fetched;       /* tickets up to here are served */
	uint64_t commit_ticket; /* of the rows that the next committed entry waits for */
	/* The entry that is being appended, whose rows are in memory for certain; 0: none. */
	uint64_t present;
	struct parked *parked; /* pulls */
	bool parked_behind;    /* some pull waits for entries to be applied */
	struct partition_following following;
	/* Those that wait, by state. Each in order of arrival; LOGGED so in the log's order. */
	struct submissions waiting[STATE_ANSWERED];
	struct submission *spare; /* memory for the next one */
	uint64_t flushed;         /* log index that the last complete flush covers */
	bool unflushed;           /* no flush yet: not even the initial state is in RocksDB */
	struct partition_flush_state flush;
	struct partition_eviction eviction;
	struct partition_counters counters;
};

/* One writer and many readers, so no locked instruction is needed. */
static inline void counter_bump(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline struct partition_table *partition_table(const struct partition *p, uint32_t id)
{
	return id < p->tables_end ? p->tables[id] : NULL;
}

/* A lower layer has failed for good. */
static inline void host_fail(const struct partition *p, const weir_error *err)
{
	if (p->options.host.ops)
		p->options.host.ops->failed(p->options.host.arg, err);
}

/* --- partition_differences.c: pulls of dense tables by trainers that hold a version of them */

/* The most bytes that the section's answer can have, coded as its table's pulls or as fp32. */
uint64_t pull_answer_max(const struct partition *p, const struct partition_table *t, const struct section *s);
/* Whether the section is answered with differences. Then call the next two in order.
 * differences_prepare makes versions and sets *bytes to the size of the answer's data (E_MEMORY:
 * answer in fp32). differences_write writes the data. */
bool wants_differences(const struct partition *p, const struct partition_table *t, const struct section *s);
weir_status differences_prepare(struct partition *p, struct partition_table *t, const struct section *s,
                                size_t *bytes) WEIR_MUST_CHECK;
void differences_write(const struct partition *p, const struct partition_table *t, const struct section *s, uint8_t *out);
/* Drops all delta bases; trainers ask another replica now. */
void references_drop(struct partition *p);

/* --- partition_check.c */

/* The row keys of a section in order, for any index codec. An unchecked section gives at most as
 * many keys as it has rows. */
struct row_keys {
	struct section_keys listed;
	/* Keys decoded ahead for callers that take one at a time: [at, end) are left. */
	uint64_t ahead[ROW_KEYS_AHEAD];
	uint32_t at, end;
	uint64_t chunk, stride; /* INDEX_ALL: the next chunk */
	uint32_t left;
	bool all;
};
struct row_keys row_keys_of(const struct partition *p, const struct partition_table *t, const struct section *s);
size_t row_keys_next(struct row_keys *k, uint64_t *keys, size_t max); /* 0 only at the end */
/* Elements of all its rows. */
uint64_t section_elements(const struct partition *p, const struct partition_table *t, const struct section *s);

/* Checks every section: known table, its width, supported codecs, keys that live here, and data of
 * the right size (values; a pull has none). E_NOT_FOUND, E_INVALID, E_UNSUPPORTED. *sync: some
 * table is synchronous. In a push, all tables are synchronous or none is. */
weir_status check_sections(const struct partition *p, const struct record *r, struct cursor body, bool *sync, weir_error *err);
/* Checks that the keys of each table are distinct in a record whose sections were checked.
 * E_INVALID, E_MEMORY. Only records from clients are checked: entries of an older log may have a
 * key twice, which then counts twice. */
weir_status check_distinct(const struct partition *p, const struct record *r, struct cursor body, weir_error *err);
/* Whether all values of all sections are finite. When not, *table is the first table with one that
 * is not. The sections were checked. */
bool sections_finite(const struct partition *p, const struct record *r, struct cursor body, uint32_t *table);

/* --- partition_apply.c */

/* Applies an entry. Returns the outcome for the sender. Sets p->failed when out of memory. */
weir_status partition_apply(struct partition *p, const struct log_entry *e);
void partition_publish(struct partition *p); /* into the counters of the status report */
void row_meta_touch(struct row_meta *m, const struct log_entry *e);
/* The step of an asynchronous table that a push is. It depends only on the place of the push's
 * batch in the training, so it is the same in every partition, whoever computed the batch, and
 * whenever. A round is one step in tables with local steps. For a push that does not give its
 * place, it is the table's next step here. */
uint64_t push_step(const struct partition_table *t, const struct record *push);
/* The table has taken this step at this rate. */
void table_step(struct partition_table *t, uint64_t step, float lr);

/* --- partition_admit.c */

/* Whether pushes to all of these keys take effect. */
bool rows_admitted(const struct partition_table *t, const uint64_t *keys, size_t count);
/* Sets *admitted to whether the entry's push to the key takes effect; counts it if not.
 * E_MEMORY. */
weir_status row_admit(struct partition_table *t, uint32_t table, uint64_t key, const struct log_entry *e,
                      bool *admitted) WEIR_MUST_CHECK;

/* --- partition_evict.c */

weir_status submit_evict(struct submission *s, struct log_entry *e);
/* E_MEMORY */
weir_status evict_apply(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK;
void evict_tick(struct partition *p, int64_t now_ms);

/* --- partition.c */

/* With the partition's callbacks; NULL: out of memory. */
struct store *partition_new_store(struct partition *p);

/* Fills *e, the record's entry, which is to be appended next. */
weir_status submission_enter(struct submission *s, struct log_entry *e);
/* Gives the entry the log's next index. */
void entry_place(const struct partition *p, struct log_entry *e);
/* The log has the entry, and its rows are in memory. May apply it before returning. */
void entry_appended(struct partition *p, uint64_t index);
/* The log has no space: records wait from now on. */
void note_full_disk(struct partition *p, const weir_error *err);
/* Lets the log free memory below the entries that steps and pins need. */
void partition_release_log(struct partition *p);

/* --- partition.c: submission of records (record_table.h) */

weir_status submit_push(struct submission *s, struct log_entry *e);
weir_status submit_seal(struct submission *s, struct log_entry *e);
weir_status submit_close(struct submission *s, struct log_entry *e);
weir_status submit_retire(struct submission *s, struct log_entry *e);
weir_status submit_assign(struct submission *s, struct log_entry *e);
weir_status submit_resume(struct submission *s, struct log_entry *e);
weir_status want_rows(struct submission *s);
weir_status want_close(struct submission *s);

/* --- partition_apply.c: effects of entries (record_table.h) */

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
/* Call before the entry is appended. Errors of partition_add_table and of keep_table: do not append
 * it. */
weir_status table_take(struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
weir_status table_apply(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK;

/* --- partition_role.c */

/* Tries again to append the epoch's first entry. */
void epoch_continue(struct partition *p);
/* Whether records wait before they are looked at. */
bool role_holds_records(const struct partition *p);

/* --- partition_tail.c: entries in the log that are not applied yet */

/* For record_table.h: whether e changes the verdict of dedup_check on a push or seal r. */
bool tail_decides_identity(const struct record *e, const struct record *r);
bool tail_is_of_kind(const struct record *e, const struct record *r);

/* The entry of the tail that must be applied before r is looked at, because r's answer may depend
 * on it; 0: none. */
uint64_t tail_decides(const struct partition *p, const struct record *r);

/* --- partition_follow.c */

/* Whether this replica, which is not primary, may answer a pull. OK; E_BUSY: not yet;
 * E_NOT_CURRENT: it cannot; E_MOVED: the pull does not allow it. */
weir_status follow_pull(struct partition *p, const struct record *r);

/* --- partition_commit.c */

/* Applies committed entries as far as their rows are in memory. */
void commit_continue(struct partition *p);

/* --- partition_rows.c: rows that a record needs in memory */

/* Requests the embedding rows that a record's sections name, as far as the sections can be read.
 * E_MEMORY. */
weir_status rows_want(struct partition *p, const struct record *r, struct cursor body) WEIR_MUST_CHECK;
/* The same for all rows that applying an entry changes. */
weir_status rows_want_entry(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK;
/* Fetches the requested rows. Returns whether the caller must wait for *ticket. */
bool rows_missing(struct partition *p, uint64_t *ticket);

/* --- partition_record.c */

/* Lets it wait in this state, behind those that do already. Takes it over. */
void submission_wait(struct submission *s, enum record_state state);
/* NULL: none waits in this state. */
static inline struct submission *submission_first(const struct partition *p, enum record_state state)
{
	return p->waiting[state].first;
}
/* Takes the first one out. It must be answered, or wait again. */
struct submission *submission_pop(struct partition *p, enum record_state state);
/* Checks the records of a waiting state again if they wait no longer. */
void submissions_check_again(struct partition *p, enum record_state state);
/* The same for STATE_HELD. The epoch may begin now, or the disk have space. */
void held_check_again(struct partition *p);
/* Answers all records of a waiting state with status and "partition N: why". */
void submissions_end(struct partition *p, enum record_state state, weir_status status, const char *why);

/* --- partition_reply.c */

/* Replies with s->reply.status, now or once the entries that it reports are safe. Takes it over. */
void submission_answer(struct submission *s);
/* The record is now the log's last entry, of the current epoch. Answers it if that is enough for an
 * answer (PARTITION_ACK_PRIMARY). Returns whether it did. */
bool submission_answer_appended(struct submission *s, const struct log_entry *e);
/* Replies with this status instead to all that are UNSAFE. */
void replies_end(struct partition *p, weir_status status);

/* --- partition_wait.c */

/* Answers the parked pulls that wait no longer, or whose deadline is at or before now_ms. */
void parked_wake(struct partition *p, int64_t now_ms);
void rows_fetched(void *arg, uint64_t ticket); /* store_options.fetched */

/* --- partition_flush.c: the log is durable up to `durable` */
void flush_continue(struct partition *p, uint64_t durable);

/* --- partition_replay.c */

/* Finds the rows that already hold the entry's effect. E_MEMORY. */
weir_status replay_skip_find(struct partition *p, const struct log_entry *e) WEIR_MUST_CHECK;
/* Checks the entry's tables and rows. A missing table, or rows that do not belong to it, would
 * otherwise show as a broken invariant. Errors of check_sections. */
weir_status entry_check_tables(const struct partition *p, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
/* All entries that the log had at recovery are applied. */
void replay_end(struct partition *p);

static inline bool replay_skips(const struct partition *p, size_t row)
{
	return p->skip.active && (p->skip.bits[row / 64] >> row % 64 & 1);
}

#endif
