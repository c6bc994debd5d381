/* Finds the lines behind rows (dataset.h). Reads the files again, independently of the reader of
 * the rows. */
#include <stdlib.h>
#include <string.h>

#include "worker/data/dataset_internal.h"

struct dataset_lines {
	const struct dataset *dataset;
	struct text *text; /* the current file, while it is being read */
	struct text_chunk chunk;
	size_t at; /* offset of the next line in the chunk */
	uint32_t file;
	uint64_t line; /* number of the last line read */
};

weir_status dataset_lines_open(struct dataset_lines **out, const struct dataset *d, weir_error *err)
{
	if (!d->parser)
		return weir_fail(err, WEIR_E_INVALID, "%s: its rows are no lines of text, which alone have numbers",
		                 d->sources.items[0].path);
	struct dataset_lines *l = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for lines");
	l->dataset = d;
	*out = l;
	return WEIR_OK;
}

/* Reads until the chunk has an untaken line. */
static weir_status read_on(struct dataset_lines *l, weir_error *err)
{
	const struct sources *s = &l->dataset->sources;
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && l->at >= l->chunk.size) {
		if (l->file == s->count)
			return WEIR_E_NOT_FOUND;
		if (!l->text)
			status = text_open(&l->text, s->items[l->file].path, 0, UINT64_MAX, err);
		if (status == WEIR_OK)
			status = text_next(l->text, &l->chunk, err);
		l->at = 0;
		if (status != WEIR_OK || l->chunk.size > 0)
			continue;
		text_close(l->text);
		l->text = NULL;
		l->line = 0;
		l->file++;
	}
	return status;
}

weir_status dataset_lines_next(struct dataset_lines *l, const char **file, uint64_t *line, weir_error *err)
{
	const struct dataset *d = l->dataset;
	for (;;) {
		const weir_status status = read_on(l, err);
		if (status != WEIR_OK)
			return status;
		const char *at = l->chunk.data + l->at;
		const char *newline = memchr(at, '\n', l->chunk.size - l->at);
		const size_t n = !newline ? l->chunk.size - l->at : (size_t)(newline - at);
		l->at += n + 1;
		l->line++;
		if (d->load.split.on && split_line(&d->load.split, at, parse_line_bytes(at, n)) != d->part)
			continue;
		*file = d->sources.items[l->file].path;
		*line = l->line;
		return WEIR_OK;
	}
}

void dataset_lines_close(struct dataset_lines *l)
{
	if (!l)
		return;
	text_close(l->text);
	text_chunk_free(&l->chunk);
	free(l);
}
