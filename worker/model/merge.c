#include "worker/model/merge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model/model_folder.h"

#define SOURCES_MAX (MERGE_INPUTS_MAX + 1)

/* One tensor of the result: sum over the sources of factor * source. */
struct mix {
	const struct safetensor *sources[SOURCES_MAX];
	double factors[SOURCES_MAX];
	uint32_t count;
	enum safetensor_type type;
};

/* --- Matching tensors */

/* Finds a tensor by its name, or by that name with or without the prefix of a whole model. */
static const struct safetensor *find_named(const struct safetensors *file, const char *name)
{
	static const char *const before[] = {"", "model.", "transformer."};
	char other[SAFETENSORS_NAME_BYTES];
	const struct safetensor *t = safetensors_find(file, name);
	for (size_t i = 0; i < sizeof before / sizeof *before && !t; i++)
		if (snprintf(other, sizeof other, "%s%s", before[i], model_tensor_short_name(name)) < (int)sizeof other)
			t = safetensors_find(file, other);
	return t;
}

/* Such a head may be present or absent. */
static bool is_tied_head(const struct safetensors *file, const char *name)
{
	return strcmp(name, "lm_head.weight") == 0 && !model_head_is_own(file);
}

/* If head and embedding are one tensor, a file may have only the head's name. `of`: the model whose
 * tensor `name` is. */
static const struct safetensor *find_embedding(const struct safetensors *file, const struct safetensors *of, const char *name)
{
	const char *shorter = model_tensor_short_name(name);
	const bool embeds = strcmp(shorter, "embed_tokens.weight") == 0 || strcmp(shorter, "wte.weight") == 0;
	return embeds && !model_head_is_own(of) ? safetensors_find(file, "lm_head.weight") : NULL;
}

/* Finds the tensor of another file that corresponds to one of the first. */
static const struct safetensor *find_same(const struct safetensors *file, const struct safetensors *first, const char *name)
{
	const struct safetensor *t = find_named(file, name);
	if (!t && (t = find_embedding(file, first, name)) != NULL)
		return t;
	if (!t && is_tied_head(first, name))
		t = find_named(file, "model.embed_tokens.weight");
	return !t && is_tied_head(first, name) ? find_named(file, "transformer.wte.weight") : t;
}

static void format_shape(char *out, size_t bytes, const struct safetensor *t)
{
	size_t at = (size_t)snprintf(out, bytes, "[");
	for (uint32_t d = 0; d < t->dims && at < bytes; d++)
		at += (size_t)snprintf(out + at, bytes - at, "%s%" PRIu64, d ? ", " : "", t->shape[d]);
	if (at < bytes)
		snprintf(out + at, bytes - at, "]");
}

static weir_status check_same(const struct safetensor *first, const struct safetensor *other, const char *name, weir_error *err)
{
	char shapes[2][160];
	const bool real = safetensor_is_real(first->type);
	if (!other)
		return weir_fail(err, WEIR_E_INVALID, "%s has no tensor '%s', which the first model has: merged are models of one kind",
		                 name, first->name);
	format_shape(shapes[0], sizeof shapes[0], first);
	format_shape(shapes[1], sizeof shapes[1], other);
	if (!safetensor_same_shape(first, other) || (real ? !safetensor_is_real(other->type) : other->type != first->type))
		return weir_fail(err, WEIR_E_INVALID, "tensor '%s' is %s of shape %s in the first model, %s of %s in %s", first->name,
		                 safetensor_type_name(first->type), shapes[0], safetensor_type_name(other->type), shapes[1], name);
	if (!real && memcmp(first->data, other->data, safetensor_bytes(first)) != 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "'%s' is not the same in the first model and in %s: rows with other keys cannot be merged", first->name,
		                 name);
	return WEIR_OK;
}

/* Checks that `other` has no tensor that the first model lacks. */
static weir_status check_none_more(const struct safetensors *first, const struct safetensors *other, const char *name,
                                   weir_error *err)
{
	for (uint32_t i = 0; i < safetensors_count(other); i++) {
		const char *of_other = safetensors_at(other, i)->name;
		if (!find_named(first, of_other) && !is_tied_head(other, of_other) && !find_embedding(first, other, of_other))
			return weir_fail(err, WEIR_E_INVALID,
			                 "%s has a tensor '%s', which the first model has not: merged are models of one kind", name,
			                 of_other);
	}
	return WEIR_OK;
}

/* --- Factors */

/* Returns the cosine of the angle between two tensors; 1 if one of them is 0. */
static double cosine(const struct safetensor *a, const struct safetensor *b)
{
	float x[SAFETENSORS_BLOCK], y[SAFETENSORS_BLOCK];
	double xx = 0, yy = 0, xy = 0;
	const uint64_t elements = safetensor_elements(a);
	for (uint64_t first = 0; first < elements; first += SAFETENSORS_BLOCK) {
		const uint64_t n = elements - first < SAFETENSORS_BLOCK ? elements - first : SAFETENSORS_BLOCK;
		safetensor_floats(a, first, n, x);
		safetensor_floats(b, first, n, y);
		for (uint64_t i = 0; i < n; i++) {
			xx += (double)x[i] * (double)x[i];
			yy += (double)y[i] * (double)y[i];
			xy += (double)x[i] * (double)y[i];
		}
	}
	return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 1;
}

