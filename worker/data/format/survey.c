#include "worker/data/format/survey.h"

#include <string.h>

#include "worker/data/format/parse.h"

static void see_lines(struct survey *s, enum data_format format, uint32_t columns, const struct text_chunk *chunk)
{
	const char *end = chunk->data + chunk->size;
	for (const char *at = chunk->data; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t n = (size_t)((!newline ? end : newline) - at);
		const struct line_shape shape = parse_shape(format, columns, at, n);
		at += n + 1;
		if (!shape.is_row)
			continue;
		s->rows++;
		s->labelled += shape.label == LABEL_THERE;
		s->unlabelled += shape.label == LABEL_ABSENT;
		if (shape.fields > s->fields)
			s->fields = shape.fields;
	}
}

weir_status survey_read(struct survey *out, const struct sources *sources, enum data_format format, uint32_t columns,
                        uint64_t bytes, weir_error *err)
{
	struct text_chunk chunk = {0};
	weir_status status = WEIR_OK;
	uint64_t seen = 0;
	*out = (struct survey){0};
	for (uint32_t f = 0; f < sources->count && seen < bytes && status == WEIR_OK; f++) {
		struct text *text;
		status = text_open(&text, sources->items[f].path, 0, UINT64_MAX, err);
		if (status != WEIR_OK)
			break;
		const uint64_t before = seen;
		do {
			status = text_next(text, &chunk, err);
			if (status == WEIR_OK)
				see_lines(out, format, columns, &chunk);
			seen += chunk.size;
		} while (status == WEIR_OK && chunk.size > 0 && seen - before < bytes / sources->count);
		text_close(text);
	}
	text_chunk_destroy(&chunk);
	return status;
}

bool survey_is_unlabelled(const struct survey *s)
{
	return s->unlabelled > s->labelled;
}
