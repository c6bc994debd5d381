/* A batch of the Arrow C data interface from a stranger: refused, or each cell is a text, a number or
 * a time, or refused; and read by columns it has the rows that it has read by rows. Buffers have the
 * sizes that the interface states, and any content.
 *
 * Input: u8 kind of column, u8 types of the array and of its values, u8 flags (1: validity, 2: the
 * array has a dictionary, 4: a buffer is missing, 8: a child is missing, 16: rows to score, 32: empty
 * cells have a value, 64: another use of the kind, 128: keys are folded to buckets), u8 length,
 * u8 offset, i8 surplus of the child's length, the content of all buffers, again and again: texts and
 * bits from its beginning, values and offsets from byte 64. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/format/parse_batch.h"
#include "worker/data/format/parse_table.h"

enum { HEAD_BYTES = 7, TEXT_BYTES = 4096, NODES = 2, VALUES = 64, SEEDS_OF_SHAPE = 80, OFFSETS = 32 };

static const char *const formats[] = {"n", "b", "c", "C",   "s",   "S",    "i",    "I",  "l",  "L",    "f",     "g",  "u",
                                      "z", "U", "Z", "tdD", "tdm", "tss:", "tsn:", "+l", "+L", "+w:2", "d:9,2", "+s", "ttm"};
static const enum column_kind kinds[] = {COLUMN_CATEGORICAL, COLUMN_MULTI,  COLUMN_SEQUENCE, COLUMN_NUMERIC,
                                         COLUMN_LABEL,       COLUMN_WEIGHT, COLUMN_GROUP,    COLUMN_TIME};

struct node {
	struct ArrowSchema schema, *schema_child;
	struct ArrowArray array, *child;
	const void *buffers[3];
	void *memory[3];
};

struct content {
	const uint8_t *data;
	size_t size;
};

static void *filled(const struct content *c, size_t bytes, size_t from)
{
	uint8_t *out = malloc(bytes + 1);
	assert(out);
	for (size_t i = 0; i < bytes; i++)
		out[i] = c->size > 0 ? c->data[(from + i) % c->size] : 0;
	return out;
}

/* Bytes of the second buffer's elements; 0: bits. */
static size_t width_of(const char *format)
{
	static const char *const widths[] = {"b", "cC", "sS", "iIf", "lLgt"};
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		if (strchr(widths[i], *format))
			return i == 0 ? 0 : (size_t)1 << (i - 1);
	return strcmp(format, "u") == 0 || strcmp(format, "z") == 0 || strcmp(format, "+l") == 0 ? 4 : 8;
}

/* Keeps the offsets of texts within the text buffer; they may fall, and be negative. */
static void bound(void *offsets, size_t count, bool large)
{
	for (size_t i = 0; i < count; i++)
		if (large)
			((int64_t *)offsets)[i] %= TEXT_BYTES;
		else
			((int32_t *)offsets)[i] %= TEXT_BYTES;
}

static int64_t buffers_of(const char *format)
{
	if (*format == 'n')
		return 0;
	if (strncmp(format, "+w", 2) == 0 || strcmp(format, "+s") == 0)
		return 1;
	return strchr("uzUZ", *format) ? 3 : 2;
}

static void fill(struct node *n, const struct content *c, const char *format, int64_t length, int64_t offset, unsigned flags)
{
	const size_t count = (size_t)(length + offset);
	const bool is_offsets = strchr("uzUZ", *format) || (*format == '+' && format[1] != 'w');
	const size_t width = width_of(format);
	n->schema = (struct ArrowSchema){.format = format, .name = "x"};
	n->array = (struct ArrowArray){.length = length, .offset = offset, .buffers = n->buffers};
	n->array.n_buffers = buffers_of(format);
	n->memory[0] = flags & 1 ? filled(c, (count + 7) / 8, 0) : NULL;
	n->memory[1] = flags & 4 ? NULL : filled(c, width == 0 ? (count + 7) / 8 : (count + is_offsets) * width, VALUES);
	n->memory[2] = filled(c, TEXT_BYTES, 0);
	if (is_offsets && n->memory[1])
		bound(n->memory[1], count + 1, width == 8);
	memcpy(n->buffers, n->memory, sizeof n->buffers);
}

