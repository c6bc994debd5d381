/* A line of JSON that is an object, read from left to right. */
#ifndef WEIR_JSON_SCAN_H
#define WEIR_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/data/format/csv_reader.h"
#include "worker/data/format/parse.h"

struct json_scan {
	const char *line, *at, *end;
	char *scratch; /* texts with escapes, decoded; room for all of the line */
	size_t scratch_used, scratch_capacity;
	bool inside;               /* the object has begun */
	char why[PARSE_WHY_BYTES]; /* what is wrong with the line, or "" */
};

/* Begins a line; PARSE_SLACK readable bytes must follow. Keeps the memory of earlier lines. Returns
 * false when out of memory. */
bool json_scan_begin(struct json_scan *s, const char *line, size_t n);
void json_scan_destroy(struct json_scan *s);

/* The following functions return false, and set `why`, if the line does not go on as they expect.
 * A text points into the line or into the scratch. */
bool json_scan_fail(struct json_scan *s, const char *expected);
/* Takes the next key of the object, and its colon. Also returns false behind the last one. */
bool json_scan_key(struct json_scan *s, struct cell *key);
/* Takes a text behind its opening quote. copies: into the scratch in any case. */
bool json_scan_text(struct json_scan *s, bool copies, struct cell *out);
/* Takes a value that is neither a list nor an object, as text: a null is empty. as_number: true and
 * false are 1 and 0. */
bool json_scan_scalar(struct json_scan *s, bool as_number, bool copies, struct cell *out);
/* Skips a value of any kind: up to the comma, brace or bracket behind it. */
bool json_scan_skip(struct json_scan *s);

static inline void json_scan_space(struct json_scan *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r'))
		s->at++;
}

/* Takes a character after white space, if it is there. */
static inline bool json_scan_char(struct json_scan *s, char c)
{
	json_scan_space(s);
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

/* The next character; 0: the line ends. */
static inline char json_scan_peek(const struct json_scan *s)
{
	return s->at < s->end ? *s->at : '\0';
}

#endif
