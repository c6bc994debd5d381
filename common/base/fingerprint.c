#include "common/base/fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8_sanitize.h"

/* --- Lines */

struct line {
	const char *key, *value;
	size_t key_bytes, value_bytes;
};

/* Returns the line at *at and moves *at past it. False: no more lines. */
static bool next_line(const char **at, struct line *out)
{
	const char *end = strchr(*at, '\n'), *equals = end ? memchr(*at, '=', (size_t)(end - *at)) : NULL;
	if (!equals)
		return false;
	*out = (struct line){*at, equals + 1, (size_t)(equals - *at), (size_t)(end - equals) - 1};
	*at = end + 1;
	return true;
}

bool fingerprint_is_valid(const char *text)
{
	struct line line;
	if (strlen(text) >= WEIR_FINGERPRINT_BYTES_MAX)
		return false;
	while (next_line(&text, &line))
		if (line.key_bytes == 0 || line.key_bytes >= WEIR_FINGERPRINT_KEY_BYTES)
			return false;
	return *text == '\0';
}

const char *fingerprint_value(const char *text, const char *key, size_t *bytes)
{
	const size_t key_bytes = strlen(key);
	struct line line;
	while (next_line(&text, &line))
		if (line.key_bytes == key_bytes && memcmp(line.key, key, key_bytes) == 0) {
			*bytes = line.value_bytes;
			return line.value;
		}
	return NULL;
}

bool fingerprint_value_is(const char *text, const char *key, const char *value)
{
	size_t bytes;
	const char *found = fingerprint_value(text, key, &bytes);
	return found && bytes == strlen(value) && memcmp(found, value, bytes) == 0;
}

/* --- Making one */

static weir_status append(struct fingerprint *f, const char *line, size_t bytes, weir_error *err)
{
	if (f->bytes + bytes >= WEIR_FINGERPRINT_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "the job's fingerprint has more than %u bytes", WEIR_FINGERPRINT_BYTES_MAX - 1);
	char *text = realloc(f->text, f->bytes + bytes + 1);
	if (!text)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the job's fingerprint");
	memcpy(text + f->bytes, line, bytes);
	f->text = text;
	f->bytes += bytes;
	text[f->bytes] = '\0';
	return WEIR_OK;
}

weir_status fingerprint_add(struct fingerprint *f, const char *key, const char *value, weir_error *err)
{
	char shown[WEIR_FINGERPRINT_VALUE_BYTES], line[WEIR_FINGERPRINT_KEY_BYTES + WEIR_FINGERPRINT_VALUE_BYTES + 2];
	utf8_sanitize(shown, sizeof shown, value);
	const int bytes = snprintf(line, sizeof line, "%.*s=%s\n", (int)WEIR_FINGERPRINT_KEY_BYTES - 1, key, shown);
	return append(f, line, (size_t)bytes, err);
}

char *fingerprint_join(const char *was, const char *is)
{
	struct fingerprint f = {0};
	weir_status status = append(&f, is, strlen(is), NULL);
	struct line line;
	for (const char *at = was; status == WEIR_OK && next_line(&at, &line);) {
		char key[WEIR_FINGERPRINT_KEY_BYTES];
		size_t bytes;
		snprintf(key, sizeof key, "%.*s", (int)line.key_bytes, line.key);
		if (!fingerprint_value(is, key, &bytes))
			status = append(&f, line.key, line.key_bytes + line.value_bytes + 2, NULL);
	}
	if (status == WEIR_OK)
		return f.text;
	free(f.text);
	return NULL;
}

/* --- Comparing */

static bool is_accepted(const struct fingerprint_comparison *c, const char *key)
{
	for (size_t i = 0; i < c->accepted_count; i++)
		if (strcmp(c->accepted[i], key) == 0)
			return true;
	return false;
}

#define VALUE_SHOWN 160 /* bytes of a value that messages show */

/* Appends "KEY was A and is B". Appends nothing if it does not fit. */
static bool describe(char text[WEIR_ERROR_TEXT_BYTES], const char *key, const struct line *was, const char *is, size_t is_bytes)
{
	const size_t used = strlen(text), room = WEIR_ERROR_TEXT_BYTES / 2 - used;
	const int n = snprintf(text + used, room, "%s%s was '%.*s' and is '%.*s'", used ? "; " : "", key,
	                       (int)(was->value_bytes < VALUE_SHOWN ? was->value_bytes : VALUE_SHOWN), was->value,
	                       (int)(is_bytes < VALUE_SHOWN ? is_bytes : VALUE_SHOWN), is);
	if (n >= 0 && (size_t)n < room)
		return true;
	text[used] = '\0';
	return false;
}

weir_status fingerprint_compare(const struct fingerprint_comparison *c, weir_error *err)
{
	char text[WEIR_ERROR_TEXT_BYTES] = "", key[WEIR_FINGERPRINT_KEY_BYTES], more[64] = "";
	uint32_t unsaid = 0;
	struct line was;
	for (const char *at = c->was; next_line(&at, &was);) {
		size_t bytes;
		snprintf(key, sizeof key, "%.*s", (int)was.key_bytes, was.key);
		const char *is = fingerprint_value(c->is, key, &bytes);
		if (!is || (bytes == was.value_bytes && memcmp(is, was.value, bytes) == 0) || (c->counts && !c->counts(c, key)))
			continue;
		if (!is_accepted(c, key)) {
			unsaid += !describe(text, key, &was, is, bytes);
			continue;
		}
		char from[WEIR_FINGERPRINT_VALUE_BYTES], to[WEIR_FINGERPRINT_VALUE_BYTES];
		snprintf(from, sizeof from, "%.*s", (int)was.value_bytes, was.value);
		snprintf(to, sizeof to, "%.*s", (int)bytes, is);
		if (c->differs)
			c->differs(c->arg, key, from, to);
	}
	if (!text[0] && !unsaid)
		return WEIR_OK;
	if (unsaid)
		snprintf(more, sizeof more, "; and %u other key%s", unsaid, unsaid == 1 ? "" : "s");
	return weir_fail(err, WEIR_E_INVALID, "%s: %s%s. Set what was, or take the difference knowingly with --accept KEY", c->what,
	                 text, more);
}