static void slerp_factors(struct mix *x, double t)
{
	const double c = cosine(x->sources[0], x->sources[1]);
	x->factors[0] = 1 - t;
	x->factors[1] = t;
	if (fabs(c) > MERGE_PARALLEL_COS)
		return;
	const double angle = acos(c);
	x->factors[0] = sin((1 - t) * angle) / sin(angle);
	x->factors[1] = sin(t * angle) / sin(angle);
}

static void choose_factors(const struct merge *m, struct mix *x)
{
	double sum = 0;
	for (uint32_t i = 0; i < m->count; i++)
		sum += m->weights[i];
	for (uint32_t i = 0; i < m->count; i++)
		x->factors[i] = m->method == MERGE_LINEAR ? m->weights[i] / sum : m->weights[i];
	if (m->method == MERGE_SLERP)
		slerp_factors(x, m->weights[1]);
	if (m->method == MERGE_TASK)
		x->factors[m->count] = 1 - sum;
}

/* --- Writing */

static void mix_block(const struct mix *x, uint64_t first, uint64_t n, float values[SAFETENSORS_BLOCK])
{
	double sum[SAFETENSORS_BLOCK] = {0};
	for (uint32_t i = 0; i < x->count; i++) {
		safetensor_floats(x->sources[i], first, n, values);
		for (uint64_t e = 0; e < n; e++)
			sum[e] += x->factors[i] * (double)values[e];
	}
	for (uint64_t e = 0; e < n; e++)
		values[e] = (float)sum[e];
}

static void make_mixed(const void *arg, uint64_t first, uint64_t n, void *out)
{
	const struct mix *x = arg;
	float values[SAFETENSORS_BLOCK];
	mix_block(x, first, n, values);
	safetensor_round(x->type, values, n, out);
}

/* Runs before anything is written. */
static weir_status check_range(const struct mix *x, const struct safetensor *t, weir_error *err)
{
	float values[SAFETENSORS_BLOCK];
	const uint64_t elements = x->type == SAFETENSOR_F16 ? safetensor_elements(t) : 0;
	for (uint64_t first = 0; first < elements; first += SAFETENSORS_BLOCK) {
		const uint64_t n = elements - first < SAFETENSORS_BLOCK ? elements - first : SAFETENSORS_BLOCK;
		mix_block(x, first, n, values);
		const uint64_t beyond = safetensor_beyond(x->type, values, n);
		if (beyond < n)
			return weir_fail(err, WEIR_E_INVALID, "tensor '%s' would have %g, which F16 does not reach: expected BF16 or F32",
			                 t->name, (double)values[beyond]);
	}
	return WEIR_OK;
}

static weir_status mix_tensor(const struct merge *m, const struct safetensor *first, struct mix *x, struct safetensor *out,
                              weir_error *err)
{
	*out = *first;
	*x = (struct mix){.type = m->as_first ? first->type : m->type};
	for (uint32_t i = 0; i < m->count + (m->method == MERGE_TASK); i++) {
		const bool is_base = i == m->count;
		const struct safetensor *t = find_same(is_base ? m->base : m->inputs[i], m->inputs[0], first->name);
		const weir_status status = check_same(first, t, is_base ? "the base" : m->names[i], err);
		if (status != WEIR_OK)
			return status;
		x->sources[x->count++] = t;
	}
	if (!safetensor_is_real(first->type))
		return WEIR_OK;
	choose_factors(m, x);
	out->type = x->type;
	out->make = make_mixed;
	out->arg = x;
	return check_range(x, first, err);
}

weir_status merge_write(const struct merge *m, const char *path, weir_error *err)
{
	const struct safetensors *first = m->inputs[0];
	const uint32_t count = safetensors_count(first);
	struct mix *mixes = calloc(count + 1, sizeof *mixes);
	struct safetensor *tensors = calloc(count + 1, sizeof *tensors);
	const char **metadata = safetensors_metadata_list(first);
	weir_status status =
	    mixes && tensors && metadata ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for %u tensors", count);
	for (uint32_t i = 1; i < m->count && status == WEIR_OK; i++)
		status = check_none_more(first, m->inputs[i], m->names[i], err);
	for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
		status = mix_tensor(m, safetensors_at(first, i), &mixes[i], &tensors[i], err);
	if (status == WEIR_OK)
		status = safetensors_write(disk_system(), path, tensors, count, metadata[0] ? metadata : NULL, err);
	free(metadata);
	free(tensors);
	free(mixes);
	return status;
}
