/* Pulls and scans: rows directly into the reply's memory. Reading never changes a partition. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codec.h"
#include "server/partition/partition_internal.h"

#define GATHER_ROWS   512u
#define SCAN_ROWS_MAX 65536u
/* The limit of one answer. Its message may already hold others, up to the target size. */
#define PULL_REPLY_BYTES_MAX (WEIR_MESSAGE_BYTES_MAX - WEIR_MESSAGE_BYTES_TARGET)

struct record partition_reply_to(const struct record *r, uint8_t kind, weir_status status)
{
	return (struct record){.kind = kind,
	                       .partition = r->partition,
	                       .part = r->part,
	                       .request_id = r->request_id,
	                       .pass = r->pass,
	                       .unit = r->unit,
	                       .attempt = r->attempt,
	                       .batch = r->batch,
	                       .status = status};
}

void partition_write_refusal(struct record_writer *w, const struct record *reply, const char *text)
{
	record_writer_begin(w, reply);
	if (text) {
		struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL, .data_bytes = (uint32_t)strlen(text)};
		weir_status added = record_writer_add(w, &s, NULL, text, false);
		(void)added; /* record_writer_end reports it again */
	}
	if (record_writer_end(w) && text)
		partition_write_refusal(w, reply, NULL);
}

static void write_error(struct record_writer *w, const struct record *r, uint8_t kind, weir_status status, const char *text)
{
	const struct record reply = partition_reply_to(r, kind, status);
	partition_write_refusal(w, &reply, text);
}

/* --- Pull */

static bool is_float_aligned(const uint8_t *p)
{
	return (uintptr_t)p % sizeof(float) == 0;
}

/* With full decay: brings the row in scratch memory, with its slots, to the clock, as its next push
 * would find it. */
static const float *catch_up(struct partition *p, const struct partition_table *t, const struct optimizer_clock *clock,
                             struct row_state state, size_t n)
{
	float *row = p->scratch->row;
	optimizer_catch_up(t->optimizer, clock, &state, row, row + n, n);
	return row;
}

static const float *row_now(struct partition *p, const struct partition_table *t, const struct optimizer_clock *clock,
                            uint64_t key)
{
	struct row_state state;
	store_copy_row(t->rows, key, p->scratch->row, &state);
	return catch_up(p, t, clock, state, store_row_elements(t->rows, key));
}

/* The table's clock as far as its pushes here tell, or the reader's if that is later: other pushes
 * may have gone to other partitions only. */
static struct optimizer_clock later_of(const struct partition_table *t, const struct optimizer_clock *known)
{
	return known->steps > t->clock.steps ? *known : t->clock;
}

static void gather(struct partition *p, const struct partition_table *t, const uint64_t *keys, size_t count, uint32_t pushed,
                   float *out)
{
	if (!t->full_decay)
		return store_gather(t->rows, keys, count, out);
	struct optimizer_clock told = {0};
	if (pushed > 0 && t->spec->mode.kind != WEIR_SYNC)
		told = (struct optimizer_clock){.steps = pushed, .lr = (float)schedule_lr(&t->spec->optimizer, pushed - 1)};
	const struct optimizer_clock clock = later_of(t, &told);
	for (size_t i = 0; i < count; i++, out += t->spec->width)
		memcpy(out, row_now(p, t, &clock, keys[i]), t->spec->width * sizeof *out);
}

/* For a codec that can encode only finite numbers. */
static void encode_row(weir_codec codec, const float *row, size_t n, uint8_t *out)
{
	if (codec_all_finite(row, n))
		codec_encode(&(struct coding){.codec = codec}, row, NULL, n, out);
	else
		memset(out, 0xff, codec_bytes(codec, n)); /* all NaN, because the scale is NaN */
}

static void pull_rows(struct partition *p, const struct partition_table *t, struct row_keys *k, weir_codec codec, uint32_t pushed,
                      uint8_t *out)
{
	const size_t width = t->spec->width, row_bytes = codec_bytes(codec, width);
	const bool is_cut_anywhere = codec_element_bytes(codec) > 0;
	const bool direct = codec == WEIR_CODEC_FP32 && is_float_aligned(out);
	const size_t block = direct || width * GATHER_ROWS <= WEIR_ROW_WIDTH_MAX ? GATHER_ROWS : WEIR_ROW_WIDTH_MAX / width;
	uint64_t keys[GATHER_ROWS];
	for (size_t n; (n = row_keys_next(k, keys, block)) > 0; out += n * row_bytes) {
		float *values = direct ? (float *)(void *)out : p->scratch->values;
		gather(p, t, keys, n, pushed, values);
		if (!direct && is_cut_anywhere)
			codec_encode(&(struct coding){.codec = codec}, values, NULL, n * width, out);
		for (size_t i = 0; i < n && !is_cut_anywhere; i++)
			encode_row(codec, values + i * width, width, out + i * row_bytes);
	}
}