static void read_rows(struct arrow_reader *r, const struct table_layout *l)
{
	struct cell cell;
	int64_t rows = 0;
	while (arrow_reader_next(r)) {
		rows++;
		const char *bad = arrow_reader_cell(r, 0, &cell);
		assert(!bad || *bad);
		assert(bad || cell.form != CELL_NUMBER || isfinite(cell.number));
		assert(bad || cell.n <= WEIR_CELL_BYTES_MAX + 1);
		assert(bad || cell.form != CELL_TEXT || !memchr(cell.text, 0, cell.n));
		assert(bad || cell.form != CELL_LIST || l->kinds[0] == COLUMN_MULTI || l->kinds[0] == COLUMN_SEQUENCE);
		const struct cell text = arrow_reader_text(r);
		assert(text.n > 0 && text.text[text.n - 1] == 0);
	}
	assert(rows == r->end - r->first);
}

/* What becomes of the one column. */
struct use {
	struct job_column column;
	struct table_feature feature;
	struct table_label label;
	struct table_layout layout;
	enum column_kind kind;
	float boundaries[2];
};

static void init_use(struct use *u, enum column_kind kind, unsigned flags)
{
	static char *const names[] = {"x"};
	const bool other = flags & 64, number = kind == COLUMN_NUMERIC && !other;
	const bool id = kind == COLUMN_CATEGORICAL || kind == COLUMN_MULTI || kind == COLUMN_SEQUENCE || kind == COLUMN_NUMERIC;
	const char *empty = flags & 32 ? "1" : "";
	*u = (struct use){.kind = kind, .boundaries = {0, 100}};
	u->column = (struct job_column){.kind = kind, .separator = "|", .max_length = other ? 2 : 600, .boundaries = u->boundaries};
	u->column.pooling = other ? POOLING_MEAN : POOLING_SUM;
	u->column.transform = number ? TRANSFORM_LOG1P : TRANSFORM_BUCKETIZE;
	u->column.boundaries_count = 2;
	snprintf(u->column.empty, sizeof u->column.empty, "%s", empty);
	u->feature = (struct table_feature){.missing = *empty ? 1.0f : 0.0f, .column = &u->column};
	u->label = (struct table_label){.cell = kind == COLUMN_LABEL ? 0 : TABLE_NO_COLUMN,
	                                .masked = flags & 1,
	                                .positive_above = other ? 2.0f : NAN,
	                                .positive = other && flags & 1 ? "a" : "",
	                                .empty = empty};
	u->layout = (struct table_layout){.rows = ROWS_ARROW,
	                                  .columns = 1,
	                                  .names = (char **)names,
	                                  .kinds = &u->kind,
	                                  .fields = &u->feature,
	                                  .fields_count = id && !number,
	                                  .dense = &u->feature,
	                                  .dense_count = number,
	                                  .labels = &u->label,
	                                  .labels_count = 1,
	                                  .weight = kind == COLUMN_WEIGHT ? 0 : TABLE_NO_COLUMN,
	                                  .group = kind == COLUMN_GROUP ? 0 : TABLE_NO_COLUMN,
	                                  .group_empty = empty,
	                                  .split = kind == COLUMN_TIME ? 0 : TABLE_NO_COLUMN,
	                                  .split_column = &u->column,
	                                  .split_is_time = kind == COLUMN_TIME,
	                                  .weight_missing = *empty ? 1.0f : NAN,
	                                  .bags = kind != COLUMN_LABEL && kind != COLUMN_CATEGORICAL && kind != COLUMN_NUMERIC};
}

