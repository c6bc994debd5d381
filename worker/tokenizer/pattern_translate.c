/* Translates a regular expression from Oniguruma's syntax (Ruby's, as users of Oniguruma know it)
 * to PCRE2's.
 *
 * It makes one pass over the text. Outside a class, an escape for a set becomes a class; inside,
 * its members are added to the class. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/pattern.h"

/* White space as defined by Unicode. PCRE2's \s also matches U+180E. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"

/* Characters assigned by Unicode 15, 15.1 and 16; Debian 12's PCRE2 has Unicode 14. A newer PCRE2
 * then gets some characters twice, which is harmless. */
static const struct assigned {
	uint32_t first, last;
	char category[3];
} assigned[] = {
    {0x897, 0x897, "Mn"},     {0xcf3, 0xcf3, "Mc"},     {0xece, 0xece, "Mn"},     {0x1b4e, 0x1b4f, "Po"},
    {0x1b7f, 0x1b7f, "Po"},   {0x1c89, 0x1c89, "Lu"},   {0x1c8a, 0x1c8a, "Ll"},   {0x2427, 0x2429, "So"},
    {0x2ffc, 0x2fff, "So"},   {0x31e4, 0x31e5, "So"},   {0x31ef, 0x31ef, "So"},   {0xa7cb, 0xa7cc, "Lu"},
    {0xa7cd, 0xa7cd, "Ll"},   {0xa7da, 0xa7da, "Lu"},   {0xa7db, 0xa7db, "Ll"},   {0xa7dc, 0xa7dc, "Lu"},
    {0x105c0, 0x105f3, "Lo"}, {0x10d40, 0x10d49, "Nd"}, {0x10d4a, 0x10d4d, "Lo"}, {0x10d4e, 0x10d4e, "Lm"},
    {0x10d4f, 0x10d4f, "Lo"}, {0x10d50, 0x10d65, "Lu"}, {0x10d69, 0x10d6d, "Mn"}, {0x10d6e, 0x10d6e, "Pd"},
    {0x10d6f, 0x10d6f, "Lm"}, {0x10d70, 0x10d85, "Ll"}, {0x10d8e, 0x10d8f, "Sm"}, {0x10ec2, 0x10ec4, "Lo"},
    {0x10efc, 0x10eff, "Mn"}, {0x1123f, 0x11240, "Lo"}, {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"},
    {0x1138b, 0x1138b, "Lo"}, {0x1138e, 0x1138e, "Lo"}, {0x11390, 0x113b5, "Lo"}, {0x113b7, 0x113b7, "Lo"},
    {0x113b8, 0x113ba, "Mc"}, {0x113bb, 0x113c0, "Mn"}, {0x113c2, 0x113c2, "Mc"}, {0x113c5, 0x113c5, "Mc"},
    {0x113c7, 0x113ca, "Mc"}, {0x113cc, 0x113cd, "Mc"}, {0x113ce, 0x113ce, "Mn"}, {0x113cf, 0x113cf, "Mc"},
    {0x113d0, 0x113d0, "Mn"}, {0x113d1, 0x113d1, "Lo"}, {0x113d2, 0x113d2, "Mn"}, {0x113d3, 0x113d3, "Lo"},
    {0x113d4, 0x113d5, "Po"}, {0x113d7, 0x113d8, "Po"}, {0x113e1, 0x113e2, "Mn"}, {0x116d0, 0x116e3, "Nd"},
    {0x11b00, 0x11b09, "Po"}, {0x11bc0, 0x11be0, "Lo"}, {0x11be1, 0x11be1, "Po"}, {0x11bf0, 0x11bf9, "Nd"},
    {0x11f00, 0x11f01, "Mn"}, {0x11f02, 0x11f02, "Lo"}, {0x11f03, 0x11f03, "Mc"}, {0x11f04, 0x11f10, "Lo"},
    {0x11f12, 0x11f33, "Lo"}, {0x11f34, 0x11f35, "Mc"}, {0x11f36, 0x11f3a, "Mn"}, {0x11f3e, 0x11f3f, "Mc"},
    {0x11f40, 0x11f40, "Mn"}, {0x11f41, 0x11f41, "Mc"}, {0x11f42, 0x11f42, "Mn"}, {0x11f43, 0x11f4f, "Po"},
    {0x11f50, 0x11f59, "Nd"}, {0x11f5a, 0x11f5a, "Mn"}, {0x1342f, 0x1342f, "Lo"}, {0x13439, 0x1343f, "Cf"},
    {0x13440, 0x13440, "Mn"}, {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "Mn"}, {0x13460, 0x143fa, "Lo"},
    {0x16100, 0x1611d, "Lo"}, {0x1611e, 0x16129, "Mn"}, {0x1612a, 0x1612c, "Mc"}, {0x1612d, 0x1612f, "Mn"},
    {0x16130, 0x16139, "Nd"}, {0x16d40, 0x16d42, "Lm"}, {0x16d43, 0x16d6a, "Lo"}, {0x16d6b, 0x16d6c, "Lm"},
    {0x16d6d, 0x16d6f, "Po"}, {0x16d70, 0x16d79, "Nd"}, {0x18cff, 0x18cff, "Lo"}, {0x1b132, 0x1b132, "Lo"},
    {0x1b155, 0x1b155, "Lo"}, {0x1cc00, 0x1ccef, "So"}, {0x1ccf0, 0x1ccf9, "Nd"}, {0x1cd00, 0x1ceb3, "So"},
    {0x1d2c0, 0x1d2d3, "No"}, {0x1df25, 0x1df2a, "Ll"}, {0x1e030, 0x1e06d, "Lm"}, {0x1e08f, 0x1e08f, "Mn"},
    {0x1e4d0, 0x1e4ea, "Lo"}, {0x1e4eb, 0x1e4eb, "Lm"}, {0x1e4ec, 0x1e4ef, "Mn"}, {0x1e4f0, 0x1e4f9, "Nd"},
    {0x1e5d0, 0x1e5ed, "Lo"}, {0x1e5ee, 0x1e5ef, "Mn"}, {0x1e5f0, 0x1e5f0, "Lo"}, {0x1e5f1, 0x1e5fa, "Nd"},
    {0x1e5ff, 0x1e5ff, "Po"}, {0x1f6dc, 0x1f6dc, "So"}, {0x1f774, 0x1f776, "So"}, {0x1f77b, 0x1f77f, "So"},
    {0x1f7d9, 0x1f7d9, "So"}, {0x1f8b2, 0x1f8bb, "So"}, {0x1f8c0, 0x1f8c1, "So"}, {0x1fa75, 0x1fa77, "So"},
    {0x1fa87, 0x1fa89, "So"}, {0x1fa8f, 0x1fa8f, "So"}, {0x1faad, 0x1faaf, "So"}, {0x1fabb, 0x1fabf, "So"},
    {0x1fac6, 0x1fac6, "So"}, {0x1face, 0x1facf, "So"}, {0x1fada, 0x1fadc, "So"}, {0x1fadf, 0x1fadf, "So"},
    {0x1fae8, 0x1fae9, "So"}, {0x1faf7, 0x1faf8, "So"}, {0x1fbcb, 0x1fbef, "So"}, {0x2b739, 0x2b739, "Lo"},
    {0x2ebf0, 0x2ee5d, "Lo"}, {0x31350, 0x323af, "Lo"},
};
enum { ASSIGNED = sizeof assigned / sizeof *assigned };

static const char *const categories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
                                         "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
                                         "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

struct translation {
	const char *text;
	size_t bytes, at;
	char *out; /* (PATTERN_COMPILED_MAX) */
	size_t written;
	weir_error *err;
};

static weir_status put(struct translation *t, const char *bytes, size_t n)
{
	if (n > PATTERN_COMPILED_MAX - t->written)
		return weir_fail(t->err, WEIR_E_LIMIT, "a pattern of %zu bytes says too much: more than %u bytes for PCRE2", t->bytes,
		                 PATTERN_COMPILED_MAX);
	memcpy(t->out + t->written, bytes, n);
	t->written += n;
	return WEIR_OK;
}

static weir_status put_text(struct translation *t, const char *text)
{
	return put(t, text, strlen(text));
}

/* Copies the next n bytes unchanged. */
static weir_status pass(struct translation *t, size_t n)
{
	t->at += n;
	return put(t, t->text + t->at - n, n);
}

static weir_status refuse(struct translation *t, size_t n, const char *why)
{
	const size_t left = t->bytes - t->at;
	return weir_fail(t->err, WEIR_E_UNSUPPORTED, "the pattern has '%.*s' at byte %zu, %s", (int)(n < left ? n : left),
	                 t->text + t->at, t->at, why);
}

/* The byte i places ahead; 0 beyond the end. */
static char ahead(const struct translation *t, size_t i)
{
	return i < t->bytes - t->at ? t->text[t->at + i] : 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static bool is_alphanumeric(char c)
{
	return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* --- Sets */

/* Adds the members of a category to a class: those that PCRE2 knows, and the newer ones. */
static weir_status put_category(struct translation *t, const char *name)
{
	char text[40];
	snprintf(text, sizeof text, "\\p{%s}", name);
	weir_status status = put_text(t, text);
	for (uint32_t i = 0; i < ASSIGNED && status == WEIR_OK; i++) {
		if (strncmp(assigned[i].category, name, strlen(name)) != 0)
			continue;
		const uint32_t first = assigned[i].first;
		while (i + 1 < ASSIGNED && assigned[i + 1].first == assigned[i].last + 1 &&
		       strncmp(assigned[i + 1].category, name, strlen(name)) == 0)
			i++;
		snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", first, assigned[i].last);
		status = put_text(t, text);
	}
	return status;
}

/* Adds a set by its members, or, if these are NULL, the members of the category. */
static weir_status put_set(struct translation *t, const char *members, const char *category, bool negated, bool in_class)
{
	weir_status status = in_class ? WEIR_OK : put_text(t, negated ? "[^" : "[");
	if (status == WEIR_OK)
		status = members ? put_text(t, members) : put_category(t, category);
	return status != WEIR_OK || in_class ? status : put_text(t, "]");
}

/* Parses \p{Name}; *n is its length in bytes. NULL: not a general category. */
static const char *category_at(const struct translation *t, size_t *n)
{
	size_t length = 0;
	if (ahead(t, 2) != '{')
		return NULL;
	while (is_alphanumeric(ahead(t, 3 + length)))
		length++;
	*n = 4 + length;
	for (size_t i = 0; ahead(t, 3 + length) == '}' && i < sizeof categories / sizeof *categories; i++)
		if (strlen(categories[i]) == length && memcmp(categories[i], t->text + t->at + 3, length) == 0)
			return categories[i];
	return NULL;
}

/* Whether a '-' was just written inside a class, neither as its first character nor escaped. */
static bool behind_dash(const struct translation *t)
{
	const char *last = t->out + t->written - 1; /* inside a class, the output is not empty */
	if (*last != '-')
		return false;
	return !(last[-1] == '[' || last[-1] == '\\' || (last[-1] == '^' && last - t->out > 1 && last[-2] == '['));
}

static weir_status translate_set(struct translation *t, bool in_class)
{
	const char c = ahead(t, 1);
	const bool negated = c == 'S' || c == 'D' || c == 'P';
	size_t n = 2;
	const char *members = (c | 32) == 's' ? SPACES : NULL, *category = (c | 32) == 'd' ? "Nd" : NULL;
	if ((c | 32) == 'p' && !(category = category_at(t, &n)))
		return refuse(t, 12, "which is not a general category of Unicode such as \\p{L} or \\p{Lu}");
	if (in_class && negated)
		return refuse(t, n, "a complement inside of a class, which is not supported");
	if (in_class && behind_dash(t))
		return refuse(t, n, "the end of a range, which is not supported");
	t->at += n;
	return put_set(t, members, category, negated, in_class);
}

/* --- Escapes */

/* Translates \uXXXX; \x{X...} is the same in both. */
static weir_status translate_code(struct translation *t)
{
	char text[16];
	if (ahead(t, 1) == 'u') {
		if (!is_hex(ahead(t, 2)) || !is_hex(ahead(t, 3)) || !is_hex(ahead(t, 4)) || !is_hex(ahead(t, 5)))
			return refuse(t, 6, "which is not \\u and four hexadecimal digits");
		snprintf(text, sizeof text, "\\x{%.4s}", t->text + t->at + 2);
		t->at += 6;
		return put_text(t, text);
	}
	size_t digits = 0;
	while (is_hex(ahead(t, 3 + digits)))
		digits++;
	if (ahead(t, 2) != '{' || digits == 0 || digits > 8 || ahead(t, 3 + digits) != '}')
		return refuse(t, 4, "which is not \\x{...}: one code point in hexadecimal digits");
	return pass(t, 4 + digits);
}

static weir_status translate_escape(struct translation *t, bool in_class)
{
	const char c = ahead(t, 1);
	if (c != 0 && strchr("sSdDpP", c))
		return translate_set(t, in_class);
	if (c == 'u' || c == 'x')
		return translate_code(t);
	if (c > ' ' && c < 0x7f && (!is_alphanumeric(c) || strchr("rntf", c) || (!in_class && strchr("Az", c))))
		return pass(t, 2);
	return refuse(t, 2,
	              "an escape that is not supported: \\s \\S \\d \\D \\p{..} \\P{..} \\r \\n \\t \\f \\A \\z \\x{..} \\uXXXX and "
	              "punctuation are");
}

/* --- The rest */

static weir_status translate_class(struct translation *t)
{
	weir_status status = pass(t, ahead(t, 1) == '^' ? 2 : 1);
	if (ahead(t, 0) == ']')
		return refuse(t, 1, "an empty class, or one that begins with ']': write \\]");
	while (status == WEIR_OK && t->at < t->bytes && ahead(t, 0) != ']') {
		if (ahead(t, 0) == '[')
			return refuse(t, 8, "a class in a class, which is not supported: write \\[ for the character");
		if (ahead(t, 0) == '&' && ahead(t, 1) == '&')
			return refuse(t, 2, "an intersection of classes, which is not supported");
		status = ahead(t, 0) == '\\' ? translate_escape(t, true) : pass(t, 1);
	}
	if (status == WEIR_OK && t->at == t->bytes)
		return weir_fail(t->err, WEIR_E_PARSE, "the pattern '%.*s' has a class that does not end", (int)t->bytes, t->text);
	return status == WEIR_OK ? pass(t, 1) : status;
}

static weir_status translate_group(struct translation *t)
{
	static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
	if (ahead(t, 1) == '*')
		return refuse(t, 8, "which is not supported");
	if (ahead(t, 1) != '?')
		return pass(t, 1);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i]) <= t->bytes - t->at && memcmp(t->text + t->at, known[i], strlen(known[i])) == 0)
			return pass(t, strlen(known[i]));
	return refuse(t, 4, "a kind of group that is not supported: (?: (?= (?! (?<= (?<! (?> (?i: are");
}

