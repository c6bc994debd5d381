#include "cli/run/run_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli/observe/run_page.h"
#include "cli/observe/status_json.h"
#include "cli/run/git_commit.h"
#include "cli/run/run_begin.h"
#include "common/base/hash.h"
#include "common/system/disk.h"

#define PROVENANCE         "provenance.json"
#define PROVENANCE_VERSION 1u

void run_record_hash(const struct train *t, char out[RUN_RECORD_HASH_BYTES])
{
	const char *text = t->fingerprint.text;
	*out = '\0';
	if (text)
		snprintf(out, RUN_RECORD_HASH_BYTES, "%016llx", (unsigned long long)hash_bytes(text, strlen(text), 0));
}

static struct json *start_json(const struct train *t)
{
	struct json *j = json_create();
	struct utsname host = {0};
	struct tm utc;
	char when[32], commit[GIT_COMMIT_BYTES], hash[RUN_RECORD_HASH_BYTES], folder[WEIR_PATH_BYTES_MAX];
	const time_t now = (time_t)(t->clock->ops->wall_ns(t->clock) / 1000000000);
	strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", gmtime_r(&now, &utc));
	(void)uname(&host);
	json_set_text(j, "at_utc", when);
	json_set_text(j, "weir", WEIR_VERSION);
	json_set_text(j, "verb", t->kind->verb);
	json_set_bool(j, "resumed", t->resume);
	json_set_text(j, "host", host.nodename);
	json_set_text(j, "kernel", host.release);
	json_set_text(j, "machine", host.machine);
	json_set_count(j, "cores", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	if (getcwd(folder, sizeof folder))
		json_set_text(j, "folder", folder);
	if (git_commit(".", commit))
		json_set_text(j, "git_commit", commit);
	json_set_text(j, "job_file", t->options.path);
	json_set_count(j, "seeds.train", t->job->train.seed);
	json_set_count(j, "seeds.data", t->job->data.seed);
	run_record_hash(t, hash);
	json_set_text(j, "fingerprint", hash);
	return j;
}

/* Adds this start to those of the run so far. */
static weir_status write_provenance(const struct train *t, weir_error *err)
{
	char path[RUN_PATH_BYTES];
	struct json *earlier = NULL, *j = json_create();
	weir_error ignored = {0};
	run_path(t->job, PROVENANCE, path);
	if (access(path, F_OK) == 0 && json_read_file(path, &earlier, &ignored) != WEIR_OK)
		earlier = NULL; /* a damaged one is begun anew */
	json_set_count(j, "version", PROVENANCE_VERSION);
	for (size_t i = 0; earlier && i < json_list_length(earlier, "starts"); i++)
		json_append(j, "starts", json_list_get(earlier, "starts", i));
	json_append(j, "starts", start_json(t));
	const weir_status status = j ? json_write_file(j, path, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", path);
	json_destroy(earlier);
	json_destroy(j);
	return status;
}

weir_status run_record_begin(struct train *t, weir_error *err)
{
	char path[RUN_PATH_BYTES];
	weir_status status =
	    job_resolve(t->job_text, t->options.path, t->options.sets.items, t->options.sets.count, &t->resolved, err);
	char *text = status == WEIR_OK ? job_resolved_yaml(&t->resolved) : NULL;
	run_path(t->job, RUN_RESOLVED_FILE, path);
	if (status == WEIR_OK)
		status = text ? disk_write_file(disk_system(), path, text, strlen(text), err)
		              : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", path);
	free(text);
	return status == WEIR_OK ? write_provenance(t, err) : status;
}

void run_record_end(struct train *t)
{
	char path[RUN_PATH_BYTES];
	weir_error why = {0};
	struct json *j = t->seen_any ? status_json(&t->seen) : NULL;
	if (!j)
		return;
	run_path(t->job, RUN_STATUS_FILE, path);
	json_set_text(j, "job", t->job->name);
	if (t->seen.state == JOB_RUNNING || t->seen.state == JOB_EVALUATING)
		json_set_text(j, "state", "stopped");
	report_put_energy(j, &t->energy_used);
	if (json_write_file(j, path, &why) != WEIR_OK)
		progress_line_note(&t->progress, "%s", why.text);
	json_destroy(j);
}
