#include "worker/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN_SHOWN = 80 };

struct pattern {
	pcre2_code *code;
};

struct pattern_scratch {
	pcre2_match_data *match; /* one pair: groups are not needed */
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
};

static weir_status fail_compiling(const char *text, size_t bytes, int code, weir_error *err)
{
	char why[128] = "";
	pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
	return weir_fail(err, WEIR_E_PARSE, "the pattern '%.*s' is not valid: %s", bytes < PATTERN_SHOWN ? (int)bytes : PATTERN_SHOWN,
	                 text, why);
}

/* shown: the text as in the file, for errors */
static weir_status compile(struct pattern **out, const char *text, size_t bytes, uint32_t options, const char *shown,
                           size_t shown_bytes, weir_error *err)
{
	int code = 0;
	PCRE2_SIZE at;
	uint32_t empty = 0;
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	struct pattern *p = calloc(1, sizeof *p);
	if (!p || !context) {
		pcre2_compile_context_free(context);
		free(p);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a pattern");
	}
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	p->code = pcre2_compile((PCRE2_SPTR)text, bytes, PCRE2_UTF | options, &code, &at, context);
	pcre2_compile_context_free(context);
	if (!p->code) {
		pattern_destroy(p);
		return fail_compiling(shown, shown_bytes, code, err);
	}
	(void)pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &empty);
	if (empty && !(options & PCRE2_ENDANCHORED)) {
		pattern_destroy(p);
		return weir_fail(err, WEIR_E_UNSUPPORTED,
		                 "the pattern '%.*s' may match nothing at all, and does not say then where to cut",
		                 shown_bytes < PATTERN_SHOWN ? (int)shown_bytes : PATTERN_SHOWN, shown);
	}
	/* without JIT, the interpreter gives the same results, more slowly */
	(void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
	*out = p;
	return WEIR_OK;
}

weir_status pattern_compile(struct pattern **out, const char *text, size_t bytes, weir_error *err)
{
	char *translated;
	size_t length;
	weir_status status = pattern_translate(&translated, &length, text, bytes, err);
	if (status != WEIR_OK)
		return status;
	status = compile(out, translated, length, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, text, bytes, err);
	free(translated);
	return status;
}

weir_status pattern_literal(struct pattern **out, const char *text, size_t bytes, weir_error *err)
{
	if (bytes > PATTERN_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "a pattern of %zu bytes; at most %u are taken", bytes, PATTERN_BYTES_MAX);
	return compile(out, text, bytes, PCRE2_LITERAL, text, bytes, err);
}

weir_status pattern_compile_whole(struct pattern **out, const char *text, size_t bytes, weir_error *err)
{
	if (bytes > PATTERN_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "a pattern of %zu bytes; at most %u are taken", bytes, PATTERN_BYTES_MAX);
	return compile(out, text, bytes, PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C, text, bytes, err);
}

void pattern_destroy(struct pattern *p)
{
	if (!p)
		return;
	pcre2_code_free(p->code);
	free(p);
}

struct pattern_scratch *pattern_scratch_create(void)
{
	struct pattern_scratch *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->match = pcre2_match_data_create(1, NULL);
	s->context = pcre2_match_context_create(NULL);
	s->stack = pcre2_jit_stack_create(32u << 10, PATTERN_JIT_BYTES, NULL); /* NULL: no JIT here */
	if (!s->match || !s->context) {
		pattern_scratch_destroy(s);
		return NULL;
	}
	pcre2_set_match_limit(s->context, PATTERN_STEPS_MAX);
	pcre2_set_heap_limit(s->context, PATTERN_HEAP_KIB_MAX);
	if (s->stack)
		pcre2_jit_stack_assign(s->context, NULL, s->stack);
	return s;
}

void pattern_scratch_destroy(struct pattern_scratch *s)
{
	if (!s)
		return;
	pcre2_match_data_free(s->match);
	pcre2_match_context_free(s->context);
	pcre2_jit_stack_free(s->stack);
	free(s);
}

weir_status pattern_find(const struct pattern *p, struct pattern_scratch *s, const char *text, size_t bytes, size_t from,
                         bool *found, size_t *begin, size_t *end, weir_error *err)
{
	const PCRE2_SPTR subject = (PCRE2_SPTR)text;
	int got = pcre2_match(p->code, subject, bytes, from, PCRE2_NO_UTF_CHECK, s->match, s->context);
	if (got == PCRE2_ERROR_JIT_STACKLIMIT)
		got = pcre2_match(p->code, subject, bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, s->context);
	*found = got >= 0;
	if (got >= 0) {
		const PCRE2_SIZE *pair = pcre2_get_ovector_pointer(s->match);
		*begin = pair[0];
		*end = pair[1];
		return WEIR_OK;
	}
	if (got == PCRE2_ERROR_NOMATCH)
		return WEIR_OK;
	char why[128] = "";
	pcre2_get_error_message(got, (PCRE2_UCHAR *)why, sizeof why);
	return weir_fail(err, got == PCRE2_ERROR_NOMEMORY ? WEIR_E_MEMORY : WEIR_E_LIMIT,
	                 "the tokenizer's pattern cannot be matched at byte %zu of a text of %zu bytes: %s", from, bytes, why);
}

weir_status pattern_too_long(size_t bytes_max, weir_error *err)
{
	return weir_fail(err, WEIR_E_LIMIT,
	                 "with what the tokenizer puts into it the text has more than %zu bytes, or than there is memory", bytes_max);
}

weir_status pattern_replace(const struct pattern *p, struct pattern_scratch *s, const char *text, size_t bytes,
                            const char *content, size_t content_bytes, struct buffer *out, size_t bytes_max, weir_error *err)
{
	size_t at = 0, begin = 0, end = 0;
	for (bool found = true; found; at = end) {
		weir_status status = pattern_find(p, s, text, bytes, at, &found, &begin, &end, err);
		if (status != WEIR_OK)
			return status;
		if (!buffer_append(out, text + at, (found ? begin : bytes) - at, bytes_max) ||
		    (found && !buffer_append(out, content, content_bytes, bytes_max)))
			return pattern_too_long(bytes_max, err);
	}
	return WEIR_OK;
}