static void pull_chunks(struct partition *p, const struct partition_table *t, struct row_keys *k, uint8_t *out)
{
	uint64_t chunk;
	while (row_keys_next(k, &chunk, 1)) {
		const size_t bytes = store_row_elements(t->rows, chunk) * sizeof(float);
		float *values = is_float_aligned(out) ? (float *)(void *)out : p->scratch->values;
		store_read_chunk(t->rows, chunk, values);
		if (!is_float_aligned(out))
			memcpy(out, values, bytes);
		out += bytes;
	}
}

/* Fails before gathering if the answer would not fit one message. */
static weir_status check_reply_size(const struct partition *p, const struct record *r, struct cursor body, weir_error *err)
{
	uint64_t bytes = FRAME_HEADER_BYTES + RECORD_HEADER_BYTES;
	for (uint32_t i = 0; i < r->sections; i++) {
		struct section s;
		weir_status status = frame_next_section(&body, &s, err);
		assert(status == WEIR_OK);
		const struct partition_table *t = partition_table(p, s.table);
		bytes += SECTION_HEADER_BYTES + 8 + pull_answer_max(p, t, &s);
	}
	if (bytes > PULL_REPLY_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "pull: the answer would have %llu bytes, at most %u fit; ask for fewer rows at once",
		                 (unsigned long long)bytes, PULL_REPLY_BYTES_MAX);
	return WEIR_OK;
}

static void count_pull(struct partition *p, struct partition_table *t, const struct section *asked, const struct section *answer)
{
	const uint64_t keys = asked->rows * sizeof(uint64_t), elements = section_elements(p, t, asked);
	counter_bump(&t->counters.pulls, 1);
	counter_bump(&t->counters.pull_bytes,
	             SECTION_HEADER_BYTES + (uint64_t)asked->index_bytes + asked->data_bytes + answer->data_bytes);
	counter_bump(&t->counters.pull_plain_bytes, SECTION_HEADER_BYTES + keys + elements * sizeof(float));
}

/* The header of the answer's section, without its data. *differences: whether that consists of
 * differences. */
static struct section plan_answer(struct partition *p, struct partition_table *t, const struct section *asked, bool *differences)
{
	struct section s = {
	    .table = asked->table, .codec = asked->codec, .index_codec = INDEX_ALL, .rows = asked->rows, .width = asked->width};
	size_t bytes;
	*differences = wants_differences(p, t, asked) && differences_prepare(p, t, asked, &bytes) == WEIR_OK;
	if (*differences) {
		s.aux = delta_base_origin(t->delta_base);
		s.data_bytes = (uint32_t)bytes;
		return s;
	}
	if (t->spec->kind == WEIR_DENSE)
		s.codec = WEIR_CODEC_FP32;
	const uint64_t elements = section_elements(p, t, asked);
	s.data_bytes = (uint32_t)(t->spec->kind == WEIR_DENSE ? elements * sizeof(float)
	                                                      : asked->rows * codec_bytes((weir_codec)s.codec, t->spec->width));
	return s;
}

/* pushed: the pull's `place` (frame.h), the highest that the client has pushed; 0: none. */
static weir_status pull_section(struct partition *p, const struct section *asked, uint32_t pushed, struct record_writer *w)
{
	struct partition_table *t = partition_table(p, asked->table);
	bool differences;
	const struct section s = plan_answer(p, t, asked, &differences);
	uint8_t *index, *out;
	weir_status status = record_writer_reserve(w, &s, &index, &out);
	if (status)
		return status;
	struct row_keys k = row_keys_of(p, t, asked);
	if (differences)
		differences_write(p, t, asked, out);
	else if (t->spec->kind == WEIR_EMBEDDING)
		pull_rows(p, t, &k, (weir_codec)s.codec, pushed, out);
	else
		pull_chunks(p, t, &k, out);
	count_pull(p, t, asked, &s);
	return WEIR_OK;
}

static weir_status pull(struct partition *p, const struct record *r, struct cursor body, struct record_writer *w, weir_error *err)
{
	bool sync;
	weir_status status = check_sections(p, r, body, &sync, err);
	if (!status)
		status = check_reply_size(p, r, body, err);
	if (status)
		return status;
	struct record reply = {.kind = RECORD_PULL_REPLY,
	                       .partition = r->partition,
	                       .request_id = r->request_id,
	                       .pull_reply = {.applied = p->applied, .closed = p->steps.closed}};
	record_writer_begin(w, &reply);
	for (uint32_t i = 0; i < r->sections && !status; i++) {
		struct section s;
		status = frame_next_section(&body, &s, err);
		assert(status == WEIR_OK);
		status = pull_section(p, &s, r->pull.place, w);
	}
	weir_status ended = record_writer_end(w);
	if (ended)
		return weir_fail(err, ended, "pull: the answer could not be written");
	return WEIR_OK;
}

