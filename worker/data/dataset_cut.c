/* Cuts the text of click data into units (dataset.h): by ranges of bytes, about as many as a unit's
 * rows have. */
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/dataset_internal.h"
#include "worker/data/format/csv_index.h"
#include "worker/data/format/row_reader.h"
#include "worker/data/format/table_file.h"

/* Reads the first chunk of a source. */
static weir_status first_chunk(const struct source *source, struct text_chunk *chunk, weir_error *err)
{
	struct text *text;
	weir_status status = text_open(&text, source->path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	status = text_next(text, chunk, err);
	text_close(text);
	return status;
}

/* Estimates the rows of all parts among which a unit's rows of this part are. */
static uint64_t unit_rows_of_all(const struct dataset *d)
{
	const struct split *s = &d->load.split;
	if (!s->on || s->by_time)
		return d->unit_rows;
	const uint64_t share = d->part == SPLIT_TRAIN   ? s->valid_from
	                       : d->part == SPLIT_VALID ? s->test_from - s->valid_from
	                                                : s->modulus - s->test_from;
	return d->unit_rows * s->modulus / (share + (share == 0));
}

/* Estimates the bytes of text with one unit of this part, from the lines at the beginning. */
static uint64_t unit_bytes(const struct dataset *d, const struct text_chunk *chunk)
{
	uint64_t lines = 0;
	for (const char *at = chunk->data, *end = at + chunk->size; at < end; lines++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		at = !newline ? end : newline + 1;
	}
	const uint64_t bytes = (chunk->size / (lines + 1) + 1) * unit_rows_of_all(d);
	return bytes > 0 ? bytes : 1;
}

static weir_status cut_every(struct dataset *d, uint32_t file, uint64_t bytes, weir_error *err)
{
	const uint64_t size = d->sources.items[file].size;
	weir_status status = WEIR_OK;
	for (uint64_t at = 0; at < size && status == WEIR_OK; at += bytes)
		status = dataset_add_unit(d, file, at, at + bytes < size ? at + bytes : UINT64_MAX, err);
	return status;
}

/* Cuts a CSV file with quotes where rows begin. */
static weir_status cut_csv(struct dataset *d, uint32_t file, uint64_t bytes, const char *dir, weir_error *err)
{
	struct csv_index index;
	const struct csv_index_options o = {
	    .dir = dir, .source = &d->sources.items[file], .unit_bytes = bytes, .marks = d->layout->marks};
	weir_status status = csv_index_open(&index, &o, err);
	if (status != WEIR_OK)
		return status;
	if (index.count == 0)
		status = cut_every(d, file, bytes, err);
	for (uint64_t i = 0; i < index.count && status == WEIR_OK; i++)
		status = dataset_add_unit(d, file, index.starts[i], i + 1 < index.count ? index.starts[i + 1] : UINT64_MAX, err);
	free(index.starts);
	return status;
}

/* Cuts a Parquet or Arrow file by rows. */
static weir_status cut_table(struct dataset *d, uint32_t file, weir_error *err)
{
	struct table_file *t;
	weir_status status = table_file_open(&t, d->sources.items[file].path, d->layout, err);
	if (status != WEIR_OK)
		return status;
	const uint64_t rows = table_file_rows(t), unit = unit_rows_of_all(d);
	table_file_close(t);
	for (uint64_t at = 0; at < rows && status == WEIR_OK; at += unit)
		status = dataset_add_unit(d, file, at, at + unit < rows ? at + unit : rows, err);
	return status;
}

weir_status dataset_cut_text(struct dataset *d, const struct job *job, weir_error *err)
{
	struct text_chunk chunk = {0};
	char dir[WEIR_PATH_BYTES_MAX + 16];
	weir_status status = WEIR_OK;
	dataset_cache_dir(job, dir);
	d->info.one_hot = !parser_bags(d->parser);
	for (uint32_t f = 0; f < d->sources.count && status == WEIR_OK; f++) {
		const struct source *source = &d->sources.items[f];
		if (d->layout && row_reader_has_batches(d->layout)) {
			status = cut_table(d, f, err);
			continue;
		}
		if (source->kind != TEXT_PLAIN) {
			status = dataset_add_unit(d, f, 0, UINT64_MAX, err);
			continue;
		}
		status = first_chunk(source, &chunk, err);
		if (status != WEIR_OK)
			break;
		const uint64_t bytes = unit_bytes(d, &chunk);
		status = d->layout && d->layout->rows == ROWS_CSV ? cut_csv(d, f, bytes, dir, err) : cut_every(d, f, bytes, err);
	}
	text_chunk_destroy(&chunk);
	return status;
}
