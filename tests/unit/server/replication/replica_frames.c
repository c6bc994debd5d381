#include "tests/unit/server/replication/replica_frames.h"

#include <assert.h>
#include <string.h>

#include "tests/pattern.h"

#define PARTITION 5
#define KINDS     8u

const uint8_t replica_frames_uuid[16] = "replica frames";

static struct pattern pattern;

__attribute__((constructor)) static void make_pattern(void)
{
	pattern_init(&pattern, 11);
}

struct log_entry replica_frames_entry(uint64_t index, uint64_t epoch, size_t body_bytes, float *rates)
{
	uint8_t *data;
	struct message *m = message_alloc(body_bytes, &data);
	assert(m);
	for (size_t i = 0, run; i < body_bytes; i += run) {
		const uint8_t *known = pattern_run(&pattern, index * 37, i, body_bytes - i, &run);
		memcpy(data + i, known, run);
	}
	struct log_entry e = {.epoch = epoch,
	                      .index = index,
	                      .committed = index / 2,
	                      .generation = REPLICA_FRAMES_GENERATION,
	                      .stamp_ms = (int64_t)(1000 + index),
	                      .rates_count = (uint32_t)(index % (REPLICA_FRAMES_RATES + 1)),
	                      .rates = rates,
	                      .finding = LOG_CLIPPED,
	                      .record = {.kind = RECORD_PUSH, .partition = PARTITION, .unit = (uint32_t)index, .part = 3},
	                      .message = m,
	                      .body = cursor_at(m)};
	e.record.bytes = (uint32_t)(RECORD_HEADER_BYTES + body_bytes);
	for (uint32_t i = 0; i < e.rates_count; i++)
		rates[i] = 0.5f * (float)(index + i);
	return e;
}

static bool is_body(struct cursor c, uint64_t index)
{
	const uint8_t *run;
	size_t at = 0;
	for (size_t n; (n = cursor_run(&c, 1, c.left, NULL, &run)) > 0; at += n)
		for (size_t i = 0, same; i < n; i += same) {
			const uint8_t *known = pattern_run(&pattern, index * 37, at + i, n - i, &same);
			if (memcmp(run + i, known, same) != 0)
				return false;
		}
	return true;
}

bool replica_frames_is_entry(const struct log_entry *a, uint64_t index, uint64_t epoch, size_t body_bytes)
{
	float rates[REPLICA_FRAMES_RATES];
	struct log_entry b = replica_frames_entry(index, epoch, 0, rates);
	message_release(b.message);
	b.record.bytes = (uint32_t)(RECORD_HEADER_BYTES + body_bytes);
	return a->index == b.index && a->epoch == b.epoch && a->committed == b.committed && a->generation == b.generation &&
	       a->stamp_ms == b.stamp_ms && a->finding == b.finding && a->rates_count == b.rates_count &&
	       (b.rates_count == 0 || memcmp(a->rates, rates, b.rates_count * sizeof *rates) == 0) &&
	       memcmp(&a->record, &b.record, sizeof b.record) == 0 && a->body.left == body_bytes && is_body(a->body, index);
}

struct replica_message replica_frames_message(enum replica_message_kind kind, struct epochs *epochs)
{
	struct replica_message m = {.kind = kind, .from = 2, .to = 9, .incarnation = 0x1122334455667788};
	if (kind == REPLICA_JOIN)
		return m;
	if (kind == REPLICA_SCRUBBED) {
		m.incarnation = 0;
		m.last = 0x100000006;
		m.rows = 0x0123456789abcdef;
		m.state = 0xfedcba9876543210;
		return m;
	}
	m.epoch = 4;
	if (kind == REPLICA_REFUSE || kind == REPLICA_REBUILD)
		return m;
	if (kind == REPLICA_OFFER) {
		m.session = 0x8877665544332211;
		m.first = 0x100000004;
		m.last = 0x100000005;
		return m;
	}
	m.commit = 0x100000002;
	if (kind == REPLICA_ESTABLISH) {
		*epochs = (struct epochs){.starts = {{1, 1}, {3, 50}, {4, 0x100000001}}, .count = 3};
		m.epochs = epochs;
	} else if (kind == REPLICA_APPEND) {
		m.first = 0x100000003;
		m.last = m.first - 1;
	} else {
		m.last = 0x100000005;
		m.durable = 0x100000004;
		m.gap = true;
	}
	return m;
}

static void put(struct record_writer *w, enum replica_message_kind kind)
{
	struct epochs epochs;
	const struct replica_message m = replica_frames_message(kind, &epochs);
	weir_status status = replica_wire_put(w, PARTITION, &m);
	assert(status == WEIR_OK);
	(void)status;
}

/* Returns the message that the frame points into, that of the long entry. */
static struct message *put_entries(struct record_writer *w)
{
	struct message *held = NULL;
	/* Only the last is long enough to be referenced instead of copied. */
	static const size_t bodies[3] = {24, 0, 700};
	struct replica_message m = replica_frames_message(REPLICA_APPEND, NULL);
	float rates[REPLICA_FRAMES_RATES];
	m.first = 61;
	replica_wire_begin(w, PARTITION, &m);
	for (uint32_t i = 0; i < 3; i++) {
		const struct log_entry e = replica_frames_entry(m.first + i, i < 2 ? 3 : 4, bodies[i], rates);
		weir_status status = replica_wire_add(w, PARTITION, &e);
		assert(status == WEIR_OK);
		(void)status;
		message_release(held);
		held = e.message;
	}
	weir_status status = record_writer_end(w);
	assert(status == WEIR_OK);
	(void)status;
	return held;
}

static void release_held(struct message *frame)
{
	message_release(frame->owner);
}

struct message *replica_frames_build(uint32_t i)
{
	struct record_writer *w = record_writer_create();
	struct message *held = NULL, *m = NULL;
	assert(w);
	for (uint32_t k = 0; k < KINDS; k++)
		if (i == k || i == KINDS + 1)
			put(w, (enum replica_message_kind)k);
	if (i == KINDS || i == KINDS + 1)
		held = put_entries(w);
	if (i <= KINDS + 1)
		m = record_writer_finish(w, replica_frames_uuid, REPLICA_FRAMES_GENERATION, release_held, held);
	assert(m || i > KINDS + 1);
	record_writer_destroy(w);
	return m;
}
