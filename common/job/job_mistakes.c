/* Collects all mistakes of a job file, to report them together. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/job/job_read.h"

/* Sort keys after all lines of the file: mistakes of --set, then those without a place. */
#define LINE_SET     (UINT32_MAX - 1)
#define LINE_NOWHERE UINT32_MAX

static uint32_t line_of(const struct place *place)
{
	if (place && place->set)
		return LINE_SET;
	return place && place->line > 0 ? place->line : LINE_NOWHERE;
}

static void keep(struct job_mistakes *m, uint32_t line, const weir_error *error)
{
	uint32_t at = m->count < WEIR_JOB_MISTAKES_MAX ? m->count : WEIR_JOB_MISTAKES_MAX;
	while (at > 0 && m->kept[at - 1].line > line)
		at--;
	m->count++;
	if (at == WEIR_JOB_MISTAKES_MAX)
		return;
	const uint32_t last = m->count < WEIR_JOB_MISTAKES_MAX ? m->count - 1 : WEIR_JOB_MISTAKES_MAX - 1;
	memmove(&m->kept[at + 1], &m->kept[at], (last - at) * sizeof m->kept[0]);
	m->kept[at] = (struct job_mistake){.line = line, .error = *error};
}

/* Whether a failed check may follow from a wrong value: the failure is of that key, or mentions
 * it. */
static bool follows(const struct reading *r, const char *path, const char *what)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++) {
		const bool same = strcmp(keys[i].path, path) == 0;
		if (same ? r->raws[i].wrong || r->raws[i].told : r->raws[i].wrong && strstr(what, keys[i].path))
			return true;
	}
	return false;
}

static void note_told(struct reading *r, const char *path)
{
	uint32_t count;
	const struct key *keys = job_schema(&count), *key = job_schema_find(path);
	if (key)
		r->raws[key - keys].told = true;
}

void job_mark_wrong(struct reading *r, const char *path)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	const size_t length = strlen(path);
	for (uint32_t i = 0; i < count; i++) {
		const char end = strncmp(keys[i].path, path, length) == 0 ? keys[i].path[length] : 'x';
		r->raws[i].wrong |= length == 0 || end == '\0' || end == '.';
	}
}

weir_status job_fail(struct reading *r, const struct place *place, const char *path, weir_status status, const char *format, ...)
{
	char what[WEIR_ERROR_TEXT_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	const char *colon = *path ? ": " : "";
	if (place && place->set)
		weir_fail(r->err, status, "--set %.200s: %s%s%s", place->set, path, colon, what);
	else if (place && place->line > 0)
		weir_fail(r->err, status, "%s:%u:%u: %s%s%s", r->name, place->line, place->column, path, colon, what);
	else
		weir_fail(r->err, status, "%s: %s%s%s", r->name, path, colon, what);
	if (r->checking && follows(r, path, what))
		return status;
	keep(r->mistakes, line_of(place), r->err);
	if (r->checking)
		note_told(r, path);
	return status;
}
