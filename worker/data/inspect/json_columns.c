#include "worker/data/inspect/json_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

void json_columns_destroy(struct json_columns *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		free(c->names[i]);
	free(c->names);
	free(c->types);
	json_scan_destroy(&c->scan);
	*c = (struct json_columns){0};
}

/* --- Names */

static bool grow(struct json_columns *c)
{
	const uint32_t capacity = c->capacity ? 2 * c->capacity : 64;
	char **names = realloc(c->names, capacity * sizeof *names);
	c->names = names ? names : c->names;
	struct column_type *types = realloc(c->types, capacity * sizeof *types);
	c->types = types ? types : c->types;
	if (names && types)
		c->capacity = capacity;
	return names && types;
}

/* What is wrong with a key as the name of a column, or NULL. */
static const char *check_name(const struct cell *key)
{
	if (key->n == 0)
		return "a key is empty, and columns need names";
	if (key->n >= WEIR_COLUMN_NAME_BYTES_MAX)
		return "a key has more than 255 bytes, and names of columns have fewer";
	for (size_t i = 0; i < key->n; i++)
		if ((unsigned char)key->text[i] < 0x20 || key->text[i] == 0x7f)
			return "a key has a control character, and names of columns have none";
	return NULL;
}

static bool add(struct json_columns *c, const struct cell *key, char why[PARSE_WHY_BYTES])
{
	const char *bad = check_name(key);
	if (!bad && c->count == WEIR_COLUMNS_MAX)
		bad = "the lines have more than 8192 keys";
	if (!bad && c->count == c->capacity && !grow(c))
		bad = "out of memory";
	if (!bad && !(c->names[c->count] = strndup(key->text, key->n)))
		bad = "out of memory";
	if (bad) {
		snprintf(why, PARSE_WHY_BYTES, "%s", bad);
		return false;
	}
	c->types[c->count++] = (struct column_type){.is = TYPE_TEXT};
	return true;
}
_Static_assert(WEIR_COLUMN_NAME_BYTES_MAX == 256 && WEIR_COLUMNS_MAX == 8192, "the messages say so");

/* Finds the column of a key, mostly the one after that of the key before; a new key is a new one.
 */
static bool find_column(struct json_columns *c, const struct cell *key, uint32_t *column, char why[PARSE_WHY_BYTES])
{
	for (uint32_t i = 0; i < c->count; i++) {
		*column = (c->expected + i) % c->count;
		if (strncmp(c->names[*column], key->text, key->n) == 0 && c->names[*column][key->n] == 0)
			return true;
	}
	*column = c->count;
	return add(c, key, why);
}

/* --- Values */

static void refuse(struct column_type *type, const char *why)
{
	type->is = TYPE_REFUSED;
	snprintf(type->why, sizeof type->why, "%s", why);
}

/* Looks at a list after its bracket. *nested: it has lists or objects. */
static bool see_list(struct json_scan *s, bool *nested)
{
	if (json_scan_char(s, ']'))
		return true;
	do {
		json_scan_space(s);
		*nested |= json_scan_peek(s) == '[' || json_scan_peek(s) == '{';
		if (!json_scan_skip(s))
			return false;
	} while (json_scan_char(s, ','));
	return json_scan_char(s, ']');
}

/* Looks at a value that is neither a list nor an object. *finite: false: a word that programs write
 * for a number that JSON does not have. */
static bool see_scalar(struct json_scan *s, bool *finite)
{
	static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
	struct cell cell;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const size_t n = strlen(words[i]);
		if ((size_t)(s->end - s->at) < n || memcmp(s->at, words[i], n) != 0)
			continue;
		*finite = false;
		s->at += n;
		return true;
	}
	return json_scan_scalar(s, false, false, &cell);
}

/* Looks at a value. Returns false if the line is wrong. */
static bool see_value(struct json_scan *s, struct column_type *type)
{
	bool nested = false, finite = true;
	json_scan_space(s);
	const char *begin = s->at, first = json_scan_peek(s);
	s->at += first == '[';
	if (!(first == '[' ? see_list(s, &nested) : first == '{' ? json_scan_skip(s) : see_scalar(s, &finite)))
		return false;
	if (type->is == TYPE_REFUSED)
		return true;
	if (first == '[')
		type->is = TYPE_LIST;
	if (first == '{')
		refuse(type, "has objects; columns have texts, numbers and lists of them");
	else if (nested)
		refuse(type, "has lists of lists or of objects; columns have lists of texts or numbers");
	else if (!finite)
		refuse(type, "some values are NaN or infinite, which JSON does not have: write null");
	else if ((size_t)(s->at - begin) > WEIR_CELL_BYTES_MAX)
		refuse(type, "some values are longer than 64 KiB");
	return true;
}

/* --- Lines */

/* Whether the line that the scan has begun is an object. */
static bool is_object(struct json_scan *s)
{
	struct cell key;
	struct column_type type = {.is = TYPE_TEXT};
	while (json_scan_key(s, &key))
		if (!see_value(s, &type))
			return false;
	return !s->why[0];
}

bool json_columns_learn(struct json_columns *c, const char *line, size_t n, char why[PARSE_WHY_BYTES])
{
	struct cell key;
	uint32_t column;
	if (!json_scan_begin(&c->scan, line, n)) {
		snprintf(why, PARSE_WHY_BYTES, "out of memory");
		return false;
	}
	if (!is_object(&c->scan))
		return true;
	(void)json_scan_begin(&c->scan, line, n); /* the room is there */
	c->expected = 0;
	while (json_scan_key(&c->scan, &key)) {
		if (!find_column(c, &key, &column, why))
			return false;
		c->expected = column + 1;
		(void)see_value(&c->scan, &c->types[column]); /* as is_object has */
	}
	return true;
}
