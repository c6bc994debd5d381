/* Regular expressions of tokenizer.json, and of PEFT's adapter_config.json, over PCRE2 and its JIT
 * compiler. pattern.c is the only user of PCRE2.
 *
 * The expressions of a tokenizer are written for Oniguruma. Syntax that both engines read alike is
 * passed on. \s, \d, \p{..} and \uXXXX are translated (pattern_translate.c). Syntax that they read
 * differently, and patterns that can match the empty text, are rejected by name. So equal patterns
 * cut a text in equal places. */
#ifndef WEIR_PATTERN_H
#define WEIR_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"
#include "worker/tokenizer/buffer.h"

#define PATTERN_BYTES_MAX    4096u        /* before translation */
#define PATTERN_COMPILED_MAX (256u << 10) /* after translation: a \p{L} becomes some 600 bytes */
/* Steps in one match. It exceeds the number of characters of a text, which a run of spaces may
 * cost, and is too small for a match to hang. */
#define PATTERN_STEPS_MAX    (1u << 28)
#define PATTERN_JIT_BYTES    (1u << 20)  /* stack; beyond it, the interpreter takes over */
#define PATTERN_HEAP_KIB_MAX (64u << 10) /* heap of the interpreter */

struct pattern; /* shared by threads */
/* E_PARSE: not a regular expression. E_UNSUPPORTED: Oniguruma reads it differently, or it matches
 * the empty text. */
weir_status pattern_compile(struct pattern **out, const char *text, size_t bytes, weir_error *err);
/* Creates a pattern that matches exactly these bytes. */
weir_status pattern_literal(struct pattern **out, const char *text, size_t bytes, weir_error *err);
/* Creates a pattern for names, with the semantics of Python's `re.fullmatch`: it matches the whole
 * text or nothing. It may match the empty text. */
weir_status pattern_compile_whole(struct pattern **out, const char *text, size_t bytes, weir_error *err);
void pattern_destroy(struct pattern *p); /* NULL is allowed */

struct pattern_scratch;                                  /* for one thread */
struct pattern_scratch *pattern_scratch_create(void);    /* NULL when out of memory */
void pattern_scratch_destroy(struct pattern_scratch *s); /* NULL is allowed */

/* Finds the first match that begins at or after `from` in valid UTF-8; look-behinds see the text
 * before `from`. *found false: no match. E_LIMIT: matching took too long. */
weir_status pattern_find(const struct pattern *p, struct pattern_scratch *s, const char *text, size_t bytes, size_t from,
                         bool *found, size_t *begin, size_t *end, weir_error *err);

/* Appends the text with each match replaced by `content`. E_LIMIT beyond bytes_max. */
weir_status pattern_replace(const struct pattern *p, struct pattern_scratch *s, const char *text, size_t bytes,
                            const char *content, size_t content_bytes, struct buffer *out, size_t bytes_max, weir_error *err);
/* Sets the error for a text that has grown beyond bytes_max: E_LIMIT. */
weir_status pattern_too_long(size_t bytes_max, weir_error *err);

/* Translates a regular expression for PCRE2, to malloc'ed memory of *out_bytes bytes. For pattern.c
 * and its tests. */
weir_status pattern_translate(char **out, size_t *out_bytes, const char *text, size_t bytes, weir_error *err);

#endif
