#include "cli/sweep/search_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/system/disk.h"

enum { JOURNAL_VERSION = 1, JOURNAL_BYTES_MAX = 256 << 20 };

/* --- Writing */

static weir_status append(struct search_journal *j, struct json *line, weir_error *err)
{
	char *text = line ? json_canonical(line) : NULL;
	const size_t bytes = text ? strlen(text) + 1 : 0;
	weir_status status = text ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a line of %s", j->path);
	if (text) {
		text[bytes - 1] = '\n'; /* replaces the NUL */
		if (write(j->fd, text, bytes) != (ssize_t)bytes || fdatasync(j->fd) != 0)
			status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", j->path, strerror(errno));
	}
	free(text);
	json_destroy(line);
	return status;
}

weir_status search_journal_ask(struct search_journal *j, const struct search_options *options, const struct search_segment *g,
                               weir_error *err)
{
	struct json *line = json_create();
	json_set_count(line, "ask.trial", g->trial);
	json_set_count(line, "ask.from", g->from);
	json_set_count(line, "ask.until", g->until);
	if (g->source != SEARCH_NOBODY)
		json_set_count(line, "ask.source", g->source);
	for (uint32_t i = 0; i < options->space.count && options->sampler == SAMPLER_EXTERNAL; i++) {
		struct json *item = json_create();
		json_set_real(item, "value", g->point.x[i]);
		json_append(line, "ask.point", item);
	}
	return append(j, line, err);
}

weir_status search_journal_tell(struct search_journal *j, const struct search_book *b, uint32_t trial,
                                const struct segment_outcome *o, weir_error *err)
{
	struct json *line = json_create();
	json_set_count(line, "tell.trial", trial);
	for (uint32_t i = 0; i < search_measures(b->sweep->search); i++) {
		struct json *item = json_create();
		json_set_real(item, "value", o->measures[i]);
		json_append(line, "tell.measures", item);
	}
	json_set_real(line, "tell.seconds", o->seconds);
	json_set_real(line, "tell.samples", o->samples);
	json_set_real(line, "tell.bytes", o->bytes);
	json_set_real(line, "tell.joules", o->joules);
	for (uint32_t i = 0; i < b->sweep->seeds_count; i++) {
		struct json *item = json_create();
		json_set_text(item, "name", o->checkpoints[i]);
		json_append(line, "tell.checkpoints", item);
	}
	return append(j, line, err);
}

weir_status search_journal_fail(struct search_journal *j, uint32_t trial, const char *why, weir_error *err)
{
	struct json *line = json_create();
	json_set_count(line, "fail.trial", trial);
	json_set_text(line, "fail.why", why);
	return append(j, line, err);
}

/* --- Replaying */

struct replay {
	struct search_journal *journal;
	struct search_book *book;
	const char *definition;
	struct search_segment *running;
	uint32_t *count;
	uint32_t line;
	weir_error *err;
};

static weir_status corrupt(const struct replay *r, const char *what)
{
	return weir_fail(r->err, WEIR_E_CORRUPT, "%s:%u: %s; delete %s to search anew", r->journal->path, r->line, what,
	                 r->book->sweep->out);
}

static bool get_u32(const struct json *j, const char *path, uint32_t *out)
{
	uint64_t x = 0;
	const bool known = json_get_count(j, path, &x) && x <= UINT32_MAX;
	*out = (uint32_t)x;
	return known;
}

/* Reals of a list of objects; one that is null is NAN. */
static void read_values(const struct json *line, const char *path, uint32_t count, double *out)
{
	for (uint32_t i = 0; i < count; i++) {
		struct json *item = json_list_get(line, path, i);
		if (!item || !json_get_real(item, "value", &out[i]))
			out[i] = NAN;
		json_destroy(item);
	}
}

/* The search answers as it did then. */
static weir_status replay_ask(struct replay *r, const struct json *line)
{
	const struct search_options *o = search_get_options(r->book->search);
	struct search_segment g, said = {0};
	if (!get_u32(line, "ask.trial", &said.trial) || !get_u32(line, "ask.from", &said.from) ||
	    !get_u32(line, "ask.until", &said.until))
		return corrupt(r, "expected ask.trial, ask.from and ask.until");
	read_values(line, "ask.point", o->space.count, said.point.x);
	if (o->sampler == SAMPLER_EXTERNAL && search_give(r->book->search, said.trial, &said.point, said.until))
		return corrupt(r, "tells of a trial that cannot train so");
	if (search_ask(r->book->search, &g) != SEARCH_RUN || g.trial != said.trial || g.from != said.from || g.until != said.until)
		return corrupt(r, "the search would go otherwise now (another release, or fewer trials)");
	r->running[(*r->count)++] = g;
	return WEIR_OK;
}

/* Takes the running segment of the trial that the line names. */
static weir_status take_running(struct replay *r, const struct json *line, const char *path, uint32_t *trial)
{
	if (!get_u32(line, path, trial))
		return corrupt(r, "expected the number of a trial");
	for (uint32_t i = 0; i < *r->count; i++) {
		if (r->running[i].trial != *trial)
			continue;
		memmove(&r->running[i], &r->running[i + 1], (*r->count - i - 1) * sizeof *r->running);
		--*r->count;
		return WEIR_OK;
	}
	return corrupt(r, "tells of a trial that does not run");
}

