/* Runs a sweep: each run with each seed is a `weir train`, a child process, one after the other in
 * OUT/run.
 *
 * OUT/NAME-SEED.json is a run's report. OUT/NAME-SEED.note.json, written after it, records the
 * inputs of the run: the text of the base, the sets, and the seed. A run is finished if its note
 * equals the note of the present inputs. For every other run, the existing report and note are
 * removed first. So after a kill of the sweep, or a change of the file, the missing runs run from
 * the start. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/progress_line.h"
#include "cli/core/supervise.h"
#include "cli/run/run_dir.h"
#include "cli/sweep/sweep.h"
#include "cli/sweep/sweep_signals.h"
#include "cli/sweep/sweep_track.h"
#include "common/base/clock.h"
#include "common/system/disk.h"
#include "common/web/json.h"

enum { RUN_POLL_MS = 200, RUN_PATH_BYTES = WEIR_PATH_BYTES_MAX + 128 };

struct runner {
	const struct sweep *sweep;
	struct sweep_result *results;
	struct sweep_outcome *outcome;
	bool keep_going;
	char *base_text;
	struct sweep_signals signals;
	weir_error *err;
};

/* One run with one seed. */
struct task {
	const struct sweep_run *run;
	uint64_t seed;
	uint32_t number; /* from 0, over all tasks */
	char name[WEIR_NAME_BYTES_MAX];
	char report[RUN_PATH_BYTES], note[RUN_PATH_BYTES];
	struct sweep_sets sets;
	sweep_track_texts track; /* (track_count) further settings, which do not change the run */
	uint32_t track_count;
};

static void make_task(const struct sweep *s, uint32_t number, struct task *t)
{
	t->run = &s->runs[number / s->seeds_count];
	t->seed = s->seeds[number % s->seeds_count];
	t->number = number;
	snprintf(t->name, sizeof t->name, "%.*s-%" PRIu64, (int)SWEEP_NAME_BYTES_MAX - 1, t->run->name, t->seed);
	snprintf(t->report, sizeof t->report, "%s/%s.json", s->out, t->name);
	snprintf(t->note, sizeof t->note, "%s/%s.note.json", s->out, t->name);
	sweep_sets(s, t->run, t->seed, &t->sets);
	char folder[RUN_PATH_BYTES];
	snprintf(folder, sizeof folder, "%s/tracked/%s", s->out, t->name);
	t->track_count = sweep_track_sets(s, folder, t->name, t->track);
}

/* --- Finished runs */

static struct json *make_note(const struct runner *r, const struct task *t)
{
	struct json *j = json_create();
	if (!j)
		return NULL;
	json_set_text(j, "base", r->sweep->base);
	json_set_text(j, "base_text", r->base_text);
	json_set_empty_list(j, "set");
	for (uint32_t i = 0; i < t->sets.count; i++)
		json_append_text(j, "set", t->sets.items[i]);
	return j;
}

static bool is_same(const struct json *a, const struct json *b)
{
	char *one = json_canonical(a), *other = json_canonical(b);
	const bool same = one && other && strcmp(one, other) == 0;
	free(one);
	free(other);
	return same;
}

static bool is_finished(const struct runner *r, const struct task *t, struct sweep_result *out)
{
	struct json *found = NULL, *wanted = make_note(r, t);
	weir_error ignored = {0};
	const bool noted = wanted && json_read_file(t->note, &found, &ignored) == WEIR_OK && is_same(found, wanted);
	json_destroy(found);
	json_destroy(wanted);
	return noted && sweep_result_read(r->sweep, t->report, out, &ignored) == WEIR_OK;
}

static weir_status remove_file(const char *path, weir_error *err)
{
	if (unlink(path) == 0 || errno == ENOENT)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_IO, "cannot delete %s: %s", path, strerror(errno));
}

