/* What the replicas of this server have promised, and which of them are whole (replica.h): a small file of its data folder, of fixed size, little-endian.
 *
 *   header, 64 bytes
 *    0  magic "weirprom"        8 bytes
 *    8  version = 1             u32     12  slots                  u32   partitions of the job, and the ledger behind them
 *   16  id                      16 bytes   whose file it is
 *   32  boot of the machine     16 bytes   of the start that wrote it; 0: not known
 *   48  incarnation             u64        of that start
 *   56  1: it ended in order    u8      57  enum promises_log      u8    58  zero   u16
 *   60  crc32c of the whole file with this field 0
 *   slot, 16 bytes
 *    0  promised                u64        the highest epoch; 0: none
 *    8  1: whole                u32     12  zero                   u32
 *
 * Every write makes the whole file anew, under another name, and exchanges the two (disk_rewrite_file):
 * a crash leaves the old one or the new one. One that is neither was damaged by something else, and is
 * refused: who forgets a promise may acknowledge to a primary that has been replaced. The other file
 * keeps its space, so a full disk stops no failover.
 *
 * Group commit. What comes while a write is under way is written together by the next one: a server that dies costs the others one or two writes, however
 * many partitions it was primary of.
 *
 * Whole. A new file's replicas are not: they become it where there never was a primary (replica.h), as a new file may follow one that was lost with its folder. A
 * restart finds a replica whole if it was so before and nothing that it had acknowledged can be missing from its log: the former process ended in order, or the machine has not been started since, or acknowledgements waited for fsync. Who is not whole then is written down as such, together with the
 * new start, before promises_open returns: a second end that looks better must not make it whole again. */
#ifndef WEIR_PROMISES_H
#define WEIR_PROMISES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/callback_executor.h"
#include "common/system/disk.h"

#define PROMISES_VERSION      1u
#define PROMISES_HEADER_BYTES 64u
#define PROMISES_SLOT_BYTES   16u

/* What an acknowledged entry survives. Numbers are the file's. */
enum promises_log {
	PROMISES_LOG_MEMORY = 0, /* nothing: the process has it */
	PROMISES_LOG_CACHED = 1, /* the process: it is in the page cache */
	PROMISES_LOG_SYNCED = 2  /* the machine: it was fsynced first */
};

struct promises_options {
	struct disk *disk;        /* outlives the promises */
	const char *path;         /* of the file; its folder is there and locked. Copied */
	uint8_t id[16];           /* whose file it is: job, generation and server; another's is refused */
	uint8_t machine_boot[16]; /* process_machine_boot */
	uint32_t partitions;      /* of the job */
	enum promises_log log;
	/* The incarnation is no lower. The file makes incarnations grow, but a folder may be lost, and its
	 * server begin with an empty one: peers must not take that for a former start. So this was
	 * taken from the coordinator (incarnation.h), or is the wall clock in ms. */
	uint64_t incarnation_least;
	bool stepped; /* no thread of its own: the caller calls promises_write. For simulators and tests */
};

struct promise {
	uint64_t promised; /* epoch */
	bool whole;
};

struct promises;
/* Reads the file, and has written down this start when it returns. E_CORRUPT: damaged; E_VERSION: of a newer Weir; E_STATE: another server's, or of another
 * number of partitions: nothing was changed then. E_NO_SPACE, E_IO: it could not be written. */
weir_status promises_open(struct promises **out, const struct promises_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Writes what is queued, and returns when every `done` has been posted. Needs: nobody submits any more. NULL is allowed, and so is doing it again. */
void promises_stop(struct promises *p);
/* Stops, and frees. clean: the process ends in order, all that was acknowledged is on disk; if that cannot be written, the next start takes it for a
 * crash, which is never wrong. NULL is allowed. */
void promises_close(struct promises *p, bool clean);

uint64_t promises_incarnation(const struct promises *p); /* of this start, larger than all before; from 1 */
/* As promises_open has found it. partition: its id, or JOURNAL_LEDGER. */
struct promise promises_found(const struct promises *p, uint16_t partition);

/* The caller's, untouched while under way. */
struct promise_write {
	uint16_t partition; /* or JOURNAL_LEDGER */
	struct promise promise;
	struct poster poster;
	/* Runs through `poster`. OK: it is on disk, and may be acted on. E_NO_SPACE: it is not, and may be submitted again. Anything else is final: nothing
	 * will be written any more. err.text says what and where. */
	void (*done)(struct promise_write *w);
	weir_status status;
	weir_error err;
	struct promise_write *next; /* ours */
};
/* From any thread; those of one thread count in their order. An epoch below one that was promised changes nothing about that. */
void promises_submit(struct promises *p, struct promise_write *w);
/* Writes all that is queued, at once; each done has been posted when it returns. False: nothing was. For `stepped`. */
bool promises_write(struct promises *p);

/* The log's storage has failed: the page cache may have dropped what was acknowledged, so the next start on this boot of the machine finds no replica whole
 * unless acknowledgements waited for fsync. Returns when that is on disk. Any thread. */
weir_status promises_distrust_log(struct promises *p, weir_error *err);

#endif
