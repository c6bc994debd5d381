#include "worker/data/format/arrow_ids.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/base/utf8_sanitize.h"
#include "worker/data/format/parse_cell.h"

#define WORD sizeof(uint64_t)

/* Dictionaries of so many elements, or of fewer than four times the rows of a batch, are kept. Of
 * others the rows have few elements. */
#define DICTIONARY_SMALL 65536

enum id_state { ID_UNKNOWN, ID_GOOD, ID_REFUSED };

struct arrow_id {
	uint64_t key;
	uint32_t bytes; /* of the text */
	enum id_state state;
};

static uint64_t key_of(const struct arrow_ids *ids, const char *text, size_t n)
{
	if (n == 0)
		return ids->empty;
	return ids->field ? parse_cell_id(ids->parser, ids->field, text, n) : hash_bytes(text, n, 0);
}

void arrow_ids_init(struct arrow_ids *ids, const struct parser *p, const struct table_feature *field, const char *empty)
{
	const size_t n = strlen(empty);
	*ids = (struct arrow_ids){.parser = p, .field = field};
	ids->empty = field ? parse_cell_id(p, field, empty, n) : n > 0 ? hash_bytes(empty, n, 0) : 0;
}

void arrow_ids_destroy(struct arrow_ids *ids)
{
	free(ids->dictionary.ids);
	ids->dictionary = (struct arrow_dictionary){0};
}

/* Memory of our own may be that of other texts before. */
static bool is_the_same(const struct arrow_dictionary *d, const struct arrow_column *values, int64_t count)
{
	return !values->owned && d->count == count && d->values == values->values && d->text == values->text &&
	       d->valid == values->valid && d->offset == values->offset && d->type == values->type;
}

weir_status arrow_ids_begin(struct arrow_ids *ids, const struct arrow_column *c, int64_t rows, weir_error *err)
{
	struct arrow_dictionary *d = &ids->dictionary;
	const struct arrow_column *cells = arrow_column_is_list(c) ? c->child : c;
	const struct arrow_column *values = cells->is_dictionary ? cells->child : NULL;
	const int64_t count = values && (values->length <= DICTIONARY_SMALL || values->length / 4 <= rows) ? values->length : 0;
	if (count > 0 && is_the_same(d, values, count))
		return WEIR_OK;
	d->count = 0;
	if (count > d->capacity) {
		free(d->ids);
		d->ids = malloc((size_t)count * sizeof *d->ids);
		d->capacity = d->ids ? count : 0;
	}
	if (count > d->capacity)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the keys of a dictionary");
	if (count > 0) {
		memset(d->ids, 0, (size_t)count * sizeof *d->ids);
		d->count = count;
		d->values = values->values;
		d->text = values->text;
		d->valid = values->valid;
		d->offset = values->offset;
		d->type = values->type;
	}
	return WEIR_OK;
}

/* --- Texts */

/* Whether a word's bytes are ASCII without zeros. */
static bool is_plain(uint64_t word)
{
	const uint64_t high = 0x8080808080808080u, low = 0x0101010101010101u;
	return ((word | ((word - low) & ~word)) & high) == 0;
}

/* Whether a text of at least a word is ASCII without zeros. */
static bool is_plain_text(const char *text, size_t n)
{
	uint64_t word;
	bool plain = true;
	for (size_t i = 0; i + WORD < n && plain; i += WORD) {
		memcpy(&word, text + i, WORD);
		plain = is_plain(word);
	}
	memcpy(&word, text + n - WORD, WORD);
	return plain && is_plain(word);
}

static bool is_valid(const char *text, size_t n)
{
	char copy[WEIR_CELL_BYTES_MAX + WORD]; /* which bytes follow */
	memcpy(copy, text, n);
	memset(copy + n, 0, WORD);
	return !memchr(copy, 0, n) && utf8_is_valid(copy, n);
}

/* The key of a text; `readable` bytes are at it. */
static bool text_key(const struct arrow_ids *ids, const char *text, size_t n, size_t readable, uint64_t *out)
{
	char word[WORD] = "";
	uint64_t bytes;
	if (n > WEIR_CELL_BYTES_MAX)
		return false;
	if (n < WORD && readable < WORD)
		text = memcpy(word, text, n);
	*out = key_of(ids, text, n);
	if (n >= WORD)
		return is_plain_text(text, n) || is_valid(text, n);
	memcpy(&bytes, text, WORD);
	/* the bytes behind the text become some character */
	const uint64_t own = ~(~(uint64_t)0 << (8 * n));
	return is_plain((bytes & own) | (0x2020202020202020u & ~own)) || is_valid(text, n);
}

static void texts(const struct arrow_ids *ids, const struct arrow_column *c, const int64_t *at, uint32_t n, uint64_t *out,
                  size_t stride, bool *odd)
{
	int64_t begin, end;
	for (uint32_t j = 0; j < n; j++) {
		uint64_t *key = &out[j * stride];
		*key = ids->empty;
		if (arrow_column_is_null(c, at[j]))
			continue;
		arrow_column_range(c, at[j], &begin, &end);
		if (end > begin)
			odd[j] |= !text_key(ids, c->text + begin, (size_t)(end - begin), (size_t)(c->text_bytes - begin), key);
	}
}

/* --- Other types */

