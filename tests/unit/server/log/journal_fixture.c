#include "tests/unit/server/log/journal_fixture.h"

#include <stdlib.h>

#include "common/base/prng.h"
#include "tests/unit/faulty_disk.h"

const uint16_t fixture_channels[FIXTURE_CHANNELS] = {0, 7, JOURNAL_LEDGER};

enum { EPOCHS_OF_A_CUT = 1000 };

static uint8_t content(uint32_t c, uint64_t index, uint64_t cuts, size_t at)
{
	return (uint8_t)(prng_mix(c, index + (cuts << 32), at / 8) >> at % 8);
}

static size_t body_bytes(uint32_t c, uint64_t index, uint64_t cuts, size_t max)
{
	return prng_mix(99, c, index + (cuts << 32)) % (max + 1);
}

struct log_entry fixture_entry(uint32_t c, uint64_t index, uint64_t cuts, size_t body_bytes_max, float rates[4])
{
	size_t bytes = body_bytes(c, index, cuts, body_bytes_max);
	uint8_t *data;
	struct message *m = message_alloc(bytes, &data);
	assert_non_null(m);
	for (size_t i = 0; i < bytes; i++)
		data[i] = content(c, index, cuts, i);
	struct log_entry e = {
	    .epoch = 1 + index / 5 + cuts * EPOCHS_OF_A_CUT,
	    .index = index,
	    .committed = index > 3 ? index - 3 : index,
	    .generation = 3,
	    .stamp_ms = -(int64_t)index,
	    .rates_count = (uint32_t)(index % 4),
	    .rates = rates,
	    .finding = LOG_CLIPPED,
	    .record = {.kind = RECORD_PUSH, .partition = fixture_channels[c], .batch = (uint32_t)index, .push.applied = ~index},
	    .message = m,
	    .body = cursor_at(m)};
	for (uint32_t i = 0; i < e.rates_count; i++)
		rates[i] = (float)index + (float)i;
	return e;
}

/* Cuts the entry's body into slices of 100 bytes, as from a network. */
static struct message *in_pieces(const struct message *whole)
{
	enum { PIECE = 100, PIECES_MAX = 2000 };
	struct span pieces[PIECES_MAX];
	uint32_t count = 0;
	const uint8_t *data = whole->spans[0].data;
	for (size_t at = 0; at < whole->bytes; at += PIECE) {
		assert_true(count < PIECES_MAX);
		pieces[count++] = (struct span){data + at, whole->bytes - at < PIECE ? whole->bytes - at : PIECE};
	}
	struct message *m = message_create(pieces, count, NULL, NULL);
	assert_non_null(m);
	return m;
}

weir_status fixture_append(struct journal *j, uint32_t c, uint64_t index, uint64_t cuts, size_t body_bytes_max, weir_error *err)
{
	float rates[4];
	struct log_entry e = fixture_entry(c, index, cuts, body_bytes_max, rates);
	struct message *whole = e.message, *pieces = in_pieces(whole);
	e.message = pieces;
	e.body = cursor_at(pieces);
	weir_status status = journal_append(j, fixture_channels[c], &e, err);
	message_release(pieces);
	message_release(whole);
	return status;
}

void fixture_append_range(struct journal *j, uint32_t c, uint64_t cuts, uint64_t from, uint64_t to, size_t body_bytes_max)
{
	weir_error err = {0};
	for (uint64_t i = from; i <= to; i++)
		CHECK_OK(fixture_append(j, c, i, cuts, body_bytes_max, &err), err);
}

void fixture_close_journal(struct journal *j)
{
	weir_error err = {0};
	CHECK_OK(journal_close(j, &err), err);
}

void fixture_cut(struct journal *j, uint32_t c, uint64_t next)
{
	weir_error err = {0};
	CHECK_OK(journal_cut(j, fixture_channels[c], (struct journal_cut){.next = next}, &err), err);
}

void fixture_restart(struct journal *j, uint32_t c, uint64_t first)
{
	weir_error err = {0};
	CHECK_OK(journal_cut(j, fixture_channels[c], (struct journal_cut){.next = first, .restart = true}, &err), err);
}

uint64_t fixture_file_bytes(struct faulty_disk *d, const char *path)
{
	struct disk *disk = faulty_disk_interface(d);
	struct disk_file *f;
	uint64_t bytes;
	weir_error err = {0};
	CHECK_OK(disk->ops->open(disk, path, false, &f, &err), err);
	CHECK_OK(disk->ops->size(f, &bytes, &err), err);
	disk->ops->close(f);
	return bytes;
}

struct fixture_seen fixture_seen_new(size_t body_bytes_max)
{
	struct fixture_seen seen = {.body_bytes_max = body_bytes_max};
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		seen.channels[c] = (struct journal_channel){.channel = fixture_channels[c], .first = 1};
	return seen;
}

static void check_entry(uint32_t c, const struct log_entry *e, const struct fixture_seen *seen)
{
	float rates[4];
	struct log_entry want = fixture_entry(c, e->index, e->epoch / EPOCHS_OF_A_CUT, seen->body_bytes_max, rates);
	assert_int_equal(e->epoch, want.epoch);
	assert_int_equal(e->committed, seen->all_committed ? e->index : want.committed);
	assert_int_equal(e->generation, want.generation);
	assert_int_equal(e->stamp_ms, want.stamp_ms);
	assert_int_equal(e->finding, want.finding);
	assert_int_equal(e->rates_count, want.rates_count);
	assert_memory_equal(e->rates, rates, 4 * e->rates_count);
	assert_memory_equal(&e->record, &want.record, sizeof e->record);
	assert_int_equal(e->body.left, want.body.left);
	struct cursor body = e->body;
	size_t bytes = body.left;
	uint8_t *copy = malloc(bytes ? bytes : 1);
	assert_non_null(copy);
	assert_int_equal(cursor_read(&body, copy, bytes), WEIR_OK);
	assert_memory_equal(copy, want.message->spans[0].data, bytes);
	free(copy);
	message_release(want.message);
}

static uint32_t number_of(uint16_t channel)
{
	uint32_t c = 0;
	while (fixture_channels[c] != channel)
		assert_true(++c < FIXTURE_CHANNELS);
	return c;
}

static weir_status see(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err)
{
	(void)err;
	struct fixture_seen *seen = ctx;
	uint32_t c = number_of(channel);
	check_entry(c, e, seen);
	if (seen->last[c])
		assert_int_equal(e->index, seen->last[c] + 1);
	else
		seen->first[c] = e->index;
	seen->last[c] = e->index;
	if (e->index < FIXTURE_INDEX_MAX)
		seen->cuts[c][e->index] = (uint8_t)(e->epoch / EPOCHS_OF_A_CUT);
	seen->count++;
	return WEIR_OK;
}

static weir_status see_cut(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err)
{
	(void)err;
	struct fixture_seen *seen = ctx;
	uint32_t c = number_of(channel);
	assert_true(cut->next >= seen->channels[c].first);
	if (cut->restart || cut->next <= seen->first[c])
		seen->first[c] = seen->last[c] = 0;
	else if (seen->last[c] >= cut->next)
		seen->last[c] = cut->next - 1;
	return WEIR_OK;
}

weir_status fixture_replay(struct journal *j, struct fixture_seen *seen, weir_error *err)
{
	const struct journal_reader reader = {.entry = see, .cut = see_cut, .ctx = seen};
	return journal_replay(j, seen->channels, FIXTURE_CHANNELS, &reader, err);
}
