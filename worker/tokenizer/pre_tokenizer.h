/* The pre-tokenizer of a tokenizer.json cuts a text into pieces that are encoded separately: Split,
 * ByteLevel, Metaspace, Digits, and Sequences of these.
 *
 * It is a list of simple steps: replace spaces, add a prefix, cut at a pattern. ByteLevel, if
 * present, is the last one. Its mapping of characters to those of their bytes is left to the model,
 * which reads bytes (bpe.h). */
#ifndef WEIR_PRE_TOKENIZER_H
#define WEIR_PRE_TOKENIZER_H

#include "common/web/json.h"
#include "weir/status.h"
#include "worker/tokenizer/buffer.h"
#include "worker/tokenizer/pattern.h"
#include "worker/tokenizer/utf8.h"

#define PRE_STEPS_MAX 16u

struct pre_step {
	enum { PRE_REPLACE_SPACES, PRE_PREFIX, PRE_SPLIT } kind;
	/* (bytes): the replacement of a space; or the prefix of a piece that does not begin with it */
	char character[UTF8_CHARACTER_MAX];
	uint32_t bytes;
	bool first_only; /* PRE_PREFIX: only for the first piece of a text */
	struct pattern *pattern;
	/* the fate of matches */
	enum { CUT_REMOVED, CUT_ISOLATED, CUT_WITH_PREVIOUS, CUT_WITH_NEXT, CUT_CONTIGUOUS } cut;
	bool invert; /* swap the matches and the text between them */
};

struct pre_tokenizer {
	struct pre_step steps[PRE_STEPS_MAX];
	uint32_t count; /* 0: the whole text is one piece */
	bool byte_level;
};

weir_status pre_tokenizer_read(struct pre_tokenizer *p, const struct json_value *v, weir_error *err);
void pre_tokenizer_destroy(struct pre_tokenizer *p);

/* The state of a run; one thread owns the buffers. */
struct pre_run {
	const struct pre_tokenizer *pre;
	struct pattern_scratch *scratch;
	struct buffer buffers[PRE_STEPS_MAX];
	size_t bytes_max; /* for one piece */
	/* called in order; no piece is empty */
	weir_status (*piece)(void *context, const char *text, size_t bytes, weir_error *err);
	void *context;
};
/* first: the text is the beginning of the whole text. */
weir_status pre_tokenizer_run(struct pre_run *r, const char *text, size_t bytes, bool first, weir_error *err);

#endif
