/* The one thread of a server that writes to RocksDB. First in, first out, so that a row's later
 * version is written later, and a header after the rows that it speaks of. Flushes that wait at
 * the same time become one, behind all that is queued with them. A full disk is waited out: the
 * batch is tried again until there is room, and what waits behind it waits, unless the server
 * stops: then it and everything behind it is answered with E_NO_SPACE. Any other error is final
 * in the same way. */
#ifndef WEIR_COLD_WRITER_H
#define WEIR_COLD_WRITER_H

#include "common/base/callback_executor.h"
#include "common/system/logger.h"
#include "server/store/cold.h"

struct cold_writer;
struct cold_writer_options {
	struct cold *cold;
	struct logger *logger; /* may be NULL; says when the disk is full and when it no longer is */
	uint32_t retry_ms;     /* between tries on a full disk; 0: 1000 */
	/* Whether the server is to stop, and a full disk is not waited out any more. Asked between tries, by the thread that writes; may be NULL. */
	bool (*stopping)(void *arg);
	void *arg;
};

enum cold_write_kind { COLD_WRITE_ROWS, COLD_WRITE_HEADER, COLD_WRITE_EMPTY, COLD_WRITE_FLUSH }; /* EMPTY: cold_empty_partition */
/* The caller's, untouched while under way. done runs through `poster` when it is in RocksDB (FLUSH: on disk) or can never be. */
struct cold_write {
	enum cold_write_kind kind;
	struct row_batch rows; /* ROWS */
	uint32_t partition;    /* HEADER, EMPTY */
	const void *header;    /* the same */
	size_t header_bytes;
	struct poster poster;
	void (*done)(struct cold_write *w); /* status and err are set; err.text says what and where */
	weir_status status;
	weir_error err;
	struct cold_write *next; /* the writer's */
};

struct cold_writer *cold_writer_create(const struct cold_writer_options *options, weir_error *err);
/* From any thread; those of one thread are written in their order. */
void cold_writer_submit(struct cold_writer *w, struct cold_write *item);
/* Writes the item on the caller's thread, with the same patience; done is not called. For recovery: nothing is queued or submitted meanwhile. */
weir_status cold_writer_write_now(struct cold_writer *w, struct cold_write *item);
/* Whether a full disk holds it up now, or made it give up. From any thread. */
bool cold_writer_is_stuck(const struct cold_writer *w);
/* Writes what is queued (on a full disk: gives it up with E_NO_SPACE), joins the thread. Every done has been posted when it returns. NULL is allowed. */
void cold_writer_destroy(struct cold_writer *w);

#endif