static uint64_t by_rows(const struct parser *p, struct row_reader *r, int64_t rows, struct rows *out)
{
	char why[PARSE_WHY_BYTES];
	uint64_t bad = 0;
	for (int64_t i = 0; i < rows; i++) {
		arrow_reader_seek(&r->arrow, i);
		bad += parse_table(p, r, out, why) != PARSED_ROW;
	}
	return bad;
}

static uint64_t by_columns(const struct parser *p, struct row_reader *r, int64_t rows, struct rows *out)
{
	char why[PARSE_WHY_BYTES];
	int64_t at[UINT8_MAX];
	uint64_t bad = 0;
	struct parse_batch *b;
	weir_error err;
	for (int64_t i = 0; i < rows; i++)
		at[i] = i;
	/* begun again, it knows the keys of its dictionary */
	const bool read = parse_batch_create(&b, p, r, &err) == WEIR_OK && parse_batch_begin(b, rows, &err) == WEIR_OK &&
	                  parse_batch_read(b, at, (uint32_t)rows, &err) == WEIR_OK && parse_batch_begin(b, rows, &err) == WEIR_OK &&
	                  parse_batch_read(b, at, (uint32_t)rows, &err) == WEIR_OK;
	assert(read);
	for (uint32_t i = 0; i < (uint32_t)rows; i++) {
		if (!parse_batch_is_odd(b, i)) {
			assert(parse_batch_append(b, i, 1, out));
			continue;
		}
		arrow_reader_seek(&r->arrow, i);
		bad += parse_table(p, r, out, why) != PARSED_ROW;
	}
	parse_batch_destroy(b);
	return bad;
}

static bool same(const void *a, const void *b, size_t bytes)
{
	return bytes == 0 || memcmp(a, b, bytes) == 0;
}

static void check_same(const struct rows *a, const struct rows *b)
{
	const size_t rows = a->count, keys = a->keys_count;
	assert(b->count == rows && b->keys_count == keys);
	assert(a->weighted == b->weighted && a->valued == b->valued && a->grouped == b->grouped && a->one_hot == b->one_hot);
	assert(same(a->labels, b->labels, rows * sizeof *a->labels) && same(a->keys, b->keys, keys * sizeof *a->keys));
	assert(same(a->dense, b->dense, rows * a->dense_dim * sizeof *a->dense));
	if (!a->bags || rows == 0)
		return;
	assert(same(a->weights, b->weights, rows * sizeof *a->weights) && same(a->groups, b->groups, rows * sizeof *a->groups));
	assert(same(a->values, b->values, keys * sizeof *a->values));
	assert(same(a->offsets, b->offsets, (rows * a->fields + 1) * sizeof *a->offsets));
}

