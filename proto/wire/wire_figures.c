#include "proto/wire/wire_figures.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_name(const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.@/";
	const size_t n = strlen(text);
	return n > 0 && n < WEIR_FIGURE_NAME_BYTES_MAX && strspn(text, plain) == n;
}

static bool is_there(const struct figures *f, const char *name)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (strcmp(f->items[i].name, name) == 0)
			return true;
	return false;
}

weir_status wire_figures_read(struct figures *out, Weir__V1__Figure *const *in, size_t count, weir_error *err)
{
	out->count = 0;
	if (count > WEIR_FIGURES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "an evaluation has %zu figures; at most %u", count, WEIR_FIGURES_MAX);
	for (size_t i = 0; i < count; i++) {
		if (!is_name(in[i]->name) || is_there(out, in[i]->name))
			return weir_fail(
			    err, WEIR_E_INVALID,
			    "figure %zu of an evaluation is named '%.60s'; expected another word of letters, digits and _-.@/, of at "
			    "most %u bytes",
			    i, in[i]->name, WEIR_FIGURE_NAME_BYTES_MAX - 1);
		if (!isfinite(in[i]->value))
			return weir_fail(err, WEIR_E_INVALID,
			                 "the figure '%s' of an evaluation is %g; expected a finite number, or no such figure", in[i]->name,
			                 in[i]->value);
		struct figure *f = &out->items[out->count++];
		snprintf(f->name, sizeof f->name, "%s", in[i]->name);
		f->value = in[i]->value;
	}
	return WEIR_OK;
}

void wire_figures_fill(struct wire_figures *out, const struct figures *in)
{
	for (uint32_t i = 0; i < in->count; i++) {
		weir__v1__figure__init(&out->items[i]);
		out->items[i].name = (char *)in->items[i].name;
		out->items[i].value = in->items[i].value;
		out->list[i] = &out->items[i];
	}
}
