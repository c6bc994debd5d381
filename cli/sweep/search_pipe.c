#include "cli/sweep/search_pipe.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sweep/search_report.h"

enum { SHOWN_BYTES = 64 };

static weir_status write_line(struct json *line, weir_error *err)
{
	char *text = line ? json_canonical(line) : NULL;
	weir_status status = text ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for an answer");
	if (text && (fprintf(stdout, "%s\n", text) < 0 || fflush(stdout) != 0))
		status = weir_fail(err, WEIR_E_IO, "cannot write an answer to stdout: %s", strerror(errno));
	free(text);
	json_destroy(line);
	return status;
}

/* --- The search in words */

static struct json *dim_json(const struct space *space, const struct space_dim *d)
{
	struct json *j = json_create();
	json_set_text(j, "key", d->key);
	for (uint32_t i = 0; i < d->choices_count; i++)
		json_append_text(j, "choices", d->choices[i]);
	if (!d->choices_count) {
		json_set_real(j, "min", d->min);
		json_set_real(j, "max", d->max);
		json_set_real(j, "step", d->step);
		json_set_bool(j, "log", d->log);
		json_set_bool(j, "int", d->integer);
	}
	if (d->when == SPACE_ALWAYS)
		return j;
	const struct space_dim *on = &space->dims[d->when];
	json_set_text(j, "when", on->key);
	for (uint32_t i = 0; i < on->choices_count; i++)
		if (d->when_choices >> i & 1)
			json_append_text(j, "when_choices", on->choices[i]);
	return j;
}

static struct json *describe(const struct search_book *b)
{
	const struct sweep_search *s = b->sweep->search;
	struct json *j = json_create();
	json_set_count(j, "passes", s->options.steps);
	json_set_count(j, "parallel", s->parallel);
	for (uint32_t i = 0; i < s->options.costs; i++) {
		struct json *item = json_create();
		json_set_text(item, "name", s->objectives[i].name);
		json_set_bool(item, "maximize", s->objectives[i].maximize);
		json_append(j, "metrics", item);
	}
	for (uint32_t i = 0; i < s->options.space.count; i++)
		json_append(j, "space", dim_json(&s->options.space, &s->options.space.dims[i]));
	json_set_empty_list(j, "trials");
	for (uint32_t i = 0; i < search_trials(b->search); i++)
		json_append(j, "trials", search_trial_json(b, i));
	return j;
}

/* --- Settings */

/* Whether a value is the choice: its text, or the same number. */
static bool is_choice(const char *choice, const struct json_value *v, const char *shown)
{
	size_t bytes = 0;
	const char *text = json_value_text(v, &bytes);
	char *end = NULL;
	double number = 0;
	const double as_number = strtod(choice, &end);
	if (json_value_real(v, &number))
		return *choice && *end == '\0' && as_number == number;
	return strcmp(choice, text ? text : shown) == 0;
}

/* The value of one key. False: *why says what was expected. */
static bool read_value(const struct space_dim *d, const struct json_value *v, double *out, char *why)
{
	char shown[SHOWN_BYTES];
	json_value_show(v, shown, sizeof shown);
	for (uint32_t i = 0; i < d->choices_count; i++)
		if (is_choice(d->choices[i], v, shown)) {
			*out = i;
			return true;
		}
	if (d->choices_count) {
		snprintf(why, SEARCH_WHY_BYTES, "%s is %s; expected one of its values in `space`", d->key, shown);
		return false;
	}
	if (json_value_real(v, out) && *out >= d->min && *out <= d->max && (!d->integer || *out == floor(*out)))
		return true;
	snprintf(why, SEARCH_WHY_BYTES, "%s is %s; expected a %snumber from %g to %g", d->key, shown, d->integer ? "whole " : "",
	         d->min, d->max);
	return false;
}

struct key_check {
	const struct space *space;
	const struct space_point *point;
	char *why;
};

/* Every key must be of the space, and count. */
static bool check_key(void *arg, const char *key, size_t bytes, const struct json_value *member)
{
	const struct key_check *c = arg;
	(void)bytes;
	(void)member;
	for (uint32_t i = 0; i < c->space->count; i++) {
		if (strcmp(c->space->dims[i].key, key) != 0)
			continue;
		if (!isnan(c->point->x[i]))
			return true;
		snprintf(c->why, SEARCH_WHY_BYTES, "%s does not count: its `when` does not hold", key);
		return false;
	}
	snprintf(c->why, SEARCH_WHY_BYTES, "%.*s is not a key of `space`", SHOWN_BYTES, key);
	return false;
}

