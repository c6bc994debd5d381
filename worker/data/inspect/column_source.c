#include "worker/data/inspect/column_source.h"

#include <string.h>
#include <strings.h>

#include "worker/data/format/json_array.h"
#include "worker/data/inspect/table_sample.h"
#include "worker/data/inspect/text_sample.h"

enum { BEGINNING_BYTES = 256 };

const char *table_rows_name(enum table_rows rows)
{
	static const char *const names[] = {
	    [ROWS_CSV] = "csv", [ROWS_JSON] = "jsonl", [ROWS_PARQUET] = "parquet", [ROWS_ARROW] = "arrow"};
	return names[rows];
}

/* --- Formats */

/* The bytes of a name before its ending; the whole name: it has another one. */
static size_t before_ending(const char *name, size_t n, const char *ending)
{
	const size_t bytes = strlen(ending);
	return n > bytes && strncasecmp(name + n - bytes, ending, bytes) == 0 ? n - bytes : n;
}

/* The format that the ending of a name tells, or CSV. */
static enum table_rows rows_of_name(const char *name)
{
	static const char *const compressed[] = {".gz", ".zst", ".lz4"};
	static const struct {
		const char *ending;
		enum table_rows rows;
	} endings[] = {{".jsonl", ROWS_JSON},  {".ndjson", ROWS_JSON},   {".parquet", ROWS_PARQUET},
	               {".arrow", ROWS_ARROW}, {".feather", ROWS_ARROW}, {".ipc", ROWS_ARROW}};
	size_t n = strlen(name);
	for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++)
		n = before_ending(name, n, compressed[i]);
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (before_ending(name, n, endings[i].ending) < n)
			return endings[i].rows;
	return ROWS_CSV;
}

static weir_status read_beginning(const char *path, char out[BEGINNING_BYTES + 1], size_t *n, weir_error *err)
{
	struct text *text;
	weir_status status = text_open(&text, path, 0, UINT64_MAX, err);
	if (status != WEIR_OK)
		return status;
	status = text_next_bytes(text, out, BEGINNING_BYTES, n, err);
	text_close(text);
	out[status == WEIR_OK ? *n : 0] = 0;
	return status;
}

/* Whether a text begins with an object: a brace before a key, or before another brace. */
static bool begins_with_object(const char *text)
{
	static const char blanks[] = " \t\r\n";
	text += strspn(text, blanks);
	if (*text != '{')
		return false;
	text += 1 + strspn(text + 1, blanks);
	return *text == '"' || *text == '}';
}

/* The format of a text: that of its beginning, else that of its name. */
static weir_status rows_of_text(const char *path, enum table_rows *out, weir_error *err)
{
	char text[BEGINNING_BYTES + 1];
	size_t n = 0;
	const weir_status status = read_beginning(path, text, &n, err);
	if (status != WEIR_OK)
		return status;
	if (json_array_begins(text, n, true))
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "%s is one JSON array; expected an object a line: jq -c '.[]' %s > ROWS.jsonl writes that", path, path);
	*out = begins_with_object(text) ? ROWS_JSON : rows_of_name(path);
	return WEIR_OK;
}

static weir_status rows_of_file(const struct source *file, enum table_rows *out, weir_error *err)
{
	switch (file->kind) {
	case TEXT_PARQUET:
		*out = ROWS_PARQUET;
		return WEIR_OK;
	case TEXT_ARROW:
		*out = ROWS_ARROW;
		return WEIR_OK;
	default:
		return rows_of_text(file->path, out, err);
	}
}

static bool is_table(const struct source *file)
{
	return file->kind == TEXT_PARQUET || file->kind == TEXT_ARROW;
}

/* Recognises the format by the first file that is not empty. Other files may differ from it only
 * where both are text: then their rows cannot be read. */
static weir_status recognise(const struct sources *sources, const struct column_source_options *o, enum table_rows *out,
                             weir_error *err)
{
	const bool csv = o->delimiter || o->header != HEADER_RECOGNISED;
	const struct source *first = NULL;
	for (uint32_t i = 0; i < sources->count; i++) {
		const struct source *file = &sources->items[i];
		if (file->size == 0)
			continue;
		first = first ? first : file;
		if (is_table(file) && csv)
			return weir_fail(err, WEIR_E_INVALID, "%s is no CSV: leave out --delimiter and --header", file->path);
		if ((is_table(file) || is_table(first)) && file->kind != first->kind)
			return weir_fail(err, WEIR_E_INVALID, "%s and %s have different formats; expected files of one format", first->path,
			                 file->path);
	}
	if (!first)
		return weir_fail(err, WEIR_E_INVALID, "%s is empty: there is no row to look at", sources->items[0].path);
	*out = ROWS_CSV;
	return csv ? WEIR_OK : rows_of_file(first, out, err);
}

weir_status column_source_open(struct column_source **out, const struct sources *sources, const struct column_source_options *o,
                               weir_error *err)
{
	enum table_rows rows = o->layout ? o->layout->rows : ROWS_CSV;
	const weir_status status = o->layout ? WEIR_OK : recognise(sources, o, &rows, err);
	if (status != WEIR_OK)
		return status;
	const bool table = rows == ROWS_PARQUET || rows == ROWS_ARROW;
	return table ? table_sample_open(out, sources, rows, o, err) : text_sample_open(out, sources, rows, o, err);
}
