#include "cli/sweep/search_run.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sweep/search_journal.h"
#include "cli/sweep/search_pipe.h"
#include "cli/sweep/search_report.h"
#include "cli/sweep/search_slot.h"
#include "cli/sweep/sweep_signals.h"
#include "common/system/disk.h"

/* If so many trials fail before any succeeds, the job is wrong, not a trial. */
enum { SEARCH_POLL_MS = 200, FAILED_FIRST_MAX = 3 };

struct runner {
	struct search_book *book;
	struct search_outcome *outcome;
	struct search_journal journal;
	struct search_pipe pipe;     /* of an external search */
	struct search_slot **slots;  /* (parallel) */
	struct search_segment *left; /* (left_count) asked by an earlier command, and not told */
	uint32_t left_count, busy;
	struct sweep_signals signals;
	weir_error *err;
};

/* --- What defines the search */

static void define_space(FILE *out, const struct space *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const struct space_dim *d = &s->dims[i];
		fprintf(out, "%s:", d->key);
		for (uint32_t k = 0; k < d->choices_count; k++)
			fprintf(out, " '%s'", d->choices[k]);
		if (!d->choices_count)
			fprintf(out, " %.17g to %.17g, step %.17g, log %d, int %d", d->min, d->max, d->step, d->log, d->integer);
		if (d->when != SPACE_ALWAYS)
			fprintf(out, ", when %u is among %llx", d->when, (unsigned long long)d->when_choices);
		fputc('\n', out);
	}
}

/* Trials are not part of it, but of a population: a search may be given more. Nor are budgets and
 * parallel. */
