#include "tests/unit/proto/golden_frames.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame/section_keys.h"

static const uint8_t uuid[16] = {0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x5f};

const char *golden_name(uint32_t i)
{
	static const char *const names[GOLDEN_FRAMES] = {"frame_push", "frame_pull",       "frame_replies",
	                                                 "frame_seal", "frame_close_step", "frame_coded_keys"};
	return names[i];
}

static void add(struct record_writer *w, const struct section *s, const void *index, const void *data)
{
	weir_status status = record_writer_add(w, s, index, data, false);
	assert(status == WEIR_OK);
	(void)status;
}

static void end(struct record_writer *w)
{
	weir_status status = record_writer_end(w);
	assert(status == WEIR_OK);
	(void)status;
}

static void push(struct record_writer *w)
{
	static const uint64_t keys[3] = {1, 0x0102030405060708, UINT64_MAX}, key[1] = {42};
	static const float values[9] = {0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 4.5f};
	static const uint16_t halves[3] = {0x3f80, 0xbf80, 0x4000};
	record_writer_begin(w, &(struct record){.kind = RECORD_PUSH,
	                                        .partition = 7,
	                                        .part = 1,
	                                        .request_id = 0x1122334455667788,
	                                        .pass = 1,
	                                        .unit = 2,
	                                        .attempt = 3,
	                                        .batch = 4,
	                                        .push = {.applied = 99, .step = 5}});
	add(w, &(struct section){.table = 2, .codec = WEIR_CODEC_FP32, .rows = 3, .width = 3, .index_bytes = 24, .data_bytes = 36},
	    keys, values);
	add(w,
	    &(struct section){
	        .table = 3, .codec = WEIR_CODEC_BF16, .rows = 1, .width = 3, .index_bytes = 8, .data_bytes = 6, .aux = 0xaabb},
	    key, halves);
	end(w);
}

static void pull(struct record_writer *w)
{
	static const uint64_t keys[2] = {10, 20}, chunks[1] = {3};
	record_writer_begin(w, &(struct record){.kind = RECORD_PULL, .partition = 1, .request_id = 11});
	add(w, &(struct section){.table = 2, .rows = 2, .width = 16, .index_bytes = 16}, keys, NULL);
	add(w, &(struct section){.table = 5, .rows = 1, .width = WEIR_CHUNK, .index_bytes = 8}, chunks, NULL);
	end(w);
	record_writer_begin(w, &(struct record){.kind = RECORD_PULL, .partition = 2, .request_id = 12, .pull.step_least = 8});
	add(w, &(struct section){.table = 5, .index_codec = INDEX_ALL, .rows = 4, .width = WEIR_CHUNK}, NULL, NULL);
	end(w);
}

static void replies(struct record_writer *w)
{
	static const float values[2] = {1.0f, -1.0f};
	static const uint8_t bitmap[3] = {0xff, 0x01, 0x80};
	record_writer_begin(
	    w, &(struct record){
	           .kind = RECORD_PUSH_REPLY, .partition = 7, .request_id = 13, .reply = {.applied = 100, .stable = 90, .epoch = 2}});
	end(w);
	record_writer_begin(w, &(struct record){.kind = RECORD_PUSH_REPLY, .partition = 7, .request_id = 14, .status = WEIR_E_STALE});
	end(w);
	record_writer_begin(w,
	                    &(struct record){.kind = RECORD_PULL_REPLY, .partition = 1, .request_id = 11, .pull_reply.applied = 100});
	add(w, &(struct section){.table = 2, .index_codec = INDEX_ALL, .rows = 2, .width = 1, .data_bytes = 8}, NULL, values);
	end(w);
	record_writer_begin(w, &(struct record){.kind = RECORD_SEAL_REPLY, .partition = 1, .request_id = 15, .seal_reply.bits = 24});
	add(w, &(struct section){.index_codec = INDEX_ALL, .data_bytes = 3}, NULL, bitmap);
	end(w);
}

static void close_step(struct record_writer *w)
{
	static const uint32_t batches[3][3] = {{0, 1, 2}, {0, 2, 0}, {0, 3, 1}};
	record_writer_begin(w, &(struct record){.kind = RECORD_CLOSE_STEP,
	                                        .partition = FRAME_PARTITION_ALL,
	                                        .request_id = 16,
	                                        .close = {.step = 9, .included = 2}});
	add(w, &(struct section){.index_codec = INDEX_ALL, .data_bytes = sizeof batches}, NULL, batches);
	end(w);
}

/* Small numbers, hashes, and consecutive numbers. */
static void coded_keys(struct record_writer *w)
{
	static const uint64_t small[8] = {103, 105, 109, 116, 118, 120, 127, 153};
	uint64_t hashes[96], run[40];
	const uint64_t *lists[3] = {small, hashes, run};
	const uint32_t counts[3] = {8, 96, 40};
	for (uint32_t i = 0; i < 96; i++)
		hashes[i] = 0x0023456789abcdefu + i * 0x02a1111111111111u + i * i;
	for (uint32_t i = 0; i < 40; i++)
		run[i] = 1000000 + i;
	record_writer_begin(w, &(struct record){.kind = RECORD_PULL, .partition = 1, .request_id = 18});
	for (uint32_t i = 0; i < 3; i++) {
		struct section s = {.table = (uint16_t)(2 + i), .rows = counts[i], .width = 16};
		uint8_t *index, *data;
		section_keys_plan(&s, lists[i]);
		assert(s.index_codec == INDEX_ELIAS_FANO);
		weir_status status = record_writer_reserve(w, &s, &index, &data);
		assert(status == WEIR_OK);
		(void)status;
		section_keys_write(&s, lists[i], index);
	}
	end(w);
}

struct message *golden_build(uint32_t i)
{
	struct record_writer *w = record_writer_create();
	assert(w);
	switch (i) {
	case GOLDEN_PUSH:
		push(w);
		break;
	case GOLDEN_PULL:
		pull(w);
		break;
	case GOLDEN_REPLIES:
		replies(w);
		break;
	case GOLDEN_SEAL:
		record_writer_begin(
		    w, &(struct record){
		           .kind = RECORD_SEAL, .partition = FRAME_PARTITION_ALL, .request_id = 17, .pass = 1, .unit = 2, .attempt = 4});
		end(w);
		break;
	case GOLDEN_CLOSE_STEP:
		close_step(w);
		break;
	case GOLDEN_CODED_KEYS:
		coded_keys(w);
		break;
	default:
		assert(!"no such frame");
	}
	struct message *m = record_writer_finish(w, uuid, 3, NULL, NULL);
	record_writer_destroy(w);
	assert(m);
	return m;
}

size_t golden_read(uint32_t i, uint8_t **bytes)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s.hex", GOLDEN_DIR, golden_name(i));
	FILE *f = fopen(path, "r");
	assert(f && "golden file is missing");
	size_t n = 0;
	unsigned byte;
	*bytes = malloc(1 << 16);
	while (n < 1 << 16 && fscanf(f, "%2x", &byte) == 1)
		(*bytes)[n++] = (uint8_t)byte;
	fclose(f);
	return n;
}