static weir_status replay_tell(struct replay *r, const struct json *line)
{
	struct segment_outcome o = {0};
	const struct sweep *s = r->book->sweep;
	uint32_t trial;
	weir_status status = take_running(r, line, "tell.trial", &trial);
	read_values(line, "tell.measures", search_measures(s->search), o.measures);
	if (status == WEIR_OK && (!json_get_real(line, "tell.seconds", &o.seconds) ||
	                          !json_get_real(line, "tell.samples", &o.samples) || !json_get_real(line, "tell.bytes", &o.bytes)))
		status = corrupt(r, "expected tell.seconds, tell.samples and tell.bytes");
	if (!json_get_real(line, "tell.joules", &o.joules))
		o.joules = 0; /* a journal of an earlier release */
	for (uint32_t i = 0; i < s->seeds_count && status == WEIR_OK; i++) {
		struct json *item = json_list_get(line, "tell.checkpoints", i);
		const char *name = item ? json_get_text(item, "name") : NULL;
		snprintf(o.checkpoints[i], sizeof o.checkpoints[i], "%s", name ? name : "");
		json_destroy(item);
	}
	return status == WEIR_OK ? search_book_tell(r->book, trial, &o, r->err) : status;
}

static weir_status replay_fail(struct replay *r, const struct json *line)
{
	uint32_t trial;
	const char *why = json_get_text(line, "fail.why");
	const weir_status status = take_running(r, line, "fail.trial", &trial);
	if (status == WEIR_OK)
		search_book_fail(r->book, trial, why ? why : "");
	return status;
}

static weir_status replay_definition(const struct replay *r, const struct json *line)
{
	const char *text = json_get_text(line, "search");
	uint64_t version = 0;
	if (json_get_count(line, "version", &version) && version > JOURNAL_VERSION)
		return weir_fail(r->err, WEIR_E_VERSION, "%s is of version %u, this program knows %u: use a newer one", r->journal->path,
		                 (uint32_t)version, JOURNAL_VERSION);
	return text && strcmp(text, r->definition) == 0
	           ? WEIR_OK
	           : weir_fail(
	                 r->err, WEIR_E_EXISTS,
	                 "%s is of another search: base, set, seeds, search or space have changed since; give another `out`, or "
	                 "delete %s",
	                 r->journal->path, r->book->sweep->out);
}

static weir_status replay_line(struct replay *r, const char *text, size_t bytes)
{
	struct json *line = NULL;
	char name[WEIR_PATH_BYTES_MAX + 16];
	r->line++;
	snprintf(name, sizeof name, "%s:%u", r->journal->path, r->line);
	weir_status status = json_parse(text, bytes, name, &line, r->err);
	struct json *ask = status == WEIR_OK ? json_get_object(line, "ask") : NULL;
	struct json *tell = status == WEIR_OK ? json_get_object(line, "tell") : NULL;
	if (status == WEIR_OK)
		status = r->line == 1 ? replay_definition(r, line)
		         : ask        ? replay_ask(r, line)
		         : tell       ? replay_tell(r, line)
		                      : replay_fail(r, line);
	json_destroy(ask);
	json_destroy(tell);
	json_destroy(line);
	return status;
}

/* Replays whole lines. *whole: their bytes. */
static weir_status replay_all(struct replay *r, const char *text, size_t *whole)
{
	weir_status status = WEIR_OK;
	*whole = 0;
	for (const char *end; status == WEIR_OK && (end = strchr(text + *whole, '\n')); *whole = (size_t)(end + 1 - text))
		status = replay_line(r, text + *whole, (size_t)(end - text) - *whole);
	return status;
}

static weir_status begin(struct search_journal *j, const char *definition, weir_error *err)
{
	struct json *line = json_create();
	json_set_text(line, "search", definition);
	json_set_count(line, "version", JOURNAL_VERSION);
	return append(j, line, err);
}

weir_status search_journal_open(struct search_journal *out, struct search_book *b, const char *definition,
                                struct search_segment *running, uint32_t *count, weir_error *err)
{
	struct replay r = {.journal = out, .book = b, .definition = definition, .running = running, .count = count, .err = err};
	char *text = NULL;
	size_t bytes = 0, whole = 0;
	weir_status status = WEIR_OK;
	*count = 0;
	snprintf(out->path, sizeof out->path, "%s/journal.jsonl", b->sweep->out);
	if (access(out->path, F_OK) == 0) {
		status = disk_read_file(disk_system(), out->path, JOURNAL_BYTES_MAX, &text, &bytes, err);
		if (status == WEIR_OK)
			status = replay_all(&r, text, &whole);
		free(text);
	}
	out->fd = status == WEIR_OK ? open(out->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (status == WEIR_OK && (out->fd < 0 || ftruncate(out->fd, (off_t)whole) != 0 || lseek(out->fd, 0, SEEK_END) < 0))
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", out->path, strerror(errno));
	return status == WEIR_OK && r.line == 0 ? begin(out, definition, err) : status;
}

void search_journal_close(struct search_journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	j->fd = -1;
}