static uint64_t integer_key(const struct arrow_ids *ids, const struct arrow_column *c, int64_t i)
{
	char text[ARROW_NUMBER_BYTES + WORD];
	return key_of(ids, text, arrow_column_integer_text(c, i, false, text));
}

static void integers(const struct arrow_ids *ids, const struct arrow_column *c, const int64_t *at, uint32_t n, uint64_t *out,
                     size_t stride)
{
	for (uint32_t j = 0; j < n; j++)
		out[j * stride] = arrow_column_is_null(c, at[j]) ? ids->empty : integer_key(ids, c, at[j]);
}

static struct arrow_id read_element(const struct arrow_ids *ids, const struct arrow_column *values, int64_t place)
{
	struct arrow_id id = {.key = ids->empty, .state = ID_GOOD};
	int64_t begin, end;
	if (arrow_column_is_null(values, place))
		return id;
	if (!arrow_column_is_text(values)) {
		id.key = integer_key(ids, values, place);
		id.bytes = ARROW_NUMBER_BYTES;
		return id;
	}
	arrow_column_range(values, place, &begin, &end);
	const size_t n = (size_t)(end - begin);
	id.bytes = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
	if (n > 0 && !text_key(ids, values->text + begin, n, (size_t)(values->text_bytes - begin), &id.key))
		id.state = ID_REFUSED;
	return id;
}

/* An element of the dictionary, read now if it has not been; the copy is for one that is not
 * kept. */
static inline const struct arrow_id *element(struct arrow_ids *ids, const struct arrow_column *c, int64_t place,
                                             struct arrow_id *copy)
{
	static const struct arrow_id outside = {.state = ID_REFUSED};
	if (place < 0 || place >= c->child->length)
		return &outside;
	struct arrow_id *id = ids->dictionary.count > 0 ? &ids->dictionary.ids[place] : copy;
	if (id == copy || id->state == ID_UNKNOWN)
		*id = read_element(ids, c->child, place);
	return id;
}

static void elements(struct arrow_ids *ids, const struct arrow_column *c, const int64_t *at, uint32_t n, uint64_t *out,
                     size_t stride, bool *odd)
{
	int64_t places[ARROW_IDS_MAX];
	arrow_column_integers(c, at, n, places);
	for (uint32_t j = 0; j < n; j++) {
		struct arrow_id copy;
		out[j * stride] = ids->empty;
		if (arrow_column_is_null(c, at[j]))
			continue;
		const struct arrow_id *id = element(ids, c, places[j], &copy);
		out[j * stride] = id->key;
		odd[j] |= id->state == ID_REFUSED;
	}
}

void arrow_ids_get(struct arrow_ids *ids, const struct arrow_column *c, const int64_t *at, uint32_t n, uint64_t *out,
                   size_t stride, bool *odd)
{
	if (c->is_dictionary)
		elements(ids, c, at, n, out, stride, odd);
	else if (arrow_column_is_text(c))
		texts(ids, c, at, n, out, stride, odd);
	else
		integers(ids, c, at, n, out, stride);
}

/* --- Lists */

bool arrow_ids_is_empty(const struct arrow_column *c, int64_t i)
{
	int64_t begin, end;
	if (arrow_column_is_null(c, i))
		return true;
	if (c->is_dictionary) {
		i = arrow_column_place(c, i);
		c = c->child;
		if (i < 0 || arrow_column_is_null(c, i))
			return true;
	}
	if (!arrow_column_is_text(c))
		return false;
	arrow_column_range(c, i, &begin, &end);
	return begin == end;
}

/* Whether each text of a list is UTF-8 without zeros. */
static bool texts_are_valid(const struct arrow_column *c, int64_t begin, int64_t end)
{
	int64_t first, last;
	for (; begin < end; begin++) {
		arrow_column_range(c, begin, &first, &last);
		if (!arrow_column_is_null(c, begin) && !is_valid(c->text + first, (size_t)(last - first)))
			return false;
	}
	return true;
}

static bool texts_are_good(const struct arrow_column *c, int64_t begin, int64_t end)
{
	int64_t first, last, other;
	arrow_column_range(c, begin, &first, &other);
	arrow_column_range(c, end - 1, &other, &last);
	const size_t n = (size_t)(last - first);
	if ((size_t)(end - begin) + n > WEIR_CELL_BYTES_MAX)
		return false;
	return (n >= WORD && is_plain_text(c->text + first, n)) || texts_are_valid(c, begin, end);
}

static bool elements_are_good(struct arrow_ids *ids, const struct arrow_column *c, int64_t begin, int64_t end)
{
	int64_t bytes = 0;
	for (; begin < end && bytes <= WEIR_CELL_BYTES_MAX; begin++) {
		struct arrow_id copy;
		bytes++;
		if (arrow_column_is_null(c, begin))
			continue;
		const struct arrow_id *id = element(ids, c, arrow_column_integer(c, begin), &copy);
		if (id->state == ID_REFUSED)
			return false;
		bytes += id->bytes;
	}
	return bytes <= WEIR_CELL_BYTES_MAX;
}

bool arrow_ids_are_good(struct arrow_ids *ids, const struct arrow_column *c, int64_t begin, int64_t end)
{
	if (begin == end)
		return true;
	if (c->is_dictionary)
		return elements_are_good(ids, c, begin, end);
	return arrow_column_is_text(c) ? texts_are_good(c, begin, end) : end - begin <= WEIR_CELL_BYTES_MAX / ARROW_NUMBER_BYTES;
}
