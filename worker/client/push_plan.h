/* The parts of a batch: how a push is divided.
 *
 * The division is a function of the schema and the batch's keys, never of the values. In each
 * partition the asynchronous tables come first, then the synchronous ones (an entry is applied at
 * once or with its step). A class of tables that fits WEIR_MESSAGE_BYTES_TARGET is one part.
 * Otherwise a hash of the key divides embedding rows into a power of two of parts; then dense
 * chunks follow in order, grouped up to the target. Chunks of synchronous tables larger than
 * WEIR_LAYERED_CHUNKS are in smaller groups, apart from rows, so that some can leave before the
 * gradients of others are computed (push_stream.h). Parts are numbered in that order. A part
 * without rows has a number, too, but is not sent. So a batch that is executed again has the same
 * parts, and the client leaves out those that the servers hold already. */
#ifndef WEIR_PUSH_PLAN_H
#define WEIR_PUSH_PLAN_H

#include "worker/client/client.h"
#include "worker/client/coder.h"
#include "worker/client/partition_keys.h"

#define LAYERED_PARTS 16u /* of a synchronous dense table in one partition, about */

struct push_item {
	struct table *table;
	const float *values;
	const float *scores; /* with `kept`: the caller's (rows); NULL: none */
	const uint8_t *encoded;
	weir_codec codec;
	/* As sent: of an element; of an embedding's row. element_bytes 0: cannot be divided at
	 * elements. */
	size_t element_bytes, row_bytes;
	/* dense: codes the values, which only it reads; NULL: values are sent unchanged, or as bf16 */
	const weir_encoder *encoder;
	bool *wanted;                /* with encoder: (chunks) the chunks to code */
	struct row_sparsifier *kept; /* embedding: selects the rows to send; NULL: all are sent */
	uint32_t rows_max;           /* with kept: rows of one piece at most */
	bool coding;                 /* this push uses the encoder or `kept` */
	bool pack;                   /* with LZ4, if it pays */
	/* The bytes to send lie in the caller's memory unchanged, until the push completes. */
	bool borrow;
	uint32_t *crcs; /* dense fp32 values: crc32c of each chunk; else NULL */
	struct partition_keys groups;
};

struct section_plan {
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
	struct section_plan *sections;
	uint32_t sections_count, sections_capacity;
	struct part *parts;
	uint32_t parts_count, parts_capacity;
	uint32_t partitions;
	/* Of the batch in the training, counted from 1; 0: derived from its unit's place. */
	uint64_t place;
	double weight;  /* of the batch in the mean of its step; 0: 1 */
	bool failed;    /* out of memory while planning */
	bool coding;    /* holds client->coding */
	uint8_t *coded; /* (coded_room): memory for a piece while it is written */
	size_t coded_room;
};

struct push_reading {
	bool copy;   /* the caller's memory may change once the push is sent */
	bool assign; /* values are rows, sent as fp32 */
	/* values are not there yet: push_read_item or push_read_chunk checks them before they are
	 * sent */
	bool later;
};

/* Checks the items, groups their rows and divides them. NULL: *err says why. */
struct push *push_open(weir_client *c, const weir_push_item *items, size_t count, const struct push_reading *reading,
                       weir_error *err);
/* `later`: checks the item's values, or one chunk of a dense table's. */
weir_status push_read_item(struct push_item *item, const weir_push_item *in, weir_error *err);
bool push_read_chunk(struct push_item *item, uint64_t chunk);
void push_destroy(struct push *p);
/* Size of rows [begin, end) of an item's split: keys and encoded values; an upper bound for values
 * that an encoder codes. */
size_t section_plan_bytes(const struct push_item *item, uint32_t begin, uint32_t end);
/* crc32c of a piece's encoded values, computed from its chunks'. Needs item->crcs. */
uint32_t section_plan_crc(const struct push_item *item, const struct section_plan *section);

/* push_send.c. What the records of a push have in common. */
struct push_send {
	struct record template;
	uint64_t *applied; /* (partitions) as its batch saw them; NULL: does not matter */
	uint64_t step;
};
/* Writes and sends the records of the requests, server by server. chosen (parts): of these parts;
 * NULL: of all. E_MEMORY; other failures are those of the operation. */
weir_status push_send(struct operation *op, const struct push_send *how, const bool *chosen);

/* push.c. A batch's push from its first part to its last. */
struct push_run {
	struct operation *op, *told; /* told: the one that the caller waits for */
	struct push_send send;
	bool *wanted; /* (parts) the servers do not have them */
};
/* Notes the push in its unit's records. Takes p over. */
weir_status push_begin(struct push_run *run, weir_client *c, const weir_batch *batch, struct push *p, weir_error *err);
/* All is sent, or nothing more can be: then status says why. */
void push_end(struct push_run *run, weir_status status);
/* The parts that are not sent will not be, and the batch does not count in its step. push_end
 * follows. */
void push_withdraw(struct push_run *run, const bool *sent, const char *why);
/* Sends as this batch's push the parts that the servers do not have. Takes p over. */
weir_status push_start(weir_client *c, const weir_batch *batch, struct push *p, weir_done_fn done, void *arg, weir_ticket *ticket,
                       weir_error *err);

/* --- section_plan.c: a piece becomes a section. */

/* Call before the first piece is written. wanted (parts_count): the parts that will be written. A
 * failure also ends the coding. E_MEMORY, E_BUSY. */
weir_status coding_begin(weir_client *c, struct push *p, const bool *wanted, weir_error *err);
void coding_end(weir_client *c, struct push *p);
/* Returns true if it borrowed memory. */
bool section_plan_write(struct record_writer *w, const struct push *p, const struct section_plan *section);

#endif
