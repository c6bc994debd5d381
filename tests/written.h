/* A stream that collects its text. */
#ifndef WEIR_TESTS_WRITTEN_H
#define WEIR_TESTS_WRITTEN_H

#include <stdio.h>

struct written {
	char *text; /* set at the end; the caller frees it */
	size_t bytes;
	FILE *out;
};

static inline FILE *written_begin(struct written *w)
{
	return w->out = open_memstream(&w->text, &w->bytes);
}

static inline char *written_end(struct written *w)
{
	return fclose(w->out) == 0 ? w->text : NULL;
}

#endif
