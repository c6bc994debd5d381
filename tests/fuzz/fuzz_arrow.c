/* A batch of the Arrow C data interface from a stranger: refused, or each cell is a text, a number or
 * a time, or refused. Buffers have the sizes that the interface states, and any content.
 *
 * Input: u8 kind of column, u8 types of the array and of its values, u8 flags (1: validity, 2: the
 * array has a dictionary, 4: a buffer is missing, 8: a child is missing), u8 length, u8 offset,
 * i8 surplus of the child's length, the content of all buffers, again and again. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "worker/data/format/arrow_reader.h"

enum { HEAD_BYTES = 7, TEXT_BYTES = 4096, NODES = 2 };

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
	size_t size, at;
};

static void *filled(struct content *c, size_t bytes)
{
	uint8_t *out = malloc(bytes + 1);
	assert(out);
	for (size_t i = 0; i < bytes; i++)
		out[i] = c->size > 0 ? c->data[c->at++ % c->size] : 0;
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

static void fill(struct node *n, struct content *c, const char *format, int64_t length, int64_t offset, unsigned flags)
{
	const size_t count = (size_t)(length + offset);
	const bool is_offsets = strchr("uzUZ", *format) || (*format == '+' && format[1] != 'w');
	const size_t width = width_of(format);
	n->schema = (struct ArrowSchema){.format = format, .name = "x"};
	n->array = (struct ArrowArray){.length = length, .offset = offset, .buffers = n->buffers};
	n->array.n_buffers = buffers_of(format);
	n->memory[0] = flags & 1 ? filled(c, (count + 7) / 8) : NULL;
	n->memory[1] = flags & 4 ? NULL : filled(c, width == 0 ? (count + 7) / 8 : (count + is_offsets) * width);
	n->memory[2] = filled(c, TEXT_BYTES);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD_BYTES)
		return 0;
	static char *const names[] = {"x"};
	struct content c = {data + HEAD_BYTES, size - HEAD_BYTES, 0};
	enum column_kind kind = kinds[data[0] % (sizeof kinds / sizeof *kinds)];
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
	const struct table_layout layout = {.rows = ROWS_ARROW, .columns = 1, .names = (char **)names, .kinds = &kind};
	struct arrow_reader reader = {0};
	weir_error err = {0};
	if (arrow_reader_begin(&reader, &layout, &schema, &batch, &err) == WEIR_OK)
		read_rows(&reader, &layout);
	else
		assert(err.text[0] && !arrow_reader_next(&reader));
	arrow_reader_destroy(&reader);
	for (size_t i = 0; i < NODES; i++)
		for (size_t b = 0; b < 3; b++)
			free(nodes[i].memory[b]);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const uint8_t seeds[][HEAD_BYTES + 12] = {
	    {0, 12, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0},
	    {1, 20, 8, 1, 2, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0},
	    {0, 2, 12, 2, 4, 1, 3, 0, 1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 2},
	    {3, 11, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 9, 9, 9, 9},
	    {2, 22, 6, 0, 3, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
	    {7, 19, 0, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
	};
	if (i >= sizeof seeds / sizeof *seeds)
		return NULL;
	uint8_t *out = malloc(sizeof *seeds);
	assert(out);
	memcpy(out, seeds[i], sizeof *seeds);
	*size = sizeof *seeds;
	return out;
}
