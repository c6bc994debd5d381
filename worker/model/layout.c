#include "worker/model/layout.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

uint64_t layout_add(struct layout *l, uint32_t rows, uint32_t cols, weir_init_kind kind, float a, const char *format, ...)
{
	assert(l->count < WEIR_TABLE_SEGMENTS_MAX && rows > 0);
	struct tensor *t = &l->tensors[l->count];
	va_list args;
	va_start(args, format);
	int written = vsnprintf(t->name, sizeof t->name, format, args);
	va_end(args);
	assert(written > 0 && (size_t)written < sizeof t->name);
	t->rows = rows;
	t->cols = cols;
	t->offset = l->elements;
	t->elements = (uint64_t)rows * (cols > 0 ? cols : 1);
	l->segments[l->count] = (weir_init_segment){.elements = t->elements, .kind = kind, .a = a};
	l->elements += t->elements;
	l->count++;
	return t->offset;
}

void layout_leave_out_vectors(struct layout *l)
{
	for (uint32_t i = 0; i < l->count; i++)
		l->segments[i].undecayed = l->tensors[i].cols == 0;
}

const struct tensor *layout_find(const struct layout *l, const char *name)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (strcmp(l->tensors[i].name, name) == 0)
			return &l->tensors[i];
	return NULL;
}
