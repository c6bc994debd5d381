/* weir runs: lists the runs in a folder, and deletes runs. runs_diff.c compares two, runs_tag.c
 * tags one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/verbs.h"
#include "cli/run/job_servers.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_state.h"
#include "cli/verbs/runs_place.h"
#include "common/base/utf8_columns.h"
#include "common/web/json.h"

#define PATH_BYTES RUNS_PATH_BYTES

struct run_entry {
	char name[256];
	const char *state; /* static string */
	uint64_t bytes;
	time_t when; /* last change */
	char result[96];
	char tags[128]; /* "team=ads live=yes", cut; "": none */
};

struct run_list {
	const char *folder;
	struct run_entry *items; /* (count), sorted by name */
	uint32_t count;
	struct option_list tags; /* only runs that have all of these */
};

/* --- One run */

/* Takes the lock that keeps `weir train` out; -1 while a `weir train` holds it. */
static int lock_run(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static const char *state_of(const struct job *job)
{
	struct run_state run;
	weir_error err = {0};
	if (run_dir_is_used(job) || job_servers_check_idle(job, "weir runs", &err) == WEIR_E_BUSY)
		return "running";
	if (run_state_read(job->run_dir, &run, &err) != WEIR_OK)
		return "unreadable";
	if (run.finished)
		return "finished";
	/* a stopped run can be resumed */
	return run_dir_has_data(job) || run.restore[0] ? "stopped" : "ended";
}

/* Measures sizes as allocated on disk, and the latest change of a file. */
static void measure(const char *path, struct run_entry *e)
{
	char *const paths[] = {(char *)(uintptr_t)path, NULL};
	FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	for (FTSENT *at; tree && (at = fts_read(tree));) {
		if (at->fts_info != FTS_F)
			continue;
		e->bytes += (uint64_t)at->fts_statp->st_blocks * 512;
		if (at->fts_statp->st_mtime > e->when)
			e->when = at->fts_statp->st_mtime;
	}
	if (tree)
		fts_close(tree);
}

static void read_result(const char *path, char out[96])
{
	static const char *const parts[] = {"test", "valid"}, *const metrics[] = {"auc", "loss", "logloss"};
	char key[32];
	struct json *j = runs_report(path);
	double value;
	for (size_t p = 0; j && p < 2 && !out[0]; p++)
		for (size_t m = 0; m < sizeof metrics / sizeof *metrics && !out[0]; m++) {
			snprintf(key, sizeof key, "%s.%s", parts[p], metrics[m]);
			if (json_get_real(j, key, &value))
				snprintf(out, 96, "%s %s %.4f", parts[p], metrics[m], value);
		}
	json_destroy(j);
}

static void describe(const char *path, const char *name, struct job *job, struct run_entry *e)
{
	*e = (struct run_entry){0};
	snprintf(e->name, sizeof e->name, "%s", name);
	snprintf(job->name, sizeof job->name, "%.60s", name);
	snprintf(job->run_dir, sizeof job->run_dir, "%.4000s", path);
	e->state = state_of(job);
	measure(path, e);
	read_result(path, e->result);
}

/* --- All runs */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct run_entry *)a)->name, ((const struct run_entry *)b)->name);
}

/* Whether the run has all tags that are asked for. */
static bool is_wanted(const struct run_list *l, const struct json *tags)
{
	bool wanted = true;
	for (uint32_t i = 0; i < l->tags.count; i++)
		wanted &= runs_has_tag(tags, l->tags.items[i]);
	return wanted;
}

static weir_status add(struct run_list *l, const char *path, const char *name, struct job *job, weir_error *err)
{
	struct json *tags = runs_tags(path);
	if (tags && !is_wanted(l, tags)) {
		json_destroy(tags);
		return WEIR_OK;
	}
	struct run_entry *larger = tags ? realloc(l->items, (l->count + 1) * sizeof *larger) : NULL;
	if (!larger) {
		json_destroy(tags);
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a list of runs");
	}
	l->items = larger;
	describe(path, name, job, &l->items[l->count]);
	runs_tags_text(tags, l->items[l->count].tags, sizeof l->items->tags);
	l->count++;
	json_destroy(tags);
	return WEIR_OK;
}

static weir_status find_runs(struct run_list *l, struct job *job, weir_error *err)
{
	char path[PATH_BYTES];
	weir_status status = WEIR_OK;
	DIR *d = opendir(l->folder);
	if (!d)
		return weir_fail(err, errno == ENOENT ? WEIR_E_NOT_FOUND : WEIR_E_IO, "cannot list %s: %s", l->folder, strerror(errno));
	for (const struct dirent *e; status == WEIR_OK && (e = readdir(d));) {
		snprintf(path, sizeof path, "%.4000s/%.255s", l->folder, e->d_name);
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && runs_is_run(path))
			status = add(l, path, e->d_name, job, err);
	}
	closedir(d);
	if (l->count)
		qsort(l->items, l->count, sizeof *l->items, by_name);
	return status;
}

static void format_when(time_t when, char out[32])
{
	struct tm utc;
	strftime(out, 32, "%Y-%m-%d %H:%M", gmtime_r(&when, &utc));
}

static void print_table(const struct run_list *l)
{
	int width = 4;
	for (uint32_t i = 0; i < l->count; i++) {
		const int columns = (int)utf8_columns(l->items[i].name);
		width = columns > width ? columns : width;
	}
	if (l->count)
		printf("%-*s  %-10s  %9s  %-16s  %s\n", width, "run", "state", "size", "last change, UTC", "result");
	for (uint32_t i = 0; i < l->count; i++) {
		const struct run_entry *e = &l->items[i];
		char size[16], when[32];
		format_bytes(size, sizeof size, (double)e->bytes);
		format_when(e->when, when);
		printf("%s%*s  %-10s  %9s  %-16s  %s%s%s\n", e->name, width - (int)utf8_columns(e->name), "", e->state, size, when,
		       e->result[0] ? e->result : "-", e->tags[0] ? "  " : "", e->tags);
	}
}

