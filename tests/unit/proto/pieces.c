#include "tests/unit/proto/pieces.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct pieces {
	size_t count;
	uint8_t *parts[]; /* (count) */
};

static void pieces_release(struct message *m)
{
	struct pieces *p = m->owner;
	for (size_t i = 0; i < p->count; i++)
		free(p->parts[i]);
	free(p);
}

struct message *pieces_of(const uint8_t *bytes, size_t n, size_t cut)
{
	size_t count = n ? (n + cut - 1) / cut : 1;
	struct pieces *p = malloc(sizeof *p + count * sizeof *p->parts);
	struct span *spans = calloc(count, sizeof *spans);
	assert(p && spans);
	p->count = count;
	for (size_t i = 0; i < count; i++) {
		size_t size = n - i * cut < cut ? n - i * cut : cut;
		p->parts[i] = malloc(size ? size : 1);
		assert(p->parts[i]);
		if (size)
			memcpy(p->parts[i], bytes + i * cut, size);
		spans[i] = (struct span){p->parts[i], size};
	}
	struct message *m = message_create(spans, (uint32_t)count, pieces_release, p);
	assert(m);
	free(spans);
	return m;
}

uint8_t *pieces_join(const struct message *m)
{
	uint8_t *out = malloc(m->bytes ? m->bytes : 1), *to = out;
	assert(out);
	for (uint32_t i = 0; i < m->count; i++) {
		memcpy(to, m->spans[i].data, m->spans[i].size);
		to += m->spans[i].size;
	}
	return out;
}