/* Translates {n}, {n,}, {n,m}. Rejects a '+' after them, or a '?' after {n}: PCRE2 reads these
 * differently. */
static weir_status translate_repeat(struct translation *t)
{
	size_t n = 1, commas = 0;
	while (is_digit(ahead(t, n)) || (ahead(t, n) == ',' && n > 1 && commas == 0))
		commas += ahead(t, n++) == ',';
	if (n == 1 || ahead(t, n) != '}')
		return refuse(t, 6, "which is not a count such as {2}, {1,} or {1,3}: write \\{ for the character");
	if (ahead(t, n + 1) == '+' || (ahead(t, n + 1) == '?' && commas == 0))
		return refuse(t, n + 2, "which engines understand differently");
	return pass(t, n + 1);
}

weir_status pattern_translate(char **out, size_t *out_bytes, const char *text, size_t bytes, weir_error *err)
{
	if (bytes > PATTERN_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "a pattern of %zu bytes; at most %u are taken", bytes, PATTERN_BYTES_MAX);
	struct translation t = {.text = text, .bytes = bytes, .out = malloc(PATTERN_COMPILED_MAX), .err = err};
	if (!t.out)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a pattern");
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && t.at < bytes) {
		const char c = text[t.at];
		status = c == '\\'  ? translate_escape(&t, false)
		         : c == '[' ? translate_class(&t)
		         : c == '(' ? translate_group(&t)
		         : c == '{' ? translate_repeat(&t)
		                    : pass(&t, 1);
	}
	if (status != WEIR_OK) {
		free(t.out);
		return status;
	}
	*out = t.out;
	*out_bytes = t.written;
	return WEIR_OK;
}