static bool read_point(const struct space *space, const struct json_value *settings, struct space_point *out, char *why)
{
	struct key_check check = {.space = space, .point = out, .why = why};
	if (!json_is_map(settings)) {
		snprintf(why, SEARCH_WHY_BYTES, "a new trial needs `settings`: a map of the keys of `space` to their values");
		return false;
	}
	for (uint32_t i = 0; i < space->count; i++) {
		out->x[i] = NAN;
		if (space_counts(space, out, i) &&
		    !read_value(&space->dims[i], json_member(settings, space->dims[i].key), &out->x[i], why))
			return false;
	}
	return json_each(settings, check_key, &check);
}

/* --- Requests */

static weir_status refuse(const struct json_value *trial, const char *why, weir_error *err)
{
	uint64_t number = 0;
	struct json *answer = json_create();
	if (json_value_count(trial, &number))
		json_set_count(answer, "trial", number);
	json_set_text(answer, "refused", why);
	return write_line(answer, err);
}

static weir_status take_request(struct search_pipe *p, const struct json_value *request, weir_error *err)
{
	const struct json_value *trial = json_member(request, "trial");
	const struct search_options *o = search_get_options(p->book->search);
	struct space_point point = {0};
	uint64_t number, until;
	char why[SEARCH_WHY_BYTES];
	if (!json_value_count(trial, &number) || !json_value_count(json_member(request, "until"), &until) || number > UINT32_MAX ||
	    until > UINT32_MAX)
		return refuse(trial, "expected {\"trial\": NUMBER, \"until\": PASS, \"settings\": {...}}", err);
	if (number >= search_trials(p->book->search) && !read_point(&o->space, json_member(request, "settings"), &point, why))
		return refuse(trial, why, err);
	const char *wrong = search_give(p->book->search, (uint32_t)number, &point, (uint32_t)until);
	return wrong ? refuse(trial, wrong, err) : WEIR_OK;
}

static weir_status take_line(struct search_pipe *p, const char *line, size_t bytes, weir_error *err)
{
	struct json *request = NULL;
	weir_error why = {0};
	if (json_parse(line, bytes, "stdin", &request, &why) != WEIR_OK)
		return refuse(NULL, why.text, err);
	const weir_status status = take_request(p, json_root(request), err);
	json_destroy(request);
	return status;
}

static weir_status take_lines(struct search_pipe *p, weir_error *err)
{
	char *line = p->line, *end;
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && (end = memchr(line, '\n', p->bytes))) {
		const uint32_t bytes = (uint32_t)(end - line);
		status = take_line(p, line, bytes, err);
		line = end + 1;
		p->bytes -= bytes + 1;
	}
	memmove(p->line, line, p->bytes);
	return status;
}

/* --- The pipe */

weir_status search_pipe_open(struct search_pipe *out, struct search_book *b, weir_error *err)
{
	out->book = b;
	out->fd = STDIN_FILENO;
	out->bytes = 0;
	return write_line(describe(b), err);
}

weir_status search_pipe_read(struct search_pipe *p, weir_error *err)
{
	struct pollfd ready = {.fd = p->fd, .events = POLLIN};
	if (poll(&ready, 1, 0) <= 0)
		return WEIR_OK;
	const ssize_t got = read(p->fd, p->line + p->bytes, sizeof p->line - p->bytes);
	if (got < 0)
		return errno == EINTR || errno == EAGAIN ? WEIR_OK : weir_fail(err, WEIR_E_IO, "stdin: %s", strerror(errno));
	if (got == 0) {
		p->fd = -1;
		return WEIR_OK;
	}
	p->bytes += (uint32_t)got;
	const weir_status status = take_lines(p, err);
	if (status == WEIR_OK && p->bytes == sizeof p->line)
		return weir_fail(err, WEIR_E_INVALID, "stdin: a line of more than %u bytes", SEARCH_LINE_BYTES_MAX);
	return status;
}

weir_status search_pipe_tell(struct search_pipe *p, uint32_t trial, weir_error *err)
{
	return write_line(search_trial_json(p->book, trial), err);
}

weir_status search_pipe_spent(struct search_pipe *p, const char *budget, weir_error *err)
{
	struct json *line = json_create();
	(void)p;
	json_set_text(line, "spent", budget);
	return write_line(line, err);
}