static weir_status note_finished(const struct runner *r, const struct task *t, weir_error *err)
{
	struct json *note = make_note(r, t);
	weir_status status = note ? json_write_file(note, t->note, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", t->note);
	json_destroy(note);
	return status;
}

/* --- Running */

/* Returns whether a stop signal came. */
static bool read_signals(struct runner *r, int timeout_ms)
{
	const int signal = sweep_signals_read(&r->signals, -1, timeout_ms);
	if (!signal)
		return false;
	if (r->signals.stop_at_once)
		fprintf(stderr, "%s again: the run is killed\n", strsignal(signal));
	else
		fprintf(stderr, "%s: the run is stopped, and begins anew the next time (once more kills it)\n", strsignal(signal));
	r->outcome->stop_signal = r->signals.stop_signal;
	return true;
}

static weir_status await(struct runner *r, struct supervisor *s, const struct task *t, struct child *c, weir_error *err)
{
	char end[WEIR_ERROR_TEXT_BYTES / 2];
	while (!supervisor_reap(s)) {
		if (read_signals(r, RUN_POLL_MS))
			supervisor_signal(s, CHILD_RUN, r->signals.stop_at_once ? SIGKILL : SIGTERM);
	}
	if (child_succeeded(c))
		return WEIR_OK;
	child_describe_end(c, end, sizeof end);
	return weir_fail(err, WEIR_E_STATE, "run %s, seed %" PRIu64 " %s; its log: %s, and those of its processes: %s/" SWEEP_RUN_DIR,
	                 t->run->name, t->seed, end, c->log_path, r->sweep->out);
}

static void add_arguments(const struct sweep *s, const struct task *t, struct child *c)
{
	const char *const before[] = {"train", s->base, "--fresh", "--report", t->report};
	for (size_t i = 0; i < sizeof before / sizeof *before; i++)
		child_argument(c, before[i]);
	for (uint32_t i = 0; i < t->sets.count; i++) {
		child_argument(c, "--set");
		child_argument(c, t->sets.items[i]);
	}
	for (uint32_t i = 0; i < t->track_count; i++) {
		child_argument(c, "--set");
		child_argument(c, t->track[i]);
	}
}

static weir_status train(struct runner *r, const struct task *t, weir_error *err)
{
	char dir[WEIR_PATH_BYTES_MAX];
	struct supervisor *s = NULL;
	struct child *c = NULL;
	weir_status status = supervisor_own_dir(dir, sizeof dir, err);
	if (status == WEIR_OK)
		status = supervisor_create(&s, dir, r->sweep->out, clock_system(), err);
	if (status == WEIR_OK && !(c = supervisor_add(s, CHILD_RUN, t->name, "weir", err)))
		status = err->status;
	if (status == WEIR_OK) {
		add_arguments(r->sweep, t, c);
		status = child_start(s, c, false, err);
	}
	if (status == WEIR_OK)
		status = await(r, s, t, c, err);
	supervisor_destroy(s);
	return status;
}

/* --- One after the other */

static void tell(const struct runner *r, const struct task *t, const char *what)
{
	const struct sweep_result *x = &r->results[t->number];
	char pushed[16], pulled[16], value[32];
	fprintf(stderr, "[%u/%u] %s, seed %" PRIu64 ": %s", t->number + 1, r->sweep->runs_count * r->sweep->seeds_count, t->run->name,
	        t->seed, what);
	if (x->known) {
		format_bytes(pushed, sizeof pushed, (double)x->bytes_pushed);
		format_bytes(pulled, sizeof pulled, (double)x->bytes_pulled);
		sweep_value_name(r->sweep, value);
		fprintf(stderr, ", %s %.4f, pushed %s, pulled %s, %.1f s of training", value, x->value, pushed, pulled, x->train_s);
	}
	fputc('\n', stderr);
}

/* Keeps the run directory of a failed run for inspection, out of the way of the next run. */
static weir_status put_aside(const struct runner *r, const struct task *t, weir_error *err)
{
	char from[RUN_PATH_BYTES], to[RUN_PATH_BYTES];
	snprintf(from, sizeof from, "%s/" SWEEP_RUN_DIR, r->sweep->out);
	snprintf(to, sizeof to, "%s/%s.failed", r->sweep->out, t->name);
	weir_status status = run_dir_remove(to, err);
	if (status == WEIR_OK && access(from, F_OK) == 0)
		status = disk_system()->ops->rename(disk_system(), from, to, err);
	return status;
}

static weir_status on_failure(struct runner *r, const struct task *t, weir_status status, const weir_error *why)
{
	if (r->outcome->stop_signal)
		return WEIR_OK;
	r->outcome->failed++;
	if (!r->keep_going)
		return weir_fail(r->err, status, "%s", why->text);
	fprintf(stderr, "[%u/%u] FAILED: %s\n", t->number + 1, r->sweep->runs_count * r->sweep->seeds_count, why->text);
	return put_aside(r, t, r->err);
}

static weir_status do_task(struct runner *r, const struct task *t)
{
	struct sweep_result *result = &r->results[t->number];
	weir_error why = {0};
	if (is_finished(r, t, result)) {
		r->outcome->kept++;
		tell(r, t, "kept");
		return WEIR_OK;
	}
	weir_status status = remove_file(t->note, r->err);
	if (status == WEIR_OK)
		status = remove_file(t->report, r->err);
	if (status != WEIR_OK)
		return status;
	tell(r, t, "begun");
	status = train(r, t, &why);
	if (status == WEIR_OK)
		status = sweep_result_read(r->sweep, t->report, result, &why);
	if (status != WEIR_OK)
		return on_failure(r, t, status, &why);
	r->outcome->ran++;
	status = note_finished(r, t, r->err);
	tell(r, t, "finished");
	return status == WEIR_OK ? sweep_results_write(r->sweep, r->results, r->err) : status;
}

static weir_status do_all(struct runner *r)
{
	const uint32_t all = r->sweep->runs_count * r->sweep->seeds_count;
	struct task *t = malloc(sizeof *t); /* its paths are too long for the stack */
	weir_status status = t ? WEIR_OK : weir_fail(r->err, WEIR_E_MEMORY, "no memory for a run");
	fprintf(stderr, "%s: %u run%s with %u seed%s each; results in %s\n", r->sweep->path, r->sweep->runs_count,
	        r->sweep->runs_count > 1 ? "s" : "", r->sweep->seeds_count, r->sweep->seeds_count > 1 ? "s" : "", r->sweep->out);
	for (uint32_t i = 0; i < all && status == WEIR_OK && !r->outcome->stop_signal; i++) {
		make_task(r->sweep, i, t);
		status = do_task(r, t);
		(void)read_signals(r, 0);
	}
	free(t);
	return status == WEIR_OK ? sweep_results_write(r->sweep, r->results, r->err) : status;
}

weir_status sweep_run_all(const struct sweep *s, bool keep_going, struct sweep_result *results, struct sweep_outcome *outcome,
                          weir_error *err)
{
	struct runner r = {
	    .sweep = s, .results = results, .outcome = outcome, .keep_going = keep_going, .signals.fd = -1, .err = err};
	char lock[RUN_PATH_BYTES];
	struct disk *d = disk_system();
	struct disk_file *locked = NULL;
	size_t bytes = 0;
	snprintf(lock, sizeof lock, "%s/LOCK", s->out);
	weir_status status = d->ops->make_dirs(d, s->out, err);
	if (status == WEIR_OK)
		status = d->ops->lock(d, lock, "weir sweep", &locked, err);
	if (status == WEIR_OK)
		status = disk_read_file(d, s->base, WEIR_CONFIG_BYTES_MAX, &r.base_text, &bytes, err);
	if (status == WEIR_OK)
		status = sweep_signals_open(&r.signals, err);
	if (status == WEIR_OK)
		status = do_all(&r);
	sweep_signals_close(&r.signals);
	if (locked)
		d->ops->close(locked);
	free(r.base_text);
	return status;
}
