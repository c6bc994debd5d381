/* A small set of servers in rising order, such as the in-sync replicas of a partition. */
#ifndef WEIR_MEMBER_SET_H
#define WEIR_MEMBER_SET_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/limits.h"

#define MEMBER_NONE 0xffffu

struct member_set {
	uint16_t ids[WEIR_REPLICAS_MAX]; /* (count) */
	uint16_t count;
};

static inline bool member_set_has(const struct member_set *s, uint16_t id)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->ids[i] == id)
			return true;
	return false;
}

/* Does nothing when the set has the server already. The set needs room for it. */
static inline void member_set_add(struct member_set *s, uint16_t id)
{
	uint32_t at = 0;
	if (member_set_has(s, id))
		return;
	assert(s->count < WEIR_REPLICAS_MAX);
	while (at < s->count && s->ids[at] < id)
		at++;
	memmove(s->ids + at + 1, s->ids + at, (s->count++ - at) * sizeof *s->ids);
	s->ids[at] = id;
}

static inline void member_set_remove(struct member_set *s, uint16_t id)
{
	uint32_t at = 0;
	while (at < s->count && s->ids[at] != id)
		at++;
	if (at < s->count)
		memmove(s->ids + at, s->ids + at + 1, (--s->count - at) * sizeof *s->ids);
}

static inline bool member_set_equal(const struct member_set *a, const struct member_set *b)
{
	return a->count == b->count && memcmp(a->ids, b->ids, a->count * sizeof *a->ids) == 0;
}

#endif
