/* Regular expressions of tokenizer.json, and of PEFT's adapter_config.json, over PCRE2 and its
 * JIT compiler; pattern.c is PCRE2's only user.
 *
 * A tokenizer's are written for Oniguruma. What both engines understand alike is passed on; \s,
 * \d, \p{..} and \uXXXX are translated (pattern_translate.c); what they understand differently,
 * and what may match nothing, is refused by name. So equal patterns cut a text in equal places. */
#ifndef WEIR_PATTERN_H
#define WEIR_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"
#include "worker/tokenizer/buffer.h"

#define PATTERN_BYTES_MAX    4096u        /* as in the file */
#define PATTERN_COMPILED_MAX (256u << 10) /* translated: a \p{L} becomes some 600 bytes */
/* Steps that one match may take: more than a text has characters, which a run of spaces may cost; fewer than would hang. */
#define PATTERN_STEPS_MAX    (1u << 28)
#define PATTERN_JIT_BYTES    (1u << 20)  /* of stack; beyond it the interpreter goes on */
#define PATTERN_HEAP_KIB_MAX (64u << 10) /* of the interpreter */

struct pattern; /* shared by threads */
/* E_PARSE: not a regular expression. E_UNSUPPORTED: one that Oniguruma reads otherwise, or that matches the empty text. */
weir_status pattern_compile(struct pattern **out, const char *text, size_t bytes, weir_error *err);
/* One that matches these bytes alone. */
weir_status pattern_literal(struct pattern **out, const char *text, size_t bytes, weir_error *err);
/* One of names, as Python's `re.fullmatch` has it: it matches the whole of a text or is not
 * found. It may match the empty text. */
weir_status pattern_compile_whole(struct pattern **out, const char *text, size_t bytes, weir_error *err);
void pattern_free(struct pattern *p); /* NULL is allowed */

struct pattern_scratch;                               /* of a thread */
struct pattern_scratch *pattern_scratch_create(void); /* NULL when out of memory */
void pattern_scratch_free(struct pattern_scratch *s); /* NULL is allowed */

/* The first match in valid UTF-8 that begins at or after `from`; what is before it is seen by look-behinds. *found false: there is none. E_LIMIT: it took too long. */
weir_status pattern_find(const struct pattern *p, struct pattern_scratch *s, const char *text, size_t bytes, size_t from,
                         bool *found, size_t *begin, size_t *end, weir_error *err);

/* Appends the text with `content` in place of each match. E_LIMIT beyond bytes_max. */
weir_status pattern_replace(const struct pattern *p, struct pattern_scratch *s, const char *text, size_t bytes,
                            const char *content, size_t content_bytes, struct buffer *out, size_t bytes_max, weir_error *err);
/* What is said of a text that has grown beyond bytes_max on its way: E_LIMIT. */
weir_status pattern_too_long(size_t bytes_max, weir_error *err);

/* The same regular expression for PCRE2 in malloc'ed memory, *out_bytes of it. For pattern.c and its tests. */
weir_status pattern_translate(char **out, size_t *out_bytes, const char *text, size_t bytes, weir_error *err);

#endif
