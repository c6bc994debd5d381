#include "cli/observe/event_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/little_endian.h"
#include "common/system/disk.h"
#include "tensorboard.pb-c.h"

#define FILE_NAME      "events.out.tfevents."
#define FILE_BYTES_MAX ((size_t)1 << 30)
#define RECORD_HEAD    12u /* length and its checksum */
#define RECORD_TAIL    4u

struct names {
	char **items; /* (count) */
	uint32_t count;
	bool full; /* of memory */
};

static weir_status note_name(void *arg, const char *name)
{
	struct names *n = arg;
	if (strncmp(name, FILE_NAME, strlen(FILE_NAME)) != 0)
		return WEIR_OK;
	char **more = realloc(n->items, (n->count + 1) * sizeof *more);
	char *copy = strdup(name);
	if (more)
		n->items = more;
	if (!more || !copy) {
		free(copy);
		n->full = true;
		return WEIR_OK;
	}
	n->items[n->count++] = copy;
	return WEIR_OK;
}

/* Names begin with the seconds of their creation. */
static int by_time(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- Points */

static struct event_series *series_of(struct event_curves *c, const char *tag)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (strcmp(c->series[i].tag, tag) == 0)
			return &c->series[i];
	struct event_series *more = realloc(c->series, (c->count + 1) * sizeof *more);
	if (!more)
		return NULL;
	c->series = more;
	more[c->count] = (struct event_series){.count = 0};
	snprintf(more[c->count].tag, sizeof more->tag, "%s", tag);
	return &more[c->count++];
}

/* Capacity doubles at each power of two. */
static bool add_point(struct event_curves *c, const char *tag, const struct event_point *p)
{
	struct event_series *s = series_of(c, tag);
	if (s && (s->count & (s->count - 1)) == 0) {
		struct event_point *more = realloc(s->points, (s->count ? 2 * (size_t)s->count : 1) * sizeof *more);
		if (!more)
			return false;
		s->points = more;
	}
	if (s)
		s->points[s->count++] = *p;
	return s != NULL;
}

static void forget_from(struct event_curves *c, uint64_t step)
{
	for (uint32_t i = 0; i < c->count; i++)
		while (c->series[i].count > 0 && c->series[i].points[c->series[i].count - 1].step >= step)
			c->series[i].count--;
}

static bool take_event(struct event_curves *c, const Weir__Tensorboard__Event *e)
{
	bool taken = true;
	if (e->session_log && e->session_log->status == WEIR__TENSORBOARD__SESSION_STATUS__START)
		forget_from(c, (uint64_t)e->step);
	for (size_t i = 0; e->summary && i < e->summary->n_value && taken; i++) {
		const Weir__Tensorboard__Value *v = e->summary->value[i];
		if (v->value_case == WEIR__TENSORBOARD__VALUE__VALUE_SIMPLE_VALUE)
			taken = add_point(
			    c, v->tag,
			    &(struct event_point){.step = (uint64_t)e->step, .wall_s = e->wall_time, .value = (double)v->simple_value});
	}
	return taken;
}

/* --- Files */

static bool take_file(struct event_curves *c, const uint8_t *bytes, size_t n)
{
	bool taken = true;
	for (size_t at = 0; taken && n - at > RECORD_HEAD + RECORD_TAIL;) {
		const uint64_t body = get64(bytes + at);
		if (body > n - at - RECORD_HEAD - RECORD_TAIL)
			break;
		Weir__Tensorboard__Event *e = weir__tensorboard__event__unpack(NULL, (size_t)body, bytes + at + RECORD_HEAD);
		if (!e)
			break;
		taken = take_event(c, e);
		weir__tensorboard__event__free_unpacked(e, NULL);
		at += RECORD_HEAD + (size_t)body + RECORD_TAIL;
	}
	return taken;
}

weir_status event_curves_read(const char *folder, struct event_curves *out, weir_error *err)
{
	struct names names = {0};
	*out = (struct event_curves){0};
	if (access(folder, F_OK) != 0)
		return WEIR_OK;
	weir_status status = disk_system()->ops->list(disk_system(), folder, note_name, &names, err);
	bool taken = !names.full;
	if (names.count)
		qsort(names.items, names.count, sizeof *names.items, by_time);
	for (uint32_t i = 0; i < names.count && status == WEIR_OK && taken; i++) {
		char path[WEIR_PATH_BYTES_MAX], *bytes = NULL;
		size_t n = 0;
		snprintf(path, sizeof path, "%s/%s", folder, names.items[i]);
		status = disk_read_file(disk_system(), path, FILE_BYTES_MAX, &bytes, &n, err);
		if (status == WEIR_OK)
			taken = take_file(out, (const uint8_t *)bytes, n);
		free(bytes);
	}
	for (uint32_t i = 0; i < names.count; i++)
		free(names.items[i]);
	free(names.items);
	if (status == WEIR_OK && !taken)
		status = weir_fail(err, WEIR_E_MEMORY, "no memory for the curves in %s", folder);
	if (status != WEIR_OK)
		event_curves_destroy(out);
	return status;
}

void event_curves_destroy(struct event_curves *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		free(c->series[i].points);
	free(c->series);
	*c = (struct event_curves){0};
}

const struct event_series *event_curves_find(const struct event_curves *c, const char *tag)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (strcmp(c->series[i].tag, tag) == 0)
			return &c->series[i];
	return NULL;
}

double event_series_at(const struct event_series *s, uint64_t step)
{
	uint32_t low = 0, high = s->count; /* the first point at or beyond the step is in low..high */
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (s->points[middle].step < step)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == s->count)
		return NAN;
	const struct event_point *b = &s->points[low], *a = low > 0 ? b - 1 : NULL;
	if (b->step == step || !a)
		return b->step == step ? b->value : NAN;
	return a->value + (b->value - a->value) * (double)(step - a->step) / (double)(b->step - a->step);
}
