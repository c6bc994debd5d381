/* The normalizer of a tokenizer.json: Prepend, Replace, NFC, NFD, NFKC, NFKD, and Sequences of
 * these.
 *
 * The Unicode forms are utf8proc's (Unicode 15 on Debian 12). Hugging Face's are of Unicode 9. They
 * differ for newer characters that combine or decompose. */
#ifndef WEIR_NORMALIZER_H
#define WEIR_NORMALIZER_H

#include "common/web/json.h"
#include "weir/status.h"
#include "worker/tokenizer/buffer.h"
#include "worker/tokenizer/pattern.h"

#define NORMALIZER_STEPS_MAX 32u

struct normalizer_step {
	enum { NORMALIZE_PREPEND, NORMALIZE_REPLACE, NORMALIZE_FORM } kind;
	char *content; /* (bytes): the text to prepend, or the replacement for the pattern; malloc'ed */
	size_t bytes;
	struct pattern *pattern;
	int form; /* utf8proc's options */
};

struct normalizer {
	struct normalizer_step steps[NORMALIZER_STEPS_MAX];
	uint32_t count; /* 0: texts are not changed */
};

/* v: the JSON object, or null. E_UNSUPPORTED names an unsupported kind. */
weir_status normalizer_read(struct normalizer *n, const struct json_value *v, weir_error *err);
void normalizer_destroy(struct normalizer *n);

/* *out is the text itself, or is in one of the buffers, whose old contents are lost. E_LIMIT beyond
 * bytes_max. */
weir_status normalizer_run(const struct normalizer *n, struct pattern_scratch *scratch, struct buffer buffers[2],
                           const char *text, size_t bytes, size_t bytes_max, const char **out, size_t *out_bytes,
                           weir_error *err);

#endif
