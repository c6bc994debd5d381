/* Pulls of differences: from dense tables, by trainers that report the version that they hold
 * (delta_base.h). No other pull makes a version. */
#include <assert.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "common/base/prng.h"
#include "server/partition/partition_internal.h"

#define ORIGIN_STREAM 0x6f726967u /* of prng_mix */

/* The requested chunks, and the version held of each. */
struct asked {
	struct row_keys keys;
	struct cursor held;
};

static struct asked asked_of(const struct partition *p, const struct partition_table *t, const struct section *s)
{
	return (struct asked){.keys = row_keys_of(p, t, s), .held = s->data};
}

/* *held: a version of the table's delta base; 0: none. */
static bool asked_next(struct asked *a, const struct partition_table *t, uint64_t *chunk, uint64_t *held)
{
	uint8_t bytes[PULL_HELD_BYTES];
	if (!row_keys_next(&a->keys, chunk, 1))
		return false;
	const weir_status status = cursor_read(&a->held, bytes, sizeof bytes);
	assert(status == WEIR_OK); /* guaranteed by check_asked */
	(void)status;
	*held = get64(bytes) == delta_base_origin(t->delta_base) ? get64(bytes + 8) : 0;
	return true;
}

static struct delta_base_chunk chunk_now(struct partition *p, const struct partition_table *t, uint64_t chunk)
{
	struct delta_base_chunk c = {.number = chunk / p->options.partitions, .n = store_row_elements(t->rows, chunk)};
	c.meta = store_find(t->rows, chunk, &c.value);
	if (c.meta && c.value)
		return c;
	store_read_chunk(t->rows, chunk, p->scratch->values);
	c.value = p->scratch->values;
	c.meta = NULL;
	return c;
}

uint64_t pull_answer_max(const struct partition *p, const struct partition_table *t, const struct section *s)
{
	const uint64_t elements = section_elements(p, t, s);
	if (t->spec->kind == WEIR_EMBEDDING)
		return s->rows * codec_bytes((weir_codec)s->codec, t->spec->width);
	return elements * sizeof(float) + (s->codec == WEIR_CODEC_FP32 ? 0 : s->rows * (uint64_t)DIFFERENCES_HEADER_BYTES);
}

bool wants_differences(const struct partition *p, const struct partition_table *t, const struct section *s)
{
	return t->spec->kind == WEIR_DENSE && s->codec != WEIR_CODEC_FP32 && !p->moved;
}

static weir_status begin_reference(struct partition *p, struct partition_table *t)
{
	const uint64_t chunks = t->spec->elements / WEIR_CHUNK / p->options.partitions + 1;
	const uint64_t origin = prng_mix(p->options.process_id ^ ORIGIN_STREAM, p->epoch, ++p->origins);
	if (!t->delta_base)
		t->delta_base = delta_base_create(&t->spec->pull, chunks, origin ? origin : 1);
	return t->delta_base ? WEIR_OK : WEIR_E_MEMORY;
}

weir_status differences_prepare(struct partition *p, struct partition_table *t, const struct section *s, size_t *bytes)
{
	const struct delta_base_work work = {.difference = p->scratch->sum, .coded = (uint8_t *)p->scratch->row};
	uint64_t chunk, held;
	_Static_assert(sizeof p->scratch->row >= DIFFERENCE_BYTES_MAX && sizeof p->scratch->sum >= WEIR_CHUNK * sizeof(float),
	               "a difference is coded in memory of applying");
	weir_status status = begin_reference(p, t);
	if (status)
		return status;
	struct asked a = asked_of(p, t, s);
	while (!status && asked_next(&a, t, &chunk, &held)) {
		const struct delta_base_chunk c = chunk_now(p, t, chunk);
		status = delta_base_ask(t->delta_base, &c, held, &work);
	}
	*bytes = 0;
	for (a = asked_of(p, t, s); !status && asked_next(&a, t, &chunk, &held);)
		*bytes += delta_base_answer_bytes(t->delta_base, chunk / p->options.partitions, held, store_row_elements(t->rows, chunk));
	return status;
}

void differences_write(const struct partition *p, const struct partition_table *t, const struct section *s, uint8_t *out)
{
	uint64_t chunk, held;
	for (struct asked a = asked_of(p, t, s); asked_next(&a, t, &chunk, &held);)
		out += delta_base_answer(t->delta_base, chunk / p->options.partitions, held, store_row_elements(t->rows, chunk), out);
}

void references_drop(struct partition *p)
{
	for (uint32_t id = 0; id < p->tables_end; id++) {
		if (!p->tables[id])
			continue;
		delta_base_destroy(p->tables[id]->delta_base);
		p->tables[id]->delta_base = NULL;
	}
}
