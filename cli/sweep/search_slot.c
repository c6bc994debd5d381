#include "cli/sweep/search_slot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/checkpoint_find.h"
#include "cli/run/checkpoint_fork.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_state.h"
#include "cli/sweep/sweep_track.h"
#include "common/system/disk.h"

enum { SLOT_PATH_BYTES = WEIR_PATH_BYTES_MAX + 128, KEPT_CHECKPOINTS = 2 };

enum stage { STAGE_FREE, STAGE_RESTORE, STAGE_TRAIN };

struct search_slot {
	struct search_slot_options options;
	struct search_segment segment;
	struct segment_outcome outcome; /* of the seeds so far */
	uint32_t seed;                  /* the one that runs, by number */
	enum stage stage;
	struct supervisor *supervisor; /* of the process that runs */
	struct child *child;
	char run_dir[WEIR_PATH_BYTES_MAX], report[SLOT_PATH_BYTES], name[WEIR_NAME_BYTES_MAX];
	search_settings settings;
	char own[SEARCH_OWN_SETS][SLOT_PATH_BYTES];
	sweep_track_texts track;
	struct option_list sets; /* of the job, the trial, and the slot */
	struct job *job;
};

struct search_slot *search_slot_create(const struct search_slot_options *options)
{
	struct search_slot *s = calloc(1, sizeof *s);
	if (s) {
		s->options = *options;
		snprintf(s->run_dir, sizeof s->run_dir, "%s/slot-%u", options->sweep->out, options->number);
	}
	return s;
}

static void leave(struct search_slot *s)
{
	supervisor_destroy(s->supervisor);
	job_destroy(s->job);
	s->supervisor = NULL;
	s->job = NULL;
	s->stage = STAGE_FREE;
}

void search_slot_destroy(struct search_slot *s)
{
	if (s)
		leave(s);
	free(s);
}

const struct search_segment *search_slot_segment(const struct search_slot *s)
{
	return s->stage == STAGE_FREE ? NULL : &s->segment;
}

void search_slot_signal(struct search_slot *s, int signal)
{
	if (s->supervisor)
		supervisor_signal(s->supervisor, CHILD_RUN, signal);
}

/* --- Names */

static void trial_dir(const struct search_slot *s, uint32_t trial, uint32_t seed, char out[SLOT_PATH_BYTES])
{
	snprintf(out, SLOT_PATH_BYTES, "%s/trials/%04u-%" PRIu64, s->options.sweep->out, trial, s->options.sweep->seeds[seed]);
}

static uint64_t seed_of(const struct search_slot *s)
{
	return s->options.sweep->seeds[s->seed];
}

uint32_t search_settings_of(const struct sweep *s, const struct space_point *p, search_settings out)
{
	const struct space *space = &s->search->options.space;
	uint32_t count = 0;
	for (uint32_t i = 0; i < space->count; i++) {
		const size_t bytes = sizeof out[count];
		if (isnan(p->x[i]))
			continue;
		const int n = snprintf(out[count], bytes, "%.*s=", (int)bytes / 2, space->dims[i].key);
		space_text(&space->dims[i], p->x[i], out[count] + n, bytes - (size_t)n);
		count++;
	}
	return count;
}

static void add_set(struct search_slot *s, const char *text)
{
	s->sets.items[s->sets.count++] = text;
}