/* Reads a batch by rows and by columns. */
static void compare(struct use *u, const struct ArrowSchema *schema, const struct ArrowArray *batch, unsigned flags)
{
	static struct parser p;
	struct row_reader r = {0};
	struct rows rows, columns;
	weir_error err;
	parser_init(&p, DATA_ARROW, u->layout.fields_count, u->layout.dense_count, flags & 128 ? 1000 : 0);
	p.layout = &u->layout;
	p.every_line = flags & 16;
	rows_init(&rows, parser_shape(&p), parser_bags(&p));
	rows_init(&columns, parser_shape(&p), parser_bags(&p));
	if (row_reader_begin_batch(&r, &u->layout, schema, batch, &err) == WEIR_OK) {
		const uint64_t bad = by_rows(&p, &r, batch->length, &rows);
		assert(by_columns(&p, &r, batch->length, &columns) == bad);
		check_same(&rows, &columns);
	}
	rows_destroy(&rows);
	rows_destroy(&columns);
	row_reader_destroy(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD_BYTES)
		return 0;
	const struct content c = {data + HEAD_BYTES, size - HEAD_BYTES};
	const char *const of[NODES] = {formats[data[1] % (sizeof formats / sizeof *formats)],
	                               formats[data[2] % (sizeof formats / sizeof *formats)]};
	const unsigned flags = data[3];
	const int64_t length = data[4], offset = data[5] % 16, values = length * 2 + offset * 2 + (int8_t)data[6];
	struct node nodes[NODES];
	fill(&nodes[0], &c, of[0], length, offset, flags);
	fill(&nodes[1], &c, of[1], values > 0 ? values : 0, 0, flags & ~4u);
	nodes[0].schema_child = &nodes[1].schema;
	nodes[0].child = &nodes[1].array;
	if (*of[0] == '+' && !(flags & 8)) {
		nodes[0].schema.n_children = nodes[0].array.n_children = 1;
		nodes[0].schema.children = &nodes[0].schema_child;
		nodes[0].array.children = &nodes[0].child;
	}
	if (flags & 2) {
		nodes[0].schema.dictionary = &nodes[1].schema;
		nodes[0].array.dictionary = flags & 8 ? NULL : &nodes[1].array;
	}
	struct ArrowSchema *schema_children[] = {&nodes[0].schema};
	struct ArrowArray *children[] = {&nodes[0].array};
	const struct ArrowSchema schema = {.format = "+s", .n_children = 1, .children = schema_children};
	const struct ArrowArray batch = {.length = length, .n_children = 1, .children = children};
	struct use use;
	init_use(&use, kinds[data[0] % (sizeof kinds / sizeof *kinds)], flags);
	struct arrow_reader reader = {0};
	weir_error err = {0};
	if (arrow_reader_begin(&reader, &use.layout, &schema, &batch, &err) == WEIR_OK)
		read_rows(&reader, &use.layout);
	else
		assert(err.text[0] && !arrow_reader_next(&reader));
	arrow_reader_destroy(&reader);
	compare(&use, &schema, &batch, flags);
	for (size_t i = 0; i < NODES; i++)
		for (size_t b = 0; b < 3; b++)
			free(nodes[i].memory[b]);
	return 0;
}

/* Writes texts, of which some are refused, then rising offsets of 32 or 64 bits. */
static size_t write_content(uint8_t *out, size_t width)
{
	static const uint8_t texts[VALUES] = "a|b|c1.5-7e true ab\xc3\xa9 longer than one word\xff and\0other words";
	size_t n = VALUES;
	memcpy(out, texts, VALUES);
	for (uint64_t k = 0, offset = 0; k < OFFSETS; k++, n += width) {
		memcpy(out + n, &offset, width);
		offset += k * k % 11;
	}
	return n;
}

/* Each kind with each type, as an array, as the elements of lists, and as those of a dictionary. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const uint8_t shapes[][2] = {{0, 1}, {20, 1}, {6, 3}};
	const uint32_t kinds_count = sizeof kinds / sizeof *kinds, types = sizeof formats / sizeof *formats;
	const uint32_t shape = i / SEEDS_OF_SHAPE, type = i % SEEDS_OF_SHAPE % types;
	if (shape >= sizeof shapes / sizeof *shapes)
		return NULL;
	uint8_t *out = malloc(HEAD_BYTES + VALUES + OFFSETS * sizeof(uint64_t));
	assert(out);
	const uint8_t head[HEAD_BYTES] = {(uint8_t)((i % SEEDS_OF_SHAPE / types + shape) % kinds_count),
	                                  shape == 0 ? (uint8_t)type : shapes[shape][0],
	                                  (uint8_t)type,
	                                  (uint8_t)(shapes[shape][1] | (i * 16 & 0xf0)),
	                                  4,
	                                  (uint8_t)(i % 3),
	                                  14};
	memcpy(out, head, sizeof head);
	*size = HEAD_BYTES + write_content(out + HEAD_BYTES, i & 1 ? 8 : 4);
	return out;
}