void partition_pull(struct partition *p, const struct record *r, const struct cursor *body, struct record_writer *w)
{
	weir_error err = {0};
	weir_status status = pull(p, r, *body, w, &err);
	if (status)
		write_error(w, r, RECORD_PULL_REPLY, status, err.text);
}

/* --- Scan */

struct scan_page {
	struct partition *p;
	const struct partition_table *t;
	struct optimizer_clock clock; /* rows are brought to this clock */
	struct store_place place;
	uint32_t slots;         /* behind each value, as requested */
	size_t count, elements; /* rows, and floats of all of them */
	uint64_t *keys;
	float *values;
};

static void scan_row(void *arg, uint64_t key, const struct row_state *state, const float *row)
{
	struct scan_page *g = arg;
	const size_t n = store_row_elements(g->t->rows, key), floats = n * (1 + g->slots);
	if (g->t->full_decay) {
		memcpy(g->p->scratch->row, row, n * (1 + optimizer_slots(g->t->spec->optimizer.kind)) * sizeof *row);
		row = catch_up(g->p, g->t, &g->clock, *state, n);
	}
	memcpy(g->values + g->elements, row, floats * sizeof *row);
	g->keys[g->count++] = key;
	g->elements += floats;
}

static weir_status scan_page(struct scan_page *g, uint32_t rows_max, weir_error *err)
{
	const size_t row_bytes =
	    (size_t)(g->t->spec->kind == WEIR_DENSE ? WEIR_CHUNK : g->t->spec->width) * (1 + g->slots) * sizeof(float);
	size_t fit = (WEIR_MESSAGE_BYTES_TARGET - RECORD_HEADER_BYTES) / (row_bytes + sizeof *g->keys);
	size_t want = rows_max == 0 || rows_max > SCAN_ROWS_MAX ? SCAN_ROWS_MAX : rows_max;
	want = want > fit ? fit : want;
	want = want ? want : 1; /* a row with its slots fits the largest message */
	g->keys = malloc(want * sizeof *g->keys);
	g->values = malloc(want * row_bytes);
	if (!g->keys || !g->values)
		return weir_fail(err, WEIR_E_MEMORY, "scan of table %s: out of memory", g->t->spec->name);
	return store_scan(g->t->rows, &g->place, want, scan_row, g, err);
}

static weir_status scan_write(const struct scan_page *g, const struct record *request, uint32_t table, struct record_writer *w)
{
	struct record reply = {.kind = RECORD_SCAN_REPLY,
	                       .partition = request->partition,
	                       .request_id = request->request_id,
	                       .part = g->place.below,
	                       .scan_reply = {.cursor = g->place.at, .steps = g->clock.steps}};
	memcpy(&reply.scan_reply.rate, &g->clock.lr, sizeof reply.scan_reply.rate);
	struct section s = {.table = (uint16_t)table,
	                    .codec = WEIR_CODEC_FP32,
	                    .index_codec = INDEX_RAW,
	                    .rows = (uint32_t)g->count,
	                    .width = g->t->spec->kind == WEIR_DENSE ? WEIR_CHUNK : g->t->spec->width,
	                    .index_bytes = (uint32_t)(g->count * sizeof *g->keys),
	                    .data_bytes = (uint32_t)(g->elements * sizeof *g->values)};
	uint8_t *index, *data;
	record_writer_begin(w, &reply);
	weir_status status = record_writer_reserve(w, &s, &index, &data);
	if (status == WEIR_OK && g->count) {
		memcpy(index, g->keys, s.index_bytes);
		memcpy(data, g->values, s.data_bytes);
	}
	return record_writer_end(w);
}

void partition_scan(struct partition *p, uint32_t table, struct store_place place, uint32_t rows_max, bool slots,
                    struct optimizer_clock clock, uint64_t request_id, struct record_writer *w)
{
	const struct record request = {.partition = (uint16_t)p->options.id, .request_id = request_id};
	struct scan_page g = {.p = p, .t = partition_table(p, table), .place = place};
	weir_error err = {0};
	if (p->moved) {
		weir_fail(&err, WEIR_E_MOVED, "partition %u: %s", p->options.id, PARTITION_MOVED);
	} else if (!g.t) {
		weir_fail(&err, WEIR_E_NOT_FOUND, "table %u is not registered with partition %u", table, p->options.id);
	} else {
		g.clock = later_of(g.t, &clock);
		g.slots = slots ? optimizer_slots(g.t->spec->optimizer.kind) : 0;
		weir_status status = scan_page(&g, rows_max, &err);
		if (!status && (status = scan_write(&g, &request, table, w)) != WEIR_OK)
			weir_fail(&err, status, "scan of table %s: the page could not be written", g.t->spec->name);
	}
	if (err.status)
		write_error(w, &request, RECORD_SCAN_REPLY, err.status, err.text);
	free(g.keys);
	free(g.values);
}