static char *definition_of(const struct sweep *s, const char *base_text)
{
	const struct search_options *o = &s->search->options;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	fprintf(out, "%s\n%s\n", s->base, base_text);
	for (uint32_t i = 0; i < s->all.sets_count; i++)
		fprintf(out, "set %s\n", s->all.sets[i]);
	for (uint32_t i = 0; i < s->seeds_count; i++)
		fprintf(out, "seed %llu\n", (unsigned long long)s->seeds[i]);
	define_space(out, &o->space);
	fprintf(out, "sampler %u policy %u population %u steps %u seed %llu first %u eta %u startup %u quantile %.17g\n", o->sampler,
	        o->policy, o->policy == POLICY_PBT ? o->trials : 0, o->steps, (unsigned long long)o->seed, o->first, o->eta,
	        o->startup, o->quantile);
	for (uint32_t i = 0; i < o->costs; i++)
		fprintf(out, "objective %s %s\n", s->search->objectives[i].name, s->search->objectives[i].maximize ? "up" : "down");
	for (uint32_t i = 0; i < s->search->constraints_count; i++)
		fprintf(out, "constraint %s\n", s->search->constraints[i].text);
	const bool failed = ferror(out) != 0;
	if (fclose(out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}

static weir_status open_journal(struct runner *r)
{
	const struct sweep *s = r->book->sweep;
	char *base = NULL;
	size_t bytes = 0;
	weir_status status = disk_read_file(disk_system(), s->base, WEIR_CONFIG_BYTES_MAX, &base, &bytes, r->err);
	char *definition = status == WEIR_OK ? definition_of(s, base) : NULL;
	if (status == WEIR_OK && !definition)
		status = weir_fail(r->err, WEIR_E_MEMORY, "no memory for the search");
	if (status == WEIR_OK)
		status = search_journal_open(&r->journal, r->book, definition, r->left, &r->left_count, r->err);
	free(base);
	free(definition);
	return status;
}

/* --- Telling people */

static void say(const struct runner *r, const struct search_segment *g, const char *what)
{
	const struct sweep *s = r->book->sweep;
	const struct trial_step *last = search_book_last(r->book, g->trial);
	search_settings settings;
	fprintf(stderr, "trial %u, pass %u: %s", g->trial, g->until, what);
	if (last && last->step == g->until)
		for (uint32_t i = 0; i < s->search->options.costs; i++)
			fprintf(stderr, "%s%s %.6g", i ? ", " : ": ", s->search->objectives[i].name, last->measures[i]);
	const uint32_t count = g->from == 0 || g->source != g->trial ? search_settings_of(s, &g->point, settings) : 0;
	for (uint32_t i = 0; i < count; i++)
		fprintf(stderr, "%s %s", i ? "," : ";", settings[i]);
	fputc('\n', stderr);
}

static void say_begun(const struct runner *r, const struct search_segment *g)
{
	char what[64] = "begun";
	if (g->source != SEARCH_NOBODY && g->source != g->trial)
		snprintf(what, sizeof what, "begun from trial %u's checkpoint of pass %u", g->source, g->from);
	else if (g->from > 0)
		snprintf(what, sizeof what, "goes on from pass %u", g->from);
	say(r, g, what);
}

/* --- Segments */

static bool is_external(const struct runner *r)
{
	return search_get_options(r->book->search)->policy == POLICY_EXTERNAL;
}

/* The books have what a segment came to. */
static weir_status tell(struct runner *r, uint32_t trial)
{
	const weir_status status = search_report_write(r->book, r->err);
	return status == WEIR_OK && is_external(r) ? search_pipe_tell(&r->pipe, trial, r->err) : status;
}

static weir_status fail_trial(struct runner *r, const struct search_segment *g, const weir_error *why)
{
	weir_status status = search_journal_fail(&r->journal, g->trial, why->text, r->err);
	search_book_fail(r->book, g->trial, why->text);
	fprintf(stderr, "trial %u, pass %u: FAILED: %s\n", g->trial, g->until, why->text);
	if (status == WEIR_OK && r->book->segments == 0 && r->book->failed >= FAILED_FIRST_MAX)
		status = weir_fail(r->err, WEIR_E_STATE, "the first %u trials failed, the last one: %s", r->book->failed, why->text);
	return status == WEIR_OK ? tell(r, g->trial) : status;
}

/* The slot for a segment: the one that holds it from an earlier command, else any that is free and
 * holds nothing that is still to be run. */
static struct search_slot *slot_for(const struct runner *r, const struct search_segment *g)
{
	struct search_slot *any = NULL, *last = NULL;
	for (uint32_t i = 0; i < r->book->sweep->search->parallel; i++) {
		struct search_slot *s = r->slots[i];
		bool wanted = false;
		if (search_slot_segment(s))
			continue;
		if (search_slot_holds(s, g))
			return s;
		for (uint32_t k = 0; k < r->left_count; k++)
			wanted |= search_slot_holds(s, &r->left[k]);
		any = !wanted && !any ? s : any;
		last = s;
	}
	return any ? any : last;
}

static weir_status begin_segment(struct runner *r, const struct search_segment *g)
{
	weir_error why = {0};
	struct search_slot *slot = slot_for(r, g);
	say_begun(r, g);
	if (search_slot_begin(slot, g, &why) != WEIR_OK)
		return fail_trial(r, g, &why);
	r->busy++;
	return WEIR_OK;
}

/* Begins segments while slots are free. *done: none is left to begin or to wait for. */
static weir_status fill_slots(struct runner *r, bool *done)
{
	weir_status status = WEIR_OK;
	enum search_answer answer = SEARCH_RUN;
	while (status == WEIR_OK && answer == SEARCH_RUN && r->busy < r->book->sweep->search->parallel) {
		struct search_segment g;
		if (r->left_count > 0) {
			g = r->left[0];
			memmove(r->left, r->left + 1, --r->left_count * sizeof *r->left);
		} else {
			r->outcome->spent = search_book_spent(r->book);
			answer = r->outcome->spent ? SEARCH_DONE : search_ask(r->book->search, &g);
			if (answer != SEARCH_RUN)
				break;
			status = search_journal_ask(&r->journal, search_get_options(r->book->search), &g, r->err);
		}
		if (status == WEIR_OK)
			status = begin_segment(r, &g);
	}
	const bool more = r->pipe.fd >= 0 && !r->outcome->spent;
	*done = answer != SEARCH_RUN && r->busy == 0 && !more;
	return status;
}

/* Takes what the segment of a slot came to. status, why: of the segment. */
static weir_status end_segment(struct runner *r, const struct search_slot *slot, const struct search_segment *g,
                               weir_status status, const struct segment_outcome *o, const weir_error *why)
{
	r->busy--;
	if (status != WEIR_OK && r->signals.stop_signal)
		return WEIR_OK; /* it was stopped, and goes on the next time */
	if (status != WEIR_OK) {
		search_slot_put_aside(slot);
		return fail_trial(r, g, why);
	}
	status = search_journal_tell(&r->journal, r->book, g->trial, o, r->err);
	if (status == WEIR_OK)
		status = search_book_tell(r->book, g->trial, o, r->err);
	if (status == WEIR_OK)
		say(r, g, "done");
	return status == WEIR_OK ? tell(r, g->trial) : status;
}

static weir_status poll_slots(struct runner *r)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < r->book->sweep->search->parallel && status == WEIR_OK; i++) {
		const struct search_segment *g = search_slot_segment(r->slots[i]);
		struct segment_outcome outcome;
		weir_error why = {0};
		bool ended = false;
		if (!g)
			continue;
		const struct search_segment segment = *g;
		const weir_status ran = search_slot_poll(r->slots[i], &ended, &outcome, &why);
		if (ended)
			status = end_segment(r, r->slots[i], &segment, ran, &outcome, &why);
	}
	return status;
}

