/* The wire format between replicas: round trips, and the refusal of everything else. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "common/system/disk.h"
#include "server/log/journal_format.h"
#include "tests/cmocka_check.h"
#include "tests/unit/proto/pieces.h"
#include "tests/unit/server/replication/replica_frames.h"

#define PARTITION 5
#define KINDS     8u

/* --- Reading */

static struct cursor opened(const struct message *frame)
{
	struct cursor c = cursor_at(frame);
	struct frame_header h;
	weir_error err = {0};
	CHECK_OK(frame_open(&c, &h, &err), err);
	assert_memory_equal(h.uuid, replica_frames_uuid, sizeof h.uuid);
	assert_int_equal(h.generation, REPLICA_FRAMES_GENERATION);
	return c;
}

/* Reads the first record of a frame. */
static weir_status read_one(const struct message *frame, struct replica_wire **out, weir_error *err)
{
	struct cursor c = opened(frame);
	return replica_wire_read(&c, out, err);
}

static struct message *finish(struct record_writer *w)
{
	struct message *m = record_writer_finish(w, replica_frames_uuid, REPLICA_FRAMES_GENERATION, NULL, NULL);
	assert_non_null(m);
	record_writer_destroy(w);
	return m;
}

static void assert_message(const struct replica_message *a, const struct replica_message *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->from, b->from);
	assert_int_equal(a->to, b->to);
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->incarnation, b->incarnation);
	assert_int_equal(a->first, b->first);
	assert_int_equal(a->last, b->last);
	assert_int_equal(a->commit, b->commit);
	assert_int_equal(a->durable, b->durable);
	assert_int_equal(a->session, b->session);
	assert_int_equal(a->gap, b->gap);
	assert_true(a->rows == b->rows && a->state == b->state);
	assert_int_equal(!a->epochs, !b->epochs);
	if (!a->epochs)
		return;
	assert_int_equal(a->epochs->count, b->epochs->count);
	assert_memory_equal(a->epochs->starts, b->epochs->starts, a->epochs->count * sizeof *a->epochs->starts);
}

static void every_kind_is_read_as_it_was_written(void **state)
{
	(void)state;
	struct epochs epochs;
	for (uint32_t k = 0; k < KINDS; k++) {
		const struct replica_message m = replica_frames_message((enum replica_message_kind)k, &epochs);
		struct message *frame = replica_frames_build(k);
		struct replica_wire *x;
		weir_error err = {0};
		CHECK_OK(read_one(frame, &x, &err), err);
		assert_int_equal(x->partition, PARTITION);
		assert_message(&x->message, &m);
		assert_null(x->entries);
		replica_wire_destroy(x);
		message_release(frame);
	}
}

static void the_ledger_has_replicas_too(void **state)
{
	(void)state;
	struct record_writer *w = record_writer_create();
	struct replica_message m = replica_frames_message(REPLICA_ACK, NULL);
	struct replica_wire *x;
	weir_error err = {0};
	m.gap = false;
	assert_int_equal(replica_wire_put(w, JOURNAL_LEDGER, &m), WEIR_OK);
	struct message *frame = finish(w);
	CHECK_OK(read_one(frame, &x, &err), err);
	assert_int_equal(x->partition, JOURNAL_LEDGER);
	assert_message(&x->message, &m);
	replica_wire_destroy(x);
	message_release(frame);
}

/* With any slicing of the frame's bytes. */
static void entries_are_read_as_they_were_written(void **state)
{
	(void)state;
	static const size_t cuts[] = {1 << 20, 4096, 64, 7, 1}, bodies[] = {24, 0, 700};
	struct message *whole = replica_frames_build(KINDS);
	uint8_t *bytes = pieces_join(whole);
	for (uint32_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		struct message *frame = pieces_of(bytes, whole->bytes, cuts[i]);
		struct replica_wire *x;
		weir_error err = {0};
		CHECK_OK(read_one(frame, &x, &err), err);
		message_release(frame); /* x holds a reference */
		assert_int_equal(x->message.first, 61);
		assert_int_equal(x->message.last, 63);
		for (uint32_t e = 0; e < 3; e++) {
			assert_true(replica_frames_is_entry(&x->entries[e], 61 + e, e < 2 ? 3 : 4, bodies[e]));
			assert_true(x->entries[e].has_payload_crc);
			assert_ptr_equal(x->entries[e].message, x->frame);
		}
		replica_wire_destroy(x);
	}
	free(bytes);
	message_release(whole);
}