static weir_status print_json(const struct run_list *l, weir_error *err)
{
	struct json *j = json_create();
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a list of runs");
	json_set_text(j, "folder", l->folder);
	json_set_empty_list(j, "runs");
	for (uint32_t i = 0; i < l->count; i++) {
		const struct run_entry *e = &l->items[i];
		struct json *item = json_create();
		char when[32];
		format_when(e->when, when);
		json_set_text(item, "run", e->name);
		json_set_text(item, "state", e->state);
		json_set_count(item, "bytes", e->bytes);
		json_set_text(item, "last_change_utc", when);
		if (e->result[0])
			json_set_text(item, "result", e->result);
		if (e->tags[0])
			json_set_text(item, "tags", e->tags);
		json_append(j, "runs", item);
	}
	const weir_status status = json_print(j, stdout, err);
	json_destroy(j);
	return status;
}

/* --- Cleaning up */

/* Finds a run by its name, or as a shell completes it: FOLDER/NAME/. NULL: no such run (any
 * more). */
static const struct run_entry *find_run(const struct run_list *l, const char *name)
{
	char path[PATH_BYTES];
	const size_t folder = strlen(l->folder);
	if (strncmp(name, l->folder, folder) == 0 && name[folder] == '/')
		name += folder + strspn(name + folder, "/");
	size_t n = strlen(name);
	while (n > 1 && name[n - 1] == '/')
		n--;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct run_entry *e = &l->items[i];
		snprintf(path, sizeof path, "%.4000s/%.255s", l->folder, e->name);
		if (strlen(e->name) == n && memcmp(e->name, name, n) == 0)
			return runs_is_run(path) ? e : NULL;
	}
	return NULL;
}

/* Deletes a run under its lock, so that no `weir train` starts in it meanwhile. */
static weir_status delete_run(const struct run_list *l, const char *name, struct job *job, weir_error *err)
{
	char path[PATH_BYTES], size[16];
	const struct run_entry *e = find_run(l, name);
	weir_error why = {0};
	if (!e)
		return weir_fail(err, WEIR_E_NOT_FOUND, "--delete: %s holds no run %s; `weir runs %s` lists them", l->folder, name,
		                 l->folder);
	snprintf(path, sizeof path, "%.4000s/%.255s", l->folder, e->name);
	snprintf(job->run_dir, sizeof job->run_dir, "%.4000s", path);
	const int lock = lock_run(path);
	if (lock < 0 || job_servers_check_idle(job, "weir runs", &why) != WEIR_OK) {
		if (lock >= 0)
			close(lock);
		return weir_fail(err, WEIR_E_BUSY, "--delete: run %s is not deleted, it runs%s%s", e->name, why.text[0] ? ": " : "",
		                 why.text);
	}
	const weir_status status = run_dir_remove(path, err);
	close(lock);
	format_bytes(size, sizeof size, (double)e->bytes);
	if (status == WEIR_OK)
		printf("%s: deleted, %s\n", path, size);
	return status;
}

static weir_status run(struct run_list *l, const struct option_list *deletes, bool as_json, weir_error *err)
{
	struct job *job = calloc(1, sizeof *job);
	weir_status status = job ? find_runs(l, job, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for a list of runs");
	for (uint32_t i = 0; i < deletes->count && status == WEIR_OK; i++)
		status = delete_run(l, deletes->items[i], job, err);
	if (status == WEIR_OK && deletes->count == 0) {
		if (as_json)
			status = print_json(l, err);
		else
			print_table(l);
		if (l->count == 0 && !as_json)
			fprintf(stderr, "%s holds no runs\n", l->folder);
	}
	free(job);
	return status;
}

int verb_runs(int count, char **args)
{
	struct run_list l = {.folder = RUNS_FOLDER};
	struct option_list deletes = {0};
	bool as_json = false;
	const char *words[RUNS_WORDS_MAX + 1] = {0}, *svg = NULL;
	weir_error err = {0};
	const struct option options[] = {
	    {"--json", OPTION_FLAG, &as_json, NULL, "as JSON"},
	    {"--delete", OPTION_LIST, &deletes, "RUN",
	     "delete that run with all its files, unless it runs; may be given again and again"},
	    {"--tag", OPTION_LIST, &l.tags, "KEY[=VALUE]", "list only runs with this tag; may be given again and again"},
	    {"--svg", OPTION_TEXT, &svg, "FILE.svg", "diff: draw both training losses there"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, words, RUNS_WORDS_MAX, &err);
	const bool diffs = words[0] && strcmp(words[0], "diff") == 0, tags = words[0] && strcmp(words[0], "tag") == 0;
	if (status == WEIR_OK && svg && !diffs)
		status = weir_fail(&err, WEIR_E_INVALID, "--svg is of `weir runs diff`");
	if (status == WEIR_OK && !diffs && !tags && words[1])
		status = weir_fail(&err, WEIR_E_INVALID, "did not expect '%s'", words[1]);
	if (status != WEIR_OK)
		return verb_usage("runs", &err);
	if (diffs)
		return runs_diff(words + 1, svg, as_json);
	if (tags)
		return runs_tag(words + 1);
	l.folder = words[0] ? words[0] : l.folder;
	status = run(&l, &deletes, as_json, &err);
	free(l.items);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("runs", &err);
}
