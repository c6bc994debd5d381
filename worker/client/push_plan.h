/* The parts of a batch: how a push is cut.
 *
 * The cut is a function of the schema and the batch's keys, never of the values. Per partition, first the asynchronous tables, then the synchronous
 * ones (an entry is applied at once or with its step): everything in one part when that fits WEIR_MESSAGE_BYTES_TARGET; else embedding rows in a power of two
 * of parts by a hash of the key, then dense chunks in order, grouped to the target. Parts are numbered in that order, also those without rows,
 * which are not sent. So a batch that is executed again has the same parts, and those that the servers hold already are left out. */
#ifndef WEIR_PARTS_H
#define WEIR_PARTS_H

#include "worker/client/client.h"
#include "worker/client/coder.h"
#include "worker/client/partition_keys.h"

struct push_item {
	struct table *table;
	const float *values;
	const float *scores; /* with `kept`: (rows) of the caller; NULL: none */
	const uint8_t *encoded;
	weir_codec codec;
	size_t element_bytes, row_bytes; /* as sent, of an embedding's row; element_bytes 0: cannot be cut at any */
	const weir_encoder
	    *encoder;           /* dense: it codes the values, which it alone reads; NULL: they are sent as they are, or as bf16 */
	bool *wanted;           /* with encoder: (chunks) which are to be coded */
	struct kept_rows *kept; /* embedding: it chooses the rows that are sent; NULL: all are */
	uint32_t rows_max;      /* with it: of one piece */
	bool coding;            /* either is in this push */
	bool pack;              /* by LZ4, where it pays */
	bool borrow;            /* the bytes to send lie in the caller's memory as they are, until done */
	uint32_t *crcs;         /* dense fp32 values: crc32c of each chunk; else NULL */
	struct split split;
};

struct piece {
	uint32_t item, begin, end;
};

struct part {
	uint16_t partition, part;
	bool synchronous;
	uint32_t first, count; /* pieces */
	size_t bytes;
};

struct push {
	struct push_item *items;
	size_t items_count;
	struct piece *pieces;
	uint32_t pieces_count, pieces_capacity;
	struct part *parts;
	uint32_t parts_count, parts_capacity;
	uint64_t place; /* of the batch in the training, counted from 1; 0: its unit's place tells */
	double weight;  /* of the batch in the mean of its step; 0: 1 */
	bool failed;    /* out of memory while planning */
	bool coding;    /* holds client->coding */
	uint8_t *coded; /* (coded_room): memory for a piece while it is written */
	size_t coded_room;
};

/* Checks the items, groups their rows and cuts them. assign: values are rows, sent as fp32. NULL: *err says why. */
struct push *push_open(weir_client *c, const weir_push_item *items, size_t count, bool copy, bool assign, weir_error *err);
void push_free(struct push *p);
/* Of rows [begin, end) of an item's split: keys and encoded values; of what an encoder codes, the most that it can be. */
size_t piece_bytes(const struct push_item *item, uint32_t begin, uint32_t end);
/* crc32c of a piece's encoded values, from its chunks'. Needs item->crcs. */
uint32_t piece_crc(const struct push_item *item, const struct piece *piece);

/* push.c: sends what the servers do not have of it, as this batch's push. Takes p over. */
weir_status push_start(weir_client *c, const weir_batch *batch, struct push *p, weir_done_fn done, void *arg, weir_ticket *ticket,
                       weir_error *err);

/* --- piece.c: a piece becomes a section. */

/* Before the first piece is written: wanted (parts_count) are the parts that will be. What fails is ended, too. E_MEMORY, E_BUSY. */
weir_status coding_begin(weir_client *c, struct push *p, const bool *wanted, weir_error *err);
void coding_end(weir_client *c, struct push *p);
/* True when memory was borrowed. */
bool piece_write(struct record_writer *w, const struct push *p, const struct piece *piece);

#endif
