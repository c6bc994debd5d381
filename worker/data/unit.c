/* Reads units (dataset.h). A unit is a list of row views, which point into mapped blocks or into
 * rows parsed for the unit, or it is a range of a corpus's examples or of sequences. An order over
 * its rows shuffles it. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/prng.h"
#include "worker/data/dataset_internal.h"
#include "worker/data/format/row_reader.h"

/* Rows [skip, skip + count) of a view are the unit's rows from `first` on. */
struct piece {
	struct rows_view view;
	uint32_t skip, count;
	uint64_t first;
	struct packed_block block; /* behind the view of a packed unit */
};

#define ROWS_EXPECTED_MAX (1u << 21) /* of a unit of text; one with more rows grows */
#define LINE_BYTES_LEAST  2u

struct unit_reader {
	struct dataset *dataset;
	struct piece *pieces;
	uint32_t pieces_count, pieces_capacity;
	struct rows parsed; /* the rows of a unit of text, behind its one piece */
	uint64_t rows, bad_lines;
	uint64_t first_example;   /* first example in the corpus, or first sequence */
	uint32_t *order;          /* (rows), or NULL: as in the file */
	struct batch_columns has; /* columns that some piece has */
};

static weir_status add_piece(struct unit_reader *u, const struct rows_view *view, uint32_t skip, uint32_t count, weir_error *err)
{
	if (u->pieces_count == u->pieces_capacity) {
		uint32_t capacity = u->pieces_capacity * 2 + 8;
		struct piece *larger = realloc(u->pieces, capacity * sizeof *larger);
		if (!larger)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory reading a unit");
		u->pieces = larger;
		u->pieces_capacity = capacity;
	}
	u->pieces[u->pieces_count++] = (struct piece){.view = *view, .skip = skip, .count = count, .first = u->rows};
	u->rows += count;
	u->has.weights |= view->weights != NULL;
	u->has.values |= view->values != NULL;
	u->has.groups |= view->groups != NULL;
	return WEIR_OK;
}

static weir_status take_rows(void *context, enum split_part part, struct rows *rows, weir_error *err)
{
	(void)part; /* the caller asks for one part */
	struct unit_reader *u = context;
	const struct rows_view view = rows_as_view(rows);
	return rows_append(&u->parsed, &view, 0, view.count)
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_LIMIT, "a file holds too many rows for one unit: use data.cache");
}

/* The rows that a unit of text is to have, roughly: what it was cut for, or what its file has. */
static uint32_t expected_rows(const struct dataset *d, const struct unit_range *range)
{
	const struct source *source = &d->sources.items[range->file];
	const bool of_rows = d->layout && row_reader_has_batches(d->layout);
	const uint64_t size = range->end < source->size ? range->end - range->begin : source->size - range->begin;
	const uint64_t there = of_rows                      ? range->end - range->begin
	                       : source->kind == TEXT_PLAIN ? size / LINE_BYTES_LEAST + 1
	                                                    : ROWS_EXPECTED_MAX;
	const uint64_t expected = d->unit_rows + d->unit_rows / 8, rows = expected < there ? expected : there;
	return rows < ROWS_EXPECTED_MAX ? (uint32_t)rows : ROWS_EXPECTED_MAX;
}

/* Takes memory for the rows of a unit of text: that of an earlier unit, or as much as it is to
 * need, so that it seldom grows. */
static bool take_memory(struct unit_reader *u, const struct unit_range *range)
{
	struct dataset *d = u->dataset;
	const uint32_t rows = expected_rows(d, range);
	rows_init(&u->parsed, parser_shape(d->parser), parser_bags(d->parser));
	pthread_mutex_lock(&d->spare_lock);
	if (d->spare.capacity > 0) {
		u->parsed = d->spare;
		d->spare = (struct rows){0};
	}
	pthread_mutex_unlock(&d->spare_lock);
	rows_clear(&u->parsed);
	return rows_reserve_many(&u->parsed, rows, (size_t)rows * d->info.fields);
}

static void give_memory(struct unit_reader *u)
{
	struct dataset *d = u->dataset;
	pthread_mutex_lock(&d->spare_lock);
	if (d->spare.capacity == 0) {
		d->spare = u->parsed;
		u->parsed = (struct rows){0};
	}
	pthread_mutex_unlock(&d->spare_lock);
	rows_destroy(&u->parsed);
}

static weir_status open_text_unit(struct unit_reader *u, const struct unit_range *range, weir_error *err)
{
	const struct dataset *d = u->dataset;
	struct load_range text = {d->sources.items[range->file].path, range->begin, range->end};
	struct load_options load = d->load;
	load.wanted[load.split.on ? d->part : SPLIT_TRAIN] = true;
	load.deliver = take_rows;
	load.context = u;
	struct load_result result;
	if (!take_memory(u, range))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading a unit");
	const weir_status status = load_text(&load, &text, 1, &result, err);
	u->bad_lines = result.bad_lines;
	if (status != WEIR_OK || u->parsed.count == 0)
		return status;
	const struct rows_view view = rows_as_view(&u->parsed);
	return add_piece(u, &view, 0, view.count, err);
}

