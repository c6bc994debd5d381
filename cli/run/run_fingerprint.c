#include "cli/run/run_fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/system/disk.h"

#define RUN_FINGERPRINT_VERSION 1u

static void path_in(const char *run_dir, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/fingerprint.json", run_dir);
}

/* Reads the file; *out stays NULL if it does not exist. */
static weir_status read_file(const char *run_dir, struct json **out, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	uint64_t version = 0;
	path_in(run_dir, path);
	if (access(path, F_OK) != 0)
		return WEIR_OK;
	const weir_status status = json_read_file(path, out, err);
	if (status != WEIR_OK)
		return status;
	const char *text = json_get_text(*out, "fingerprint");
	if (json_get_count(*out, "version", &version) && version > RUN_FINGERPRINT_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s is of version %llu, this program knows %u: use a newer one", path,
		                 (unsigned long long)version, RUN_FINGERPRINT_VERSION);
	return text && fingerprint_is_valid(text)
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_CORRUPT, "%s: expected a fingerprint, lines KEY=VALUE", path);
}

/* units: omitted if 0. before: the differences accepted earlier, or NULL. now: those accepted now,
 * or NULL. */
static weir_status write_file(const char *run_dir, const char *fingerprint, uint64_t units, const struct json *before,
                              const struct accepted *now, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	struct json *j = json_create();
	path_in(run_dir, path);
	json_set_count(j, "version", RUN_FINGERPRINT_VERSION);
	json_set_text(j, "fingerprint", fingerprint);
	if (units)
		json_set_count(j, "units", units);
	for (size_t i = 0; before && i < json_list_length(before, "accepted"); i++)
		json_append(j, "accepted", json_list_get(before, "accepted", i));
	if (now)
		accepted_put(now, j);
	const weir_status status = j ? json_write_file(j, path, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", path);
	json_destroy(j);
	return status;
}

weir_status run_fingerprint_begin(const char *run_dir, const char *fingerprint, uint32_t units, weir_error *err)
{
	return write_file(run_dir, fingerprint, units, NULL, NULL, err);
}

weir_status run_fingerprint_restore(const char *run_dir, const char *fingerprint, uint32_t units, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	struct disk *d = disk_system();
	path_in(run_dir, path);
	if (fingerprint)
		return write_file(run_dir, fingerprint, units, NULL, NULL, err);
	return access(path, F_OK) == 0 ? d->ops->remove(d, path, err) : WEIR_OK;
}

weir_status run_fingerprint_check(const char *run_dir, const char *fingerprint, uint32_t units, struct accepted *a,
                                  weir_error *err)
{
	char what[WEIR_ERROR_TEXT_BYTES / 3];
	struct json *kept = NULL;
	uint64_t cut = 0;
	weir_status status = read_file(run_dir, &kept, err);
	snprintf(what, sizeof what, "--resume: the run in %.200s was begun otherwise", run_dir);
	if (status == WEIR_OK && kept)
		status = accepted_compare(
		    a, &(struct fingerprint_comparison){.was = json_get_text(kept, "fingerprint"), .is = fingerprint, .what = what}, err);
	else if (status == WEIR_OK)
		fprintf(stderr, "the run in %s has no fingerprint: whether the job is still the same is not known\n", run_dir);
	if (status == WEIR_OK && kept && json_get_count(kept, "units", &cut) && units && cut != units)
		status = weir_fail(
		    err, WEIR_E_INVALID,
		    "--resume: the data are cut into %u work units, and those of the run in %.200s into %llu: --accept takes data only "
		    "where they are cut into as many",
		    units, run_dir, (unsigned long long)cut);
	json_destroy(kept);
	return status;
}

weir_status run_fingerprint_resume(const char *run_dir, const char *fingerprint, const struct accepted *a, weir_error *err)
{
	struct json *kept = NULL;
	uint64_t units = 0;
	weir_status status = read_file(run_dir, &kept, err);
	(void)(kept && json_get_count(kept, "units", &units));
	char *joined = status == WEIR_OK ? fingerprint_join(kept ? json_get_text(kept, "fingerprint") : "", fingerprint) : NULL;
	if (status == WEIR_OK && !joined)
		status = weir_fail(err, WEIR_E_MEMORY, "no memory for the run's fingerprint");
	if (status == WEIR_OK)
		status = write_file(run_dir, joined, units, kept, a, err);
	free(joined);
	json_destroy(kept);
	return status;
}

struct json *run_fingerprint_accepted(const char *run_dir)
{
	struct json *kept = NULL;
	weir_error ignored = {0};
	if (read_file(run_dir, &kept, &ignored) == WEIR_OK && kept && json_list_length(kept, "accepted") > 0)
		return kept;
	json_destroy(kept);
	return NULL;
}