/* Gathers the settings of the seed that runs, and loads its job. */
static weir_status load_job(struct search_slot *s, weir_error *err)
{
	const struct sweep *sweep = s->options.sweep;
	const uint32_t count = search_settings_of(sweep, &s->segment.point, s->settings);
	char dir[SLOT_PATH_BYTES];
	uint32_t own = 0;
	trial_dir(s, s->segment.trial, s->seed, dir);
	s->sets.count = 0;
	for (uint32_t i = 0; i < sweep->all.sets_count; i++)
		add_set(s, sweep->all.sets[i]);
	for (uint32_t i = 0; i < count; i++)
		add_set(s, s->settings[i]);
	snprintf(s->own[own++], sizeof *s->own, "run_dir=%s", s->run_dir);
	snprintf(s->own[own++], sizeof *s->own, "checkpoint.dir=%.*s/checkpoints", (int)WEIR_PATH_BYTES_MAX, dir);
	snprintf(s->own[own++], sizeof *s->own, "checkpoint.keep=%u", KEPT_CHECKPOINTS);
	snprintf(s->own[own++], sizeof *s->own, "train.seed=%" PRIu64, seed_of(s));
	snprintf(s->own[own++], sizeof *s->own, "train.passes=%u", s->segment.until);
	if (s->options.threads)
		snprintf(s->own[own++], sizeof *s->own, "train.threads=%u", s->options.threads);
	for (uint32_t i = 0; i < own; i++)
		add_set(s, s->own[i]);
	snprintf(s->name, sizeof s->name, "trial-%04u-%" PRIu64, s->segment.trial, seed_of(s));
	const uint32_t tracked = sweep_track_sets(sweep, dir, s->name, s->track);
	for (uint32_t i = 0; i < tracked; i++)
		add_set(s, s->track[i]);
	job_destroy(s->job);
	s->job = NULL;
	snprintf(s->report, sizeof s->report, "%.*s/pass-%u.json", (int)WEIR_PATH_BYTES_MAX, dir, s->segment.until);
	snprintf(s->name, sizeof s->name, "trial-%04u-%" PRIu64 "-pass-%u", s->segment.trial, seed_of(s), s->segment.until);
	weir_status status = disk_system()->ops->make_dirs(disk_system(), dir, err);
	return status == WEIR_OK ? job_options_load(&(struct job_options){.path = sweep->base, .sets = s->sets}, &s->job, err)
	                         : status;
}

/* --- The run directory */

static void marker_path(const struct search_slot *s, char out[SLOT_PATH_BYTES])
{
	snprintf(out, SLOT_PATH_BYTES, "%s/segment.json", s->run_dir);
}

/* Whether the run directory was set up for this segment, and one of its seeds. */
static bool is_marked(const struct search_slot *s, const struct search_segment *g, uint64_t *seed)
{
	char path[SLOT_PATH_BYTES];
	struct json *j = NULL;
	weir_error ignored = {0};
	uint64_t trial = 0, until = 0;
	marker_path(s, path);
	const bool same = json_read_file(path, &j, &ignored) == WEIR_OK && json_get_count(j, "trial", &trial) && trial == g->trial &&
	                  json_get_count(j, "until", &until) && until == g->until && json_get_count(j, "seed", seed);
	json_destroy(j);
	return same;
}

bool search_slot_holds(const struct search_slot *s, const struct search_segment *g)
{
	uint64_t seed;
	return is_marked(s, g, &seed);
}

