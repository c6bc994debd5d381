/* Reads and runs a normalizer. The only user of utf8proc. */
#include "worker/tokenizer/normalizer.h"

#include <utf8proc.h>

#include "worker/tokenizer/read.h"

static const struct {
	const char *name;
	int options;
} forms[] = {{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
             {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
             {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
             {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};

/* --- Reading */

static weir_status add_step(struct normalizer *n, struct normalizer_step **out, weir_error *err)
{
	if (n->count == NORMALIZER_STEPS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "more than %u steps", NORMALIZER_STEPS_MAX);
	*out = &n->steps[n->count++];
	return WEIR_OK;
}

static weir_status read_step(struct normalizer *n, const char *type, const struct json_value *v, weir_error *err)
{
	struct normalizer_step *step = NULL;
	weir_status status = add_step(n, &step, err);
	if (status != WEIR_OK)
		return status;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (strcmp(type, forms[i].name) != 0)
			continue;
		*step = (struct normalizer_step){.kind = NORMALIZE_FORM, .form = forms[i].options};
		return WEIR_OK;
	}
	if (strcmp(type, "Prepend") == 0) {
		step->kind = NORMALIZE_PREPEND;
		return read_text(&step->content, &step->bytes, v, "prepend", err);
	}
	if (strcmp(type, "Replace") == 0) {
		step->kind = NORMALIZE_REPLACE;
		status = read_pattern(&step->pattern, v, err);
		return status == WEIR_OK ? read_text(&step->content, &step->bytes, v, "content", err) : status;
	}
	return weir_fail(err, WEIR_E_UNSUPPORTED, "%s is not supported; Prepend, Replace, NFC, NFD, NFKC, NFKD and Sequence are",
	                 type);
}

static weir_status read_member(void *arg, const char *type, const struct json_value *v, weir_error *err)
{
	return read_step(arg, type, v, err);
}

weir_status normalizer_read(struct normalizer *n, const struct json_value *v, weir_error *err)
{
	*n = (struct normalizer){0};
	return read_sequence(v, "normalizers", read_member, n, err);
}

void normalizer_destroy(struct normalizer *n)
{
	for (uint32_t i = 0; i < n->count; i++) {
		free(n->steps[i].content);
		pattern_destroy(n->steps[i].pattern);
	}
	*n = (struct normalizer){0};
}

/* --- Running */

static weir_status put(struct buffer *out, const char *text, size_t bytes, size_t bytes_max, weir_error *err)
{
	return buffer_append(out, text, bytes, bytes_max) ? WEIR_OK : pattern_too_long(bytes_max, err);
}

static weir_status compose(int options, struct buffer *out, const char *text, size_t bytes, size_t bytes_max, weir_error *err)
{
	utf8proc_uint8_t *made = NULL;
	const utf8proc_ssize_t n =
	    utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes, &made, (utf8proc_option_t)options);
	if (n < 0)
		return weir_fail(err, n == UTF8PROC_ERROR_NOMEM ? WEIR_E_MEMORY : WEIR_E_LIMIT, "a text cannot be normalized: %s",
		                 utf8proc_errmsg(n));
	const weir_status status = put(out, (const char *)made, (size_t)n, bytes_max, err);
	free(made);
	return status;
}

weir_status normalizer_run(const struct normalizer *n, struct pattern_scratch *scratch, struct buffer buffers[2],
                           const char *text, size_t bytes, size_t bytes_max, const char **out, size_t *out_bytes, weir_error *err)
{
	*out = text;
	*out_bytes = bytes;
	for (uint32_t i = 0; i<n->count && * out_bytes> 0; i++) {
		const struct normalizer_step *step = &n->steps[i];
		struct buffer *to = &buffers[i % 2];
		weir_status status = WEIR_OK;
		to->size = 0;
		if (step->kind == NORMALIZE_FORM) {
			status = compose(step->form, to, *out, *out_bytes, bytes_max, err);
		} else if (step->kind == NORMALIZE_REPLACE) {
			status = pattern_replace(step->pattern, scratch, *out, *out_bytes, step->content, step->bytes, to, bytes_max, err);
		} else {
			status = put(to, step->content, step->bytes, bytes_max, err);
			if (status == WEIR_OK)
				status = put(to, *out, *out_bytes, bytes_max, err);
		}
		if (status != WEIR_OK)
			return status;
		*out = to->data;
		*out_bytes = to->size;
	}
	return WEIR_OK;
}