static void every_flipped_bit_is_noticed(void **state)
{
	(void)state;
	struct message *whole = replica_frames_build(KINDS + 1);
	uint8_t *bytes = pieces_join(whole);
	for (size_t at = 0; at < whole->bytes; at++) {
		bytes[at] ^= (uint8_t)(1u << at % 8);
		struct message *frame = pieces_of(bytes, whole->bytes, whole->bytes);
		struct cursor c = cursor_at(frame);
		struct frame_header h = {0};
		weir_error err = {0};
		weir_status status = frame_open(&c, &h, &err);
		for (uint32_t i = 0; i < h.records && !status; i++) {
			struct replica_wire *x;
			status = replica_wire_read(&c, &x, &err);
			replica_wire_destroy(x);
		}
		if (status == WEIR_OK)
			fail_msg("byte %zu of %zu was changed, and nobody noticed", at, whole->bytes);
		assert_true(err.text[0]);
		message_release(frame);
		bytes[at] ^= (uint8_t)(1u << at % 8);
	}
	free(bytes);
	message_release(whole);
}

/* --- Writing */

/* The frame points to the entry's own bytes. */
static void a_long_entry_is_not_copied(void **state)
{
	(void)state;
	struct record_writer *w = record_writer_create();
	struct replica_message m = replica_frames_message(REPLICA_APPEND, NULL);
	struct log_entry e = replica_frames_entry(8, 4, 100000, NULL);
	m.first = 8;
	replica_wire_begin(w, PARTITION, &m);
	assert_int_equal(replica_wire_add(w, PARTITION, &e), WEIR_OK);
	const size_t before = FRAME_HEADER_BYTES + RECORD_HEADER_BYTES;
	assert_int_equal(record_writer_bytes(w), before + replica_wire_bytes(&e));
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct message *frame = finish(w);
	bool points = false;
	for (uint32_t i = 0; i < frame->count; i++)
		points |= frame->spans[i].data == e.message->spans[0].data && frame->spans[i].size == 100000;
	assert_true(points);
	message_release(frame);
	message_release(e.message);
}

/* The writer copies the journal's checksum and does not read the bytes. So the reader finds a wrong
 * one. */
static void the_checksum_of_the_journal_is_believed_and_checked(void **state)
{
	(void)state;
	struct replica_message m = replica_frames_message(REPLICA_APPEND, NULL);
	struct log_entry e = replica_frames_entry(8, 4, 3000, NULL);
	uint8_t head[JOURNAL_HEAD_BYTES_MAX];
	struct journal_entry_header h;
	weir_error err = {0};
	CHECK_OK(journal_describe(&e, PARTITION, &h, &err), err);
	const uint32_t crc = journal_payload_crc(&e, &h, head, journal_put_head(head, &e));
	m.first = 8;
	e.has_payload_crc = true;
	for (uint32_t wrong = 0; wrong < 2; wrong++) {
		struct record_writer *w = record_writer_create();
		struct replica_wire *x;
		e.payload_crc = crc ^ wrong;
		replica_wire_begin(w, PARTITION, &m);
		assert_int_equal(replica_wire_add(w, PARTITION, &e), WEIR_OK);
		assert_int_equal(record_writer_end(w), WEIR_OK);
		struct message *frame = finish(w);
		assert_int_equal(read_one(frame, &x, &err), wrong ? WEIR_E_CORRUPT : WEIR_OK);
		if (!wrong)
			assert_int_equal(x->entries[0].payload_crc, crc);
		replica_wire_destroy(x);
		message_release(frame);
	}
	message_release(e.message);
}