static void read_signals(struct runner *r, int timeout_ms)
{
	const int signal = sweep_signals_read(&r->signals, r->pipe.fd, timeout_ms);
	if (!signal)
		return;
	fprintf(stderr,
	        r->signals.stop_at_once ? "%s again: the trials are killed\n"
	                                : "%s: the trials are stopped, and go on the next time (once more kills them)\n",
	        strsignal(signal));
	r->outcome->stop_signal = r->signals.stop_signal;
	for (uint32_t i = 0; i < r->book->sweep->search->parallel; i++)
		search_slot_signal(r->slots[i], r->signals.stop_at_once ? SIGKILL : SIGTERM);
}

static weir_status loop(struct runner *r)
{
	bool done = false;
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && !done) {
		if (r->signals.stop_signal)
			done = r->busy == 0;
		else
			status = fill_slots(r, &done);
		if (status == WEIR_OK && !done) {
			read_signals(r, SEARCH_POLL_MS);
			status = search_pipe_read(&r->pipe, r->err);
		}
		if (status == WEIR_OK && !done)
			status = poll_slots(r);
	}
	if (status == WEIR_OK && is_external(r) && r->outcome->spent)
		status = search_pipe_spent(&r->pipe, r->outcome->spent, r->err);
	return status;
}

/* --- The search */

/* With several trials at a time, each gets its share of the cores, if the job leaves that open. */
static uint32_t threads_of(const struct sweep *s)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	const uint32_t each = cores > 0 ? (uint32_t)cores / s->search->parallel / s->search->workers : 1;
	return s->search->parallel == 1 || s->search->has_threads ? 0 : each > 0 ? each : 1;
}

static weir_status make_slots(struct runner *r)
{
	const struct sweep *s = r->book->sweep;
	r->slots = calloc(s->search->parallel, sizeof *r->slots);
	r->left = calloc(s->search->options.trials, sizeof *r->left);
	bool made = r->slots && r->left;
	for (uint32_t i = 0; made && i < s->search->parallel; i++) {
		const struct search_slot_options o = {.sweep = s, .book = r->book, .number = i, .threads = threads_of(s)};
		made = (r->slots[i] = search_slot_create(&o)) != NULL;
	}
	return made ? WEIR_OK : weir_fail(r->err, WEIR_E_MEMORY, "no memory for %u trials", s->search->options.trials);
}

static void close_runner(struct runner *r)
{
	for (uint32_t i = 0; r->slots && i < r->book->sweep->search->parallel; i++)
		search_slot_destroy(r->slots[i]);
	free(r->slots);
	free(r->left);
	search_journal_close(&r->journal);
	sweep_signals_close(&r->signals);
}

weir_status search_run(struct search_book *b, struct search_outcome *out, weir_error *err)
{
	struct runner r = {.book = b, .outcome = out, .journal.fd = -1, .pipe.fd = -1, .signals.fd = -1, .err = err};
	const struct sweep *s = b->sweep;
	struct disk *d = disk_system();
	struct disk_file *locked = NULL;
	char lock[WEIR_PATH_BYTES_MAX + 16];
	snprintf(lock, sizeof lock, "%s/LOCK", s->out);
	weir_status status = d->ops->make_dirs(d, s->out, err);
	if (status == WEIR_OK)
		status = d->ops->lock(d, lock, "weir sweep", &locked, err);
	if (status == WEIR_OK)
		status = make_slots(&r);
	if (status == WEIR_OK)
		status = open_journal(&r);
	if (status == WEIR_OK)
		status = sweep_signals_open(&r.signals, err);
	if (status == WEIR_OK && is_external(&r))
		status = search_pipe_open(&r.pipe, b, err);
	if (status == WEIR_OK) {
		fprintf(stderr, "%s: up to %u trials of up to %u passes; results in %s\n", s->path, s->search->options.trials,
		        s->search->options.steps, s->out);
		status = loop(&r);
	}
	if (status == WEIR_OK)
		status = search_report_write(b, err);
	close_runner(&r);
	if (locked)
		d->ops->close(locked);
	return status;
}