static weir_status open_packed_unit(struct unit_reader *u, const struct unit_range *range, weir_error *err)
{
	struct packed *packed = u->dataset->packed[range->file];
	for (uint64_t row = range->begin; row < range->end;) {
		uint64_t first;
		struct packed_block block;
		weir_status status = packed_block_open(&block, packed, packed_block_of(packed, row, &first), err);
		if (status != WEIR_OK)
			return status;
		uint64_t end = first + block.rows.count < range->end ? first + block.rows.count : range->end;
		status = add_piece(u, &block.rows, (uint32_t)(row - first), (uint32_t)(end - row), err);
		if (status != WEIR_OK) {
			packed_block_close(&block);
			return status;
		}
		u->pieces[u->pieces_count - 1].block = block;
		row = end;
	}
	return WEIR_OK;
}

/* Shuffles rows by Fisher-Yates (Durstenfeld 1964). */
static weir_status shuffle(struct unit_reader *u, uint64_t seed, weir_error *err)
{
	struct prng r;
	u->order = malloc((u->rows + 1) * sizeof *u->order);
	if (!u->order)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory shuffling a unit");
	prng_seed(&r, seed);
	for (uint64_t i = 0; i < u->rows; i++) {
		uint64_t j = prng_below(&r, i + 1);
		u->order[i] = u->order[j];
		u->order[j] = (uint32_t)i;
	}
	return WEIR_OK;
}

weir_status unit_open(struct unit_reader **out, struct dataset *d, uint32_t data_unit, uint64_t order_seed, weir_error *err)
{
	if (data_unit >= d->info.units)
		return weir_fail(err, WEIR_E_INVALID, "unit %u of %u: another cut of the data?", data_unit, d->info.units);
	struct unit_reader *u = calloc(1, sizeof *u);
	if (!u)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading a unit");
	u->dataset = d;
	const struct unit_range *range = &d->units[data_unit];
	weir_status status = WEIR_OK;
	if (d->corpus || d->sequences) {
		u->first_example = range->begin;
		u->rows = range->end - range->begin;
	} else {
		status = d->packed_count > 0 ? open_packed_unit(u, range, err) : open_text_unit(u, range, err);
	}
	if (status == WEIR_OK && order_seed != 0)
		status = shuffle(u, order_seed, err);
	if (status != WEIR_OK) {
		unit_close(u);
		return status;
	}
	*out = u;
	return WEIR_OK;
}

uint32_t dataset_unit_batches(const struct dataset *d, uint32_t data_unit)
{
	assert(data_unit < d->info.units);
	const struct unit_range *range = &d->units[data_unit];
	const bool ranges_are_rows = d->corpus || d->sequences || d->packed_count > 0;
	return ranges_are_rows ? (uint32_t)((range->end - range->begin + d->batch - 1) / d->batch) : 0;
}

uint32_t unit_batches(const struct unit_reader *u)
{
	return (uint32_t)((u->rows + u->dataset->batch - 1) / u->dataset->batch);
}

uint64_t unit_bad_lines(const struct unit_reader *u)
{
	return u->bad_lines;
}

/* Returns the piece that holds a row of the unit, and the row's place in its view. */
static const struct piece *piece_of(const struct unit_reader *u, uint64_t row, uint32_t *place)
{
	uint32_t low = 0, high = u->pieces_count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (u->pieces[middle].first <= row)
			low = middle;
		else
			high = middle;
	}
	*place = u->pieces[low].skip + (uint32_t)(row - u->pieces[low].first);
	return &u->pieces[low];
}

static size_t keys_of(const struct rows_view *v, uint32_t row)
{
	const uint32_t *offsets = v->offsets;
	return !offsets ? v->fields : offsets[((size_t)row + 1) * v->fields] - offsets[(size_t)row * v->fields];
}

/* --- Content */

/* Hashes one row. A value or weight that the view leaves out is 1. */
static uint64_t row_content(const struct rows_view *v, uint32_t row)
{
	const size_t fields = v->fields, dense = v->dense_dim, first = v->offsets ? v->offsets[row * fields] : row * fields;
	const size_t keys = keys_of(v, row);
	const float weight = v->weights ? v->weights[row] : 1;
	uint64_t h = hash_bytes(v->labels + (size_t)row * v->tasks, v->tasks * sizeof *v->labels, 1);
	h = hash_bytes(&weight, sizeof weight, h);
	if (dense > 0)
		h = hash_bytes(v->dense + row * dense, dense * sizeof *v->dense, h);
	h = hash_bytes(v->keys + first, keys * sizeof *v->keys, h);
	for (size_t f = 0; f < fields && keys != fields; f++) {
		const uint32_t bag = v->offsets[row * fields + f + 1] - v->offsets[row * fields + f];
		h = hash_bytes(&bag, sizeof bag, h);
	}
	for (size_t k = 0; k < keys && v->values; k++)
		if (memcmp(&v->values[first + k], &(float){1}, sizeof(float)) != 0)
			h = hash_bytes(&v->values[first + k], sizeof(float), h + k);
	if (v->groups)
		h = hash_bytes(&v->groups[row], sizeof *v->groups, h);
	return h;
}

