/* JSON lines: each line becomes a whole row or nothing; a text cut after whole lines gives the same
 * rows. A line of texts from which `weir inspect` learns its columns is a row of these columns.
 *
 * Input: u8 settings (table_rows.h), the text. */
#include "tests/fuzz/fuzz.h"

#include "common/base/limits.h"
#include "tests/fuzz/table_rows.h"
#include "worker/data/inspect/json_columns.h"

/* The bytes of whole lines in text[0 .. n). */
static size_t cut_lines(const char *text, size_t n)
{
	while (n > 0 && text[n - 1] != '\n')
		n--;
	return n;
}

static void check_names(const struct json_columns *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		const size_t n = strlen(c->names[i]);
		assert(n > 0 && n < WEIR_COLUMN_NAME_BYTES_MAX);
		for (uint32_t j = 0; j < i; j++)
			assert(strcmp(c->names[i], c->names[j]) != 0);
	}
}

/* Reads a line by the columns that it taught, all texts. A key that it has twice is one column. */
static void read_learnt(const struct json_columns *c, const char *line, size_t n)
{
	enum column_kind *kinds = malloc(c->count * sizeof *kinds);
	struct json_reader reader = {0};
	struct cell text;
	uint64_t number;
	assert(kinds);
	for (uint32_t i = 0; i < c->count; i++)
		kinds[i] = COLUMN_CATEGORICAL;
	const struct table_layout layout = {.rows = ROWS_JSON, .columns = c->count, .names = c->names, .kinds = kinds};
	assert(json_reader_begin(&reader, &layout, line, n) && json_reader_next(&reader, &text, &number));
	assert(!reader.scan.why[0] || strstr(reader.scan.why, "the line has it twice"));
	json_reader_destroy(&reader);
	free(kinds);
}

static void check_learning(const char *line, size_t n)
{
	char why[PARSE_WHY_BYTES] = "";
	struct json_columns columns = {0};
	bool texts = true;
	const bool learnt = json_columns_learn(&columns, line, n, why);
	assert(learnt || why[0]);
	check_names(&columns);
	for (uint32_t i = 0; i < columns.count; i++) {
		texts &= columns.types[i].is == TYPE_TEXT;
		assert((columns.types[i].is == TYPE_REFUSED) == (columns.types[i].why[0] != 0));
	}
	if (learnt && columns.count > 0 && texts)
		read_learnt(&columns, line, n);
	json_columns_destroy(&columns);
}

static void check_columns(const char *text, size_t n)
{
	char *copy = calloc(1, n + PARSE_SLACK);
	assert(copy);
	memcpy(copy, text, n);
	for (const char *at = copy, *end = copy + n; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t line = (size_t)((newline ? newline : end) - at);
		check_learning(at, parse_line_bytes(at, line));
		at += line + 1;
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct table_layout layout = table_rows_layout(data[0]);
	layout.rows = ROWS_JSON;
	const char *text = (const char *)data + 1;
	const size_t n = size - 1;
	check_columns(text, n);
	table_rows_read(&layout, DATA_JSONL, data[0], text, n, cut_lines(text, n / 2));
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const struct {
		uint8_t settings;
		const char *text;
	} seeds[] = {
	    {0, "{\"y\":1,\"u\":\"a\\u00e9\\n\",\"m\":[1,\"b\",null],\"n\":-1.5e3,\"w\":true}\n{\"y\":\"0\",\"s\":[],\"g\":null}\n"},
	    {1, "{\"x\":1}\n\n{\"y\":1,\"m\":{\"a\":[]}}\n{\"y\":1,\"u\":\"\\ud83d\\ude00\"}\n[1]\n{\"y\":0}"},
	    {2, "{\"y\":-1,\"u\":7,\"m\":\"a|b||c|d\",\"s\":[\"x|y\",\"z\",true],\"n\":\"2.5\",\"w\":0,\"g\":1}\r\n{}\r\n"},
	    {3, "{\"y\":null,\"u\":7.0,\"s\":\"\",\"n\":null}\n{\"y\":\"?\",\"g\":\"1\"}\n"},
	    {8, "{ \"n\" : 1 , \"y\" : false , \"u\" : \"\" }\n{\"w\":1e99,\"y\":1}\n{\"s\":\"\xc3\xa9\",\"y\":1}\n"},
	    {9, "{\"y\":1,\"y\":0}\n{\"y\":NaN}\n{\"y\":-Infinity,\"n\":1}\n{\"m\":[[1]],\"y\":[{\"a\":1}]}\n"},
	    {0, "{\"y\":1,\"u\":\"\\ud83d\"}\n{\"y\":1,\"u\":\"\\u0000\"}\n{\"y\":1,\"u\":\"\xff\"}\n{\"y\":1,\"u\":\"not closed}\n"},
	    {0, "{\"y\":1,\"u\":01}\n{\"y\":1.}\n{\"y\":+1}\n{\"y\":tru}\n{\"y\":1}x\n{\"y\":1,}\n{y:1}\n{\"y\"}\n{\"\":1}\n"},
	    {0, "{\"a\":{\"b\":[{\"c\":\"}\\\"]\"}]},\"d\":[[],[[]]],\"e\":[1,2]}\n{\"a\\tb\":1}\n{\"e\":3,\"e\":[4]}\n"},
	    {0, "[[[[[[[[[[[[[[[[[[[[{\"a\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}\n{\"m\":[,]}\n{\"m\":[1,]}\n{\"m\":[1 2]}\n"}};
	return i < sizeof seeds / sizeof *seeds ? table_rows_seed(seeds[i].settings, seeds[i].text, size) : NULL;
}