/* The largest entry that a log takes fits a frame and a message. The log refuses larger ones. */
static void the_largest_entry_fits(void **state)
{
	(void)state;
	struct log *l = log_memory_create();
	struct record_writer *w = record_writer_create();
	struct replica_message m = replica_frames_message(REPLICA_APPEND, NULL);
	struct log_entry e =
	    replica_frames_entry(4, 4, WEIR_ENTRY_BYTES_MAX - JOURNAL_ENTRY_HEADER_BYTES - RECORD_HEADER_BYTES + 8, NULL);
	struct replica_wire *x;
	weir_error err = {0};
	e.index = 1;
	e.committed = 0;
	assert_int_equal(l->ops->append(l, &e, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "at most");
	e.body.left -= 8;
	CHECK_OK(l->ops->append(l, &e, &err), err);
	m.first = 1;
	replica_wire_begin(w, PARTITION, &m);
	assert_int_equal(replica_wire_add(w, PARTITION, l->ops->get(l, 1)), WEIR_OK);
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct message *frame = finish(w);
	assert_true(frame->bytes <= FRAME_BYTES_MAX);
	CHECK_OK(read_one(frame, &x, &err), err);
	assert_int_equal(x->entries[0].body.left, e.body.left);
	replica_wire_destroy(x);
	message_release(frame);
	message_release(e.message);
	l->ops->destroy(l);
}

/* --- Invalid bytes with valid checksums */

static struct section plain(size_t bytes)
{
	return (struct section){.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = (uint32_t)bytes};
}

/* Reading a frame with this record must fail with this text. data NULL: no section. */
static void refuse(const struct record *r, const struct section *s, const void *data, weir_status expected, const char *why)
{
	struct record_writer *w = record_writer_create();
	uint64_t keys[2] = {0};
	struct replica_wire *x;
	weir_error err = {0};
	record_writer_begin(w, r);
	if (s)
		assert_int_equal(record_writer_add(w, s, s->index_bytes ? keys : NULL, data, false), WEIR_OK);
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct message *frame = finish(w);
	weir_status status = read_one(frame, &x, &err);
	if (status != expected || !strstr(err.text, why))
		fail_msg("%s \"%s\", expected %s \"%s\"", weir_status_name(status), err.text, weir_status_name(expected), why);
	assert_null(x);
	message_release(frame);
}

/* A valid record of a kind. */
static struct record good(uint8_t kind)
{
	struct record r = {.kind = kind, .partition = PARTITION, .request_id = 3, .replica.route = 2 | 9u << 16};
	if (kind != RECORD_REPLICA_JOIN && kind != RECORD_REPLICA_SCRUBBED)
		r.replica.epoch = 4;
	if (kind == RECORD_REPLICA_APPEND || kind == RECORD_REPLICA_ACK || kind == RECORD_REPLICA_OFFER ||
	    kind == RECORD_REPLICA_SCRUBBED)
		r.replica.index = 10;
	if (kind == RECORD_REPLICA_OFFER)
		r.status = 4;
	return r;
}

static const uint8_t plain_kinds[] = {RECORD_REPLICA_JOIN,  RECORD_REPLICA_APPEND,  RECORD_REPLICA_ACK,     RECORD_REPLICA_REFUSE,
                                      RECORD_REPLICA_OFFER, RECORD_REPLICA_REBUILD, RECORD_REPLICA_SCRUBBED};

static void a_record_must_go_from_one_server_to_another(void **state)
{
	(void)state;
	static const uint32_t wrong[] = {2 | 2u << 16, WEIR_SERVERS_MAX | 9u << 16, 2 | WEIR_SERVERS_MAX << 16, 0};
	for (uint32_t k = 0; k < sizeof plain_kinds; k++)
		for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
			struct record r = good(plain_kinds[k]);
			r.replica.route = wrong[i];
			refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "not from one server to another");
		}
}

