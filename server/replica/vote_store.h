/* The vote store: the epochs that the replicas of this server have promised, and which of the
 * replicas are whole (replica.h). It is a small file of the data folder, of fixed size,
 * little-endian.
 *
 *   header, 64 bytes
 *    0  magic "weirprom"        8 bytes
 *    8  version = 1             u32     12  slots  u32   partitions of the job, then the ledger
 *   16  id                      16 bytes   whose file it is
 *   32  boot of the machine     16 bytes   of the start that wrote it; 0: not known
 *   48  incarnation             u64        of that start
 *   56  1: clean end            u8      57  enum vote_log      u8    58  zero   u16
 *   60  crc32c of the whole file with this field 0
 *   slot, 16 bytes
 *    0  promised                u64        the highest epoch; 0: none
 *    8  1: whole                u32     12  zero                   u32
 *
 * Each write creates the whole file under another name and exchanges the two (disk_rewrite_file). A
 * crash leaves the old file or the new one. A file that is neither was damaged otherwise, and is
 * refused: a server that forgets a promise may acknowledge to a replaced primary. The other file
 * keeps its space, so a full disk stops no failover.
 *
 * Group commit. The next write covers all requests that arrive during the current one. A server's
 * death costs the others one or two writes, however many partitions it was primary of.
 *
 * Whole. The replicas of a new file are not whole, because the file may follow one that was lost
 * with its folder. They become whole when their partition never had a primary (replica.h). A
 * restart finds a replica whole if it was whole before and its log has everything that it
 * acknowledged. The log has everything when the former process ended cleanly, or the machine has
 * not restarted since, or acknowledgements waited for fsync. Before vote_store_open returns, it
 * writes down this start and which replicas are not whole: a second end that looks better must not
 * make them whole again. */
#ifndef WEIR_VOTE_STORE_H
#define WEIR_VOTE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/callback_executor.h"
#include "common/system/disk.h"

#define VOTES_VERSION      1u
#define VOTES_HEADER_BYTES 64u
#define VOTES_SLOT_BYTES   16u

/* What an acknowledged entry survives. The numbers are the file's. */
enum vote_log {
	VOTE_LOG_MEMORY = 0, /* nothing: it is in the process */
	VOTE_LOG_CACHED = 1, /* the end of the process: it is in the page cache */
	VOTE_LOG_SYNCED = 2  /* a crash of the machine: it was fsynced first */
};

struct vote_store_options {
	struct disk *disk; /* outlives the vote store */
	const char *path;  /* of the file, in an existing, locked folder; copied */
	/* The file's owner: job, generation and server; a file of another owner is refused. */
	uint8_t id[16];
	uint8_t machine_boot[16]; /* process_machine_boot */
	uint32_t partitions;      /* of the job */
	enum vote_log log;
	/* The lowest incarnation to use. Incarnations in the file grow, but a folder may be lost and
	 * its server begin with an empty one. Peers must not take that for a former start. So this
	 * value comes from the coordinator (incarnation.h), or is the wall clock in ms. */
	uint64_t incarnation_least;
	/* No thread of its own: the caller calls vote_store_write. For simulators and tests. */
	bool stepped;
};

struct vote {
	uint64_t promised; /* epoch */
	bool whole;
};

struct vote_store;
/* Reads the file and writes down this start. E_CORRUPT: damaged; E_VERSION: of a newer Weir;
 * E_STATE: of another server or another number of partitions; nothing has changed then. E_NO_SPACE,
 * E_IO: the file could not be written. E_MEMORY; E_LIMIT: no thread could be started. */
weir_status vote_store_open(struct vote_store **out, const struct vote_store_options *options, weir_error *err) WEIR_MUST_CHECK;
/* Writes what is queued, and returns when every `done` has been posted. Nobody may submit any more.
 * Does nothing for NULL and when called again. */
void vote_store_stop(struct vote_store *p);
/* Stops and frees; NULL does nothing. clean: the process ends cleanly, and everything acknowledged
 * is on disk. If that cannot be written, the next start assumes a crash, which is always safe. */
void vote_store_close(struct vote_store *p, bool clean);

/* of this start: larger than all before, at least 1 */
uint64_t vote_store_incarnation(const struct vote_store *p);
/* The promise that vote_store_open found. partition: its id, or JOURNAL_LEDGER. */
struct vote vote_store_found(const struct vote_store *p, uint16_t partition);

/* The caller owns it and leaves it alone until `done`. */
struct vote_write {
	uint16_t partition; /* or JOURNAL_LEDGER */
	struct vote vote;
	struct callback_executor run_on;
	/* Runs on `run_on`. OK: it is on disk, and may be acted on. E_NO_SPACE: it is not, and may
	 * be submitted again. Any other status is final: nothing will be written any more. err.text
	 * says what and where. */
	void (*done)(struct vote_write *w);
	weir_status status;
	weir_error err;
	struct vote_write *next; /* the vote store's */
};
/* Submits a write, from any thread. Writes of one thread keep their order. An epoch below the
 * promised one leaves the promise as it is. */
void vote_store_submit(struct vote_store *p, struct vote_write *w);
/* For `stepped`: writes all that is queued at once, and returns when each `done` has been posted.
 * False: the queue was empty. */
bool vote_store_write(struct vote_store *p);

/* The log's storage has failed, and the page cache may have dropped acknowledged entries. The next
 * start on this boot of the machine therefore finds no replica whole, unless acknowledgements
 * waited for fsync. Returns when that is on disk. Any thread. */
weir_status vote_store_distrust_log(struct vote_store *p, weir_error *err);

#endif