/* Hashes the examples of text or token data, one at a time. */
static weir_status text_content(const struct unit_reader *u, uint64_t *sum, weir_error *err)
{
	const struct dataset *d = u->dataset;
	const size_t each = d->corpus ? d->info.context + 1u : 2 * (size_t)d->info.sequence;
	uint32_t *example = malloc(each * sizeof *example);
	weir_status status = example ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for an example");
	for (uint64_t r = 0; r < u->rows && status == WEIR_OK; r++) {
		const uint64_t at = u->first_example + r;
		uint64_t counted = 0;
		if (d->corpus)
			corpus_read(d->corpus, u->order ? corpus_spread(d->corpus, at) : at, example, example + d->info.context);
		else
			status = sequences_read(d->sequences, u->order ? sequences_spread(d->sequences, at) : at, example,
			                        example + d->info.sequence, &counted, err);
		*sum += hash_bytes(example, each * sizeof *example, 1);
	}
	free(example);
	return status;
}

weir_status unit_content(const struct unit_reader *u, uint64_t *out, weir_error *err)
{
	uint64_t sum = u->rows;
	weir_status status = u->dataset->corpus || u->dataset->sequences ? text_content(u, &sum, err) : WEIR_OK;
	for (uint32_t i = 0; i < u->pieces_count; i++)
		for (uint32_t r = 0; r < u->pieces[i].count; r++)
			sum += row_content(&u->pieces[i].view, u->pieces[i].skip + r);
	*out = sum ? sum : 1;
	return status;
}

/* --- Batches */

/* Reads rows [first, end) of a unit of text. Without a shuffle they have the order of the files;
 * shuffled, the unit's rows come from all of the text. */
static weir_status read_examples(const struct unit_reader *u, uint64_t first, uint64_t end, struct batch *b, weir_error *err)
{
	const struct dataset *d = u->dataset;
	if (!batch_reserve_tokens(b, (uint32_t)(end - first), d->info.context))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch of %llu rows", (unsigned long long)(end - first));
	for (uint64_t r = first; r < end; r++) {
		const uint64_t example = !u->order ? u->first_example + r : corpus_spread(d->corpus, u->first_example + u->order[r]);
		corpus_read(d->corpus, example, b->tokens + (size_t)b->rows * d->info.context, &b->targets[b->rows]);
		b->rows++;
	}
	return WEIR_OK;
}

/* The same for token data. */
static weir_status read_sequences(const struct unit_reader *u, uint64_t first, uint64_t end, struct batch *b, weir_error *err)
{
	const struct dataset *d = u->dataset;
	const uint32_t length = d->info.sequence;
	weir_status status = WEIR_OK;
	if (!batch_reserve_sequences(b, (uint32_t)(end - first), length))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch of %llu sequences of %u tokens",
		                 (unsigned long long)(end - first), length);
	for (uint64_t r = first; r < end && status == WEIR_OK; r++, b->rows++) {
		const uint64_t i = !u->order ? u->first_example + r : sequences_spread(d->sequences, u->first_example + u->order[r]);
		const size_t at = (size_t)b->rows * length;
		status = sequences_read(d->sequences, i, b->tokens + at, b->targets + at, &b->counted, err);
	}
	return status;
}

weir_status unit_read(struct unit_reader *u, uint32_t i, struct batch *b, weir_error *err)
{
	const struct dataset *d = u->dataset;
	assert(i < unit_batches(u));
	uint64_t first = (uint64_t)i * d->batch, end = first + d->batch < u->rows ? first + d->batch : u->rows;
	if (d->corpus)
		return read_examples(u, first, end, b, err);
	if (d->sequences)
		return read_sequences(u, first, end, b, err);
	size_t keys = 0;
	uint32_t place;
	for (uint64_t r = first; r < end; r++) {
		const struct piece *p = piece_of(u, !u->order ? r : u->order[r], &place);
		keys += keys_of(&p->view, place);
	}
	const struct row_shape shape = {d->info.tasks, d->info.fields, d->info.dense_dim};
	if (keys > UINT32_MAX || !batch_reserve(b, (uint32_t)(end - first), shape, keys, u->has))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a batch of %llu rows and %zu keys",
		                 (unsigned long long)(end - first), keys);
	for (uint64_t r = first; r < end; r++) {
		const struct piece *p = piece_of(u, !u->order ? r : u->order[r], &place);
		batch_append(b, &p->view, place);
	}
	column_scales_apply(&d->scales, b->dense, b->rows, b->dense_dim);
	return WEIR_OK;
}

void unit_close(struct unit_reader *u)
{
	if (!u)
		return;
	for (uint32_t i = 0; i < u->pieces_count; i++)
		packed_block_close(&u->pieces[i].block);
	give_memory(u);
	free(u->pieces);
	free(u->order);
	free(u);
}