static weir_status mark(const struct search_slot *s, weir_error *err)
{
	char path[SLOT_PATH_BYTES];
	struct json *j = json_create();
	marker_path(s, path);
	json_set_count(j, "trial", s->segment.trial);
	json_set_count(j, "until", s->segment.until);
	json_set_count(j, "seed", seed_of(s));
	const weir_status status = j ? json_write_file(j, path, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", path);
	json_destroy(j);
	return status;
}

/* Whether `weir train --resume` goes on with what an earlier search began. */
static bool can_resume(const struct search_slot *s)
{
	struct run_state run;
	weir_error ignored = {0};
	uint64_t seed;
	if (!is_marked(s, &s->segment, &seed) || seed != seed_of(s) || run_state_read(s->run_dir, &run, &ignored) != WEIR_OK)
		return false;
	return run_dir_has_data(s->job) ? s->job->cluster.log == JOB_LOG_DISK : run.restore[0] && run.servers == 0;
}

struct cleaning {
	const char *dir;
	weir_error *err;
};

static weir_status remove_unless_data(void *arg, const char *name)
{
	const struct cleaning *c = arg;
	char path[SLOT_PATH_BYTES + WEIR_NAME_BYTES_MAX];
	if (strcmp(name, "cache") == 0 || strncmp(name, "generated.", 10) == 0)
		return WEIR_OK;
	snprintf(path, sizeof path, "%s/%s", c->dir, name);
	return run_dir_remove(path, c->err);
}

/* Removes all but the data, the mark of the former segment first. */
static weir_status clean(const struct search_slot *s, weir_error *err)
{
	char path[SLOT_PATH_BYTES];
	struct disk *d = disk_system();
	struct cleaning c = {s->run_dir, err};
	marker_path(s, path);
	weir_status status = d->ops->make_dirs(d, s->run_dir, err);
	if (status == WEIR_OK)
		status = run_dir_remove(path, err);
	return status == WEIR_OK ? d->ops->list(d, s->run_dir, remove_unless_data, &c, err) : status;
}

/* --- Processes */

/* Starts `weir VERB BASE WORDS --set ...`. words: NULL-terminated. */
static weir_status start(struct search_slot *s, enum stage stage, const char *verb, const char *const *words, weir_error *err)
{
	char dir[WEIR_PATH_BYTES_MAX];
	supervisor_destroy(s->supervisor);
	s->supervisor = NULL;
	weir_status status = supervisor_own_dir(dir, sizeof dir, err);
	if (status == WEIR_OK)
		status = supervisor_create(&s->supervisor, dir, s->options.sweep->out, clock_system(), err);
	if (status == WEIR_OK && !(s->child = supervisor_add(s->supervisor, CHILD_RUN, s->name, "weir", err)))
		status = err->status;
	if (status != WEIR_OK)
		return status;
	child_argument(s->child, verb);
	child_argument(s->child, s->options.sweep->base);
	for (; *words; words++)
		child_argument(s->child, *words);
	for (uint32_t i = 0; i < s->sets.count; i++) {
		child_argument(s->child, "--set");
		child_argument(s->child, s->sets.items[i]);
	}
	s->stage = stage;
	return child_start(s->supervisor, s->child, false, err);
}

static weir_status train(struct search_slot *s, const char *how, weir_error *err)
{
	const char *const words[] = {how, "--checkpoint-at-end", "--report", s->report, NULL};
	return start(s, STAGE_TRAIN, "train", words, err);
}

/* Copies the checkpoint of the trial that this one takes over. */
static weir_status fork_from(struct search_slot *s, const char *checkpoint, weir_error *err)
{
	char from[SLOT_PATH_BYTES], path[2 * SLOT_PATH_BYTES], name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	trial_dir(s, s->segment.source, s->seed, from);
	snprintf(path, sizeof path, "%s/checkpoints/%s", from, checkpoint);
	const weir_status status = run_dir_remove(s->job->checkpoint.dir, err);
	return status == WEIR_OK ? checkpoint_fork(s->job, path, NULL, 0, name, err) : status;
}

static weir_status restore(struct search_slot *s, const struct trial_step *source, weir_error *err)
{
	const char *name = source->checkpoints[s->seed];
	const weir_status status = s->segment.source == s->segment.trial ? WEIR_OK : fork_from(s, name, err);
	const char *const words[] = {"--from", name, NULL};
	return status == WEIR_OK ? start(s, STAGE_RESTORE, "restore", words, err) : status;
}

/* Begins the segment for the seed from its checkpoint, or from nothing. */
static weir_status begin_anew(struct search_slot *s, weir_error *err)
{
	const struct trial_step *source = search_book_source(s->options.book, &s->segment);
	weir_status status = clean(s, err);
	if (status != WEIR_OK)
		return status;
	if (source)
		return restore(s, source, err);
	status = run_dir_remove(s->job->checkpoint.dir, err);
	if (status == WEIR_OK)
		status = mark(s, err);
	return status == WEIR_OK ? train(s, "--fresh", err) : status;
}

static bool is_reported(const struct search_slot *s)
{
	struct json *report = NULL;
	weir_error ignored = {0};
	const bool there = access(s->report, F_OK) == 0 && json_read_file(s->report, &report, &ignored) == WEIR_OK &&
	                   json_get_bool(report, "finished");
	json_destroy(report);
	return there;
}

/* Adds the seed's report and checkpoint to the outcome. */
static weir_status take_report(struct search_slot *s, weir_error *err)
{
	struct json *report = NULL;
	weir_status status = json_read_file(s->report, &report, err);
	if (status == WEIR_OK)
		status = segment_measure(s->options.sweep, report, s->report, s->segment.until, s->options.sweep->seeds_count,
		                         &s->outcome, err);
	json_destroy(report);
	return status == WEIR_OK ? checkpoint_find_latest(s->job, s->outcome.checkpoints[s->seed], err) : status;
}

/* Begins the segment for the next seeds. Those that an earlier search finished have their reports.
 * *ended: no seed is left. */
static weir_status begin_seed(struct search_slot *s, bool *ended, weir_error *err)
{
	*ended = false;
	for (; s->seed < s->options.sweep->seeds_count; s->seed++) {
		weir_status status = load_job(s, err);
		if (status != WEIR_OK)
			return status;
		if (!is_reported(s))
			return can_resume(s) ? train(s, "--resume", err) : begin_anew(s, err);
		status = take_report(s, err);
		if (status != WEIR_OK)
			return status;
	}
	*ended = true;
	return WEIR_OK;
}

/* --- The segment */

static weir_status fail_child(const struct search_slot *s, weir_error *err)
{
	char end[WEIR_ERROR_TEXT_BYTES / 2];
	child_describe_end(s->child, end, sizeof end);
	return weir_fail(err, WEIR_E_STATE, "weir %s %s; its log: %s", s->stage == STAGE_RESTORE ? "restore" : "train", end,
	                 s->child->log_path);
}

/* Goes on after a process that has ended. */
static weir_status go_on(struct search_slot *s, bool *ended, weir_error *err)
{
	if (!child_succeeded(s->child)) {
		unlink(s->report); /* it may call a run finished whose checkpoint failed */
		return fail_child(s, err);
	}
	if (s->stage == STAGE_RESTORE) {
		const weir_status status = mark(s, err);
		return status == WEIR_OK ? train(s, "--resume", err) : status;
	}
	const weir_status status = take_report(s, err);
	s->seed++;
	return status == WEIR_OK ? begin_seed(s, ended, err) : status;
}

void search_slot_put_aside(const struct search_slot *s)
{
	char to[SLOT_PATH_BYTES];
	struct disk *d = disk_system();
	weir_error why = {0};
	snprintf(to, sizeof to, "%s/trial-%04u.failed", s->options.sweep->out, s->segment.trial);
	if (run_dir_remove(to, &why) != WEIR_OK || d->ops->rename(d, s->run_dir, to, &why) != WEIR_OK)
		fprintf(stderr, "%s\n", why.text);
}

weir_status search_slot_begin(struct search_slot *s, const struct search_segment *g, weir_error *err)
{
	s->segment = *g;
	s->outcome = (struct segment_outcome){0};
	s->seed = 0;
	s->stage = STAGE_TRAIN;
	bool ended = false;
	const weir_status status = begin_seed(s, &ended, err);
	if (status != WEIR_OK)
		leave(s);
	return status;
}

weir_status search_slot_poll(struct search_slot *s, bool *ended, struct segment_outcome *out, weir_error *err)
{
	weir_status status = WEIR_OK;
	*ended = s->seed == s->options.sweep->seeds_count;
	if (!*ended && supervisor_reap(s->supervisor))
		status = go_on(s, ended, err);
	if (status == WEIR_OK && !*ended)
		return WEIR_OK;
	*ended = true;
	*out = s->outcome;
	leave(s);
	return status;
}