/* Sets a field that only some kinds have. Returns whether the record is invalid now. */
static bool spoil(struct record *r, uint32_t field)
{
	const bool join = r->kind == RECORD_REPLICA_JOIN, ack = r->kind == RECORD_REPLICA_ACK;
	const bool scrubbed = r->kind == RECORD_REPLICA_SCRUBBED, offer = r->kind == RECORD_REPLICA_OFFER;
	const bool bare = join || r->kind == RECORD_REPLICA_REFUSE || r->kind == RECORD_REPLICA_REBUILD;
	switch (field) {
	case 0:
		r->part = 1;
		return true;
	case 1:
		r->batch = 1;
		return true;
	case 2:
		r->flags = RECORD_REPLICA_GAP;
		return !ack;
	case 3:
		r->replica.epoch = 4;
		return join || scrubbed;
	case 4:
		r->replica.index = 10;
		return bare;
	case 5:
		r->unit = 1;
		return bare;
	case 6:
		r->attempt = 1;
		return !ack && !scrubbed && !offer;
	default:
		r->status = 1;
		return !ack && !scrubbed && !offer;
	}
}

static void fields_of_other_kinds_must_be_zero(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < sizeof plain_kinds; k++)
		for (uint32_t field = 0; field < 8; field++) {
			struct record r = good(plain_kinds[k]);
			if (spoil(&r, field))
				refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "what must be zero is not");
		}
}

static void the_fields_of_a_kind_must_be_present(void **state)
{
	(void)state;
	struct record r = good(RECORD_REPLICA_JOIN);
	r.request_id = 0;
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "of no incarnation");
	r = good(RECORD_REPLICA_ACK);
	r.request_id = 0;
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "of no incarnation");
	r = good(RECORD_REPLICA_OFFER);
	r.replica.index = 0;
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "of no session");
	r = good(RECORD_REPLICA_OFFER);
	r.status = 0;
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "of no log");
	r = good(RECORD_REPLICA_SCRUBBED);
	r.replica.index = 0;
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "of no entry");
	for (uint32_t k = 1; plain_kinds[k] != RECORD_REPLICA_SCRUBBED; k++) {
		r = good(plain_kinds[k]);
		r.replica.epoch = 0;
		refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "of no epoch");
	}
	r = good(RECORD_REPLICA_APPEND);
	r.replica.index = 0;
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "no index");
	r.replica.index = UINT64_MAX;
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "no index");
	r = good(RECORD_REPLICA_ACK);
	r.unit = 11; /* commit, above last, which is 10 */
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "more than there is");
	r.unit = 0;
	r.attempt = 1; /* durable: 2^32 */
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "more than there is");
}

static void records_of_clients_are_refused(void **state)
{
	(void)state;
	struct record r = {.kind = RECORD_PUSH, .partition = PARTITION};
	refuse(&r, NULL, NULL, WEIR_E_INVALID, "not for replicas");
	r.kind = 200;
	refuse(&r, NULL, NULL, WEIR_E_VERSION, "not known to this program");
	r = good(RECORD_REPLICA_JOIN);
	r.partition = WEIR_PARTITIONS_MAX;
	refuse(&r, NULL, NULL, WEIR_E_LIMIT, "record partition");
}

static void sections_must_be_as_the_kind_says(void **state)
{
	(void)state;
	static const uint8_t zeros[64];
	const struct section s = plain(16);
	struct section n[7] = {s, s, s, s, s, s, s};
	struct record r = good(RECORD_REPLICA_JOIN);
	refuse(&r, &s, zeros, WEIR_E_CORRUPT, "not as many sections");
	r = good(RECORD_REPLICA_ESTABLISH);
	refuse(&r, NULL, NULL, WEIR_E_CORRUPT, "not as many sections");
	n[0].table = 1;
	n[1].codec = WEIR_CODEC_BF16;
	n[2].index_codec = INDEX_RAW;
	n[3].flags = SECTION_LZ4_DATA;
	n[4].rows = 1;
	n[5].width = 1;
	n[6].aux = 1;
	for (uint32_t i = 0; i < 7; i++) {
		refuse(&r, &n[i], zeros, WEIR_E_CORRUPT, "not plain bytes");
		const struct record append = good(RECORD_REPLICA_APPEND);
		refuse(&append, &n[i], zeros, WEIR_E_CORRUPT, "not plain bytes");
	}
}

