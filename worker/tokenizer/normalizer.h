/* The normalizer of a tokenizer.json: Prepend, Replace, NFC, NFD, NFKC, NFKD, and Sequences of them.
 *
 * The forms are those of utf8proc (Unicode 15 on Debian 12). Hugging Face's are of Unicode 9: they differ for characters that combine or decompose and are newer. */
#ifndef WEIR_NORMALIZER_H
#define WEIR_NORMALIZER_H

#include "common/web/json.h"
#include "weir/status.h"
#include "worker/tokenizer/buffer.h"
#include "worker/tokenizer/pattern.h"

#define NORMALIZER_STEPS_MAX 32u

struct normalizer_step {
	enum { NORMALIZE_PREPEND, NORMALIZE_REPLACE, NORMALIZE_FORM } kind;
	char *content; /* (bytes): what is prepended, or put in place of the pattern; malloc'ed */
	size_t bytes;
	struct pattern *pattern;
	int form; /* utf8proc's options */
};

struct normalizer {
	struct normalizer_step steps[NORMALIZER_STEPS_MAX];
	uint32_t count; /* 0: texts stay as they are */
};

/* v: the object, or null. E_UNSUPPORTED names the kind that is not. */
weir_status normalizer_read(struct normalizer *n, const struct json_value *v, weir_error *err);
void normalizer_free(struct normalizer *n);

/* *out: the text itself, or in one of the buffers, whose contents are lost. E_LIMIT beyond bytes_max. */
weir_status normalizer_run(const struct normalizer *n, struct pattern_scratch *scratch, struct buffer buffers[2],
                           const char *text, size_t bytes, size_t bytes_max, const char **out, size_t *out_bytes,
                           weir_error *err);

#endif
