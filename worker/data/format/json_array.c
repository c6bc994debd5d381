#include "worker/data/format/json_array.h"

static size_t skip_blanks(const char *text, size_t n, size_t at)
{
	while (at < n && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
		at++;
	return at;
}

bool json_array_begins(const char *text, size_t n, bool of_objects)
{
	size_t at = skip_blanks(text, n, 0);
	if (at == n || text[at] != '[')
		return false;
	if (!of_objects)
		return true;
	at = skip_blanks(text, n, at + 1);
	if (at == n || text[at] != '{')
		return false;
	at = skip_blanks(text, n, at + 1);
	return at < n && text[at] == '"';
}

static void take_in_string(struct json_array *a, char c)
{
	if (!a->escaped && c == '"')
		a->in_string = false;
	a->escaped = !a->escaped && c == '\\';
}

/* Returns the replacement of a character outside of strings. */
static char take(struct json_array *a, char c)
{
	switch (c) {
	case '"':
		a->in_string = true;
		return c;
	case '[':
	case '{':
		return a->depth++ == 0 && c == '[' ? ' ' : c;
	case ']':
	case '}':
		a->depth -= a->depth > 0;
		return a->depth == 0 && c == ']' ? '\n' : c;
	case ',':
		return a->depth == 1 ? '\n' : c;
	case '\n':
	case '\r':
		return a->depth > 0 ? ' ' : c;
	default:
		return c;
	}
}

void json_array_to_lines(struct json_array *a, char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (a->in_string)
			take_in_string(a, text[i]);
		else
			text[i] = take(a, text[i]);
	}
}