static void epochs_must_rise_to_their_own(void **state)
{
	(void)state;
	static const uint64_t wrong[][4] = {{3, 9, 3, 10}, {4, 9, 3, 10}, {2, 10, 4, 9}, {0, 1, 4, 2}, {2, 0, 4, 2}};
	const struct record r = good(RECORD_REPLICA_ESTABLISH);
	static uint8_t many[16 * (WEIR_EPOCHS_KEPT + 1)];
	uint8_t b[32];
	for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		for (uint32_t j = 0; j < 4; j++)
			put64(b + 8 * j, wrong[i][j]);
		refuse(&r, &(struct section){.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = 32}, b, WEIR_E_CORRUPT,
		       "do not rise");
	}
	put64(b, 2);
	put64(b + 8, 1);
	put64(b + 16, 5);
	put64(b + 24, 2);
	struct section s = plain(32);
	refuse(&r, &s, b, WEIR_E_CORRUPT, "do not end with its own");
	s = plain(24);
	refuse(&r, &s, b, WEIR_E_CORRUPT, "not the size");
	s = plain(0);
	refuse(&r, &s, b, WEIR_E_CORRUPT, "not the size");
	for (uint32_t i = 0; i <= WEIR_EPOCHS_KEPT; i++) {
		put64(many + 16 * i, i + 1);
		put64(many + 16 * i + 8, i + 1);
	}
	s = plain(sizeof many);
	refuse(&r, &s, many, WEIR_E_CORRUPT, "not the size");
}

/* --- Entries */

enum { BODY = 40, ENTRY_BYTES_OF_BODY = JOURNAL_ENTRY_HEADER_BYTES + RECORD_HEADER_BYTES + BODY };

/* The header and bytes of entry 8 of epoch 3, without rates. Tests change them. */
static struct journal_entry_header entry_bytes(uint8_t out[ENTRY_BYTES_OF_BODY])
{
	struct log_entry e = replica_frames_entry(8, 3, BODY, NULL);
	struct journal_entry_header h;
	weir_error err = {0};
	CHECK_OK(journal_describe(&e, PARTITION, &h, &err), err);
	const size_t head = journal_put_head(out + JOURNAL_ENTRY_HEADER_BYTES, &e);
	h.payload_crc = journal_payload_crc(&e, &h, out + JOURNAL_ENTRY_HEADER_BYTES, head);
	assert_int_equal(cursor_read(&e.body, out + JOURNAL_ENTRY_HEADER_BYTES + head, BODY), WEIR_OK);
	assert_int_equal(h.bytes, ENTRY_BYTES_OF_BODY);
	journal_put_entry(out, &h);
	message_release(e.message);
	return h;
}

static void refuse_entry(const struct journal_entry_header *h, const char *why)
{
	uint8_t bytes[ENTRY_BYTES_OF_BODY];
	struct record r = good(RECORD_REPLICA_APPEND);
	const struct section s = plain(sizeof bytes);
	(void)entry_bytes(bytes);
	journal_put_entry(bytes, h);
	r.replica.index = 8;
	refuse(&r, &s, bytes, WEIR_E_CORRUPT, why);
}

static void an_entry_must_fit_its_place(void **state)
{
	(void)state;
	uint8_t bytes[ENTRY_BYTES_OF_BODY];
	const struct journal_entry_header h = entry_bytes(bytes);
	struct journal_entry_header n = h;
	n.index = 9;
	refuse_entry(&n, "out of its place");
	n = h;
	n.channel = PARTITION + 1;
	refuse_entry(&n, "another partition's");
	n = h;
	n.epoch = 5; /* that of the message is 4 */
	refuse_entry(&n, "epoch that cannot be there");
	n.epoch = 0;
	refuse_entry(&n, "epoch that cannot be there");
	n = h;
	n.position = 8;
	refuse_entry(&n, "does not fit what is there");
	n = h;
	n.durable = 8;
	refuse_entry(&n, "does not fit what is there");
	n = h;
	n.finding = LOG_CLIPPED + 1;
	refuse_entry(&n, "does not fit what is there");
	n = h;
	n.bytes -= 8;
	n.body_bytes -= 8;
	refuse_entry(&n, "does not fit what is there");
	n = h;
	n.payload_crc ^= 1;
	refuse_entry(&n, "entry payload: crc");
	n = h;
	n.committed = 9;
	refuse_entry(&n, "committed up to 9");
	n = h;
	n.rates_count = 1;
	refuse_entry(&n, "1 rates");
}

static void an_entry_must_have_its_header(void **state)
{
	(void)state;
	uint8_t bytes[ENTRY_BYTES_OF_BODY];
	struct record r = good(RECORD_REPLICA_APPEND);
	(void)entry_bytes(bytes);
	r.replica.index = 8;
	struct section s = plain(JOURNAL_ENTRY_HEADER_BYTES - 8);
	refuse(&r, &s, bytes, WEIR_E_CORRUPT, "shorter than its header");
	s = plain(sizeof bytes);
	bytes[40] ^= 1;
	refuse(&r, &s, bytes, WEIR_E_CORRUPT, "entry header: crc");
}

static void epochs_of_entries_must_not_fall(void **state)
{
	(void)state;
	struct record_writer *w = record_writer_create();
	struct replica_message m = replica_frames_message(REPLICA_APPEND, NULL);
	struct replica_wire *x;
	weir_error err = {0};
	m.first = 8;
	replica_wire_begin(w, PARTITION, &m);
	for (uint32_t i = 0; i < 2; i++) {
		float rates[REPLICA_FRAMES_RATES];
		struct log_entry e = replica_frames_entry(8 + i, 3 - i, 16, rates);
		assert_int_equal(replica_wire_add(w, PARTITION, &e), WEIR_OK);
		message_release(e.message);
	}
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct message *frame = finish(w);
	assert_int_equal(read_one(frame, &x, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "epoch that cannot be there");
	message_release(frame);
}

/* --- The bytes */

static void the_bytes_stay_what_they_are(void **state)
{
	(void)state;
	char *golden;
	size_t size;
	weir_error err = {0};
	struct message *m = replica_frames_build(KINDS + 1);
	uint8_t *bytes = pieces_join(m);
	char *hex = malloc(3 * m->bytes + 1);
	for (size_t i = 0; i < m->bytes; i++)
		snprintf(hex + 3 * i, 4, "%02x%c", bytes[i], i % 16 == 15 || i + 1 == m->bytes ? '\n' : ' ');
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/frame_replica.hex", 1 << 20, &golden, &size, &err), err);
	if (size != 3 * m->bytes || memcmp(golden, hex, size) != 0)
		fail_msg("the frame is another now; it begins\n%.800s", hex);
	free(golden);
	free(hex);
	free(bytes);
	message_release(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind_is_read_as_it_was_written),
	    cmocka_unit_test(the_ledger_has_replicas_too),
	    cmocka_unit_test(entries_are_read_as_they_were_written),
	    cmocka_unit_test(every_flipped_bit_is_noticed),
	    cmocka_unit_test(a_long_entry_is_not_copied),
	    cmocka_unit_test(the_checksum_of_the_journal_is_believed_and_checked),
	    cmocka_unit_test(the_largest_entry_fits),
	    cmocka_unit_test(a_record_must_go_from_one_server_to_another),
	    cmocka_unit_test(fields_of_other_kinds_must_be_zero),
	    cmocka_unit_test(the_fields_of_a_kind_must_be_present),
	    cmocka_unit_test(records_of_clients_are_refused),
	    cmocka_unit_test(sections_must_be_as_the_kind_says),
	    cmocka_unit_test(epochs_must_rise_to_their_own),
	    cmocka_unit_test(an_entry_must_fit_its_place),
	    cmocka_unit_test(an_entry_must_have_its_header),
	    cmocka_unit_test(epochs_of_entries_must_not_fall),
	    cmocka_unit_test(the_bytes_stay_what_they_are),
	};
	return cmocka_run_group_tests_name("replica_wire", tests, NULL, NULL);
}
