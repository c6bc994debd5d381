/* Reads a job: reads texts, stores values, and checks them together. Also finds the nearest word
 * for error messages. */
#include "common/job/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/job/job_read.h"
#include "common/system/disk.h"

/* Memory for the texts of one file: the file, its items rounded to the arena's alignment, and the
 * expansions of ${NAME}. */
#define ARENA_BYTES_MAX (64u * (size_t)WEIR_CONFIG_BYTES_MAX)

void job_server_dir(const struct job *job, uint32_t index, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/server-%u", job->run_dir, index);
}

void job_server_mark(const struct job *job, uint32_t index, char out[WEIR_PATH_BYTES_MAX + 32])
{
	snprintf(out, WEIR_PATH_BYTES_MAX + 32, "%s/server-%u.mark", job->run_dir, index);
}

bool job_monitor_address(const struct job *job, uint32_t place, char out[WEIR_ADDRESS_BYTES_MAX])
{
	const uint32_t port = job->metrics.port + (job->cluster.servers_at_count ? 0 : place);
	/* an IPv6 address without brackets */
	const bool bare = strchr(job->metrics.host, ':') && job->metrics.host[0] != '[';
	snprintf(out, WEIR_ADDRESS_BYTES_MAX, bare ? "[%.200s]:%u" : "%.200s:%u", job->metrics.host, port);
	return job->metrics.port > 0;
}

/* Replaces each "{role}" in `path` by the role's name, which is never longer. */
static void with_role(const char *path, const char *role, char out[WEIR_PATH_BYTES_MAX])
{
	static const char place[] = "{role}";
	size_t n = 0;
	for (const char *at; (at = strstr(path, place)); path = at + strlen(place))
		n += (size_t)snprintf(out + n, WEIR_PATH_BYTES_MAX - n, "%.*s%s", (int)(at - path), path, role);
	snprintf(out + n, WEIR_PATH_BYTES_MAX - n, "%s", path);
}

void job_security(const struct job *job, enum peer_role role, struct job_security *out)
{
	char name[PEER_ROLES_BYTES];
	peer_roles(role, name);
	with_role(job->security.certificate, name, out->certificate);
	with_role(job->security.key, name, out->key);
	with_role(job->security.ca, name, out->ca);
	out->is = (weir_security){.certificate = out->certificate,
	                          .key = out->key,
	                          .ca = out->ca,
	                          .job = job->name,
	                          .reload_s = job->security.reload_s,
	                          .insecure = job->security.insecure};
}

enum peer_role job_evaluator_role(const struct job *job)
{
	struct job_security security;
	job_security(job, ROLE_EVALUATOR, &security);
	return access(security.certificate, F_OK) == 0 ? ROLE_EVALUATOR : ROLE_WORKER;
}

weir_status job_check_own(const struct job *job, weir_error *err)
{
	if (!job->foreign)
		return WEIR_OK;
	return weir_fail(
	    err, WEIR_E_INVALID,
	    "job %s: data.train: missing; expected a file, a glob or a list of them (or data.generate.rows). Without data "
	    "and model, `weir up` starts its servers, and `weir launch` trainers of your own",
	    job->name);
}

bool job_asks(const struct job *job, const char *key)
{
	for (uint32_t i = 0; i < job->asks.count; i++)
		if (strcmp(job->asks.keys[i], key) == 0)
			return true;
	return false;
}

weir_status job_check_planned(const struct job *job, weir_error *err)
{
	if (job->asks.count == 0)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_STATE,
	                 "job %s: %s is auto, and nobody has planned it: `weir train` does when it begins a run, and `weir plan` "
	                 "prints what to write instead",
	                 job->name, job->asks.keys[0]);
}

uint32_t job_server_patience_ms(const struct job *job)
{
	return job->cluster.log == JOB_LOG_DISK || job->cluster.replicas > 1 ? WEIR_SERVER_PATIENCE_MS : WEIR_STALL_PATIENCE_MS;
}

uint32_t job_ledger_places_count(const struct job *job)
{
	return job->cluster.replicas > 1 ? job->cluster.servers : 1;
}

bool job_ledger_places(const struct job *job, char out[JOB_PLACES_BYTES])
{
	size_t used = 0;
	out[0] = '\0';
	for (uint32_t i = 0; i < job_ledger_places_count(job) && i < job->cluster.servers_at_count; i++)
		used += (size_t)snprintf(out + used, JOB_PLACES_BYTES - used, "%s%s", i ? "," : "", job->cluster.servers_at[i]);
	return used > 0;
}

/* resolved: NULL, or what the keys come to. It is taken before the checks, which put the meaning of
 * some values in their place. */
static weir_status parse(struct reading *r, const char *text, const char *const *sets, uint32_t sets_count, struct job *job,
                         struct job_resolved *resolved)
{
	weir_status status = job_read_yaml(r, text);
	if (status == WEIR_OK)
		status = job_read_sets(r, sets, sets_count);
	if (status == WEIR_OK)
		status = job_read_defaults(r);
	if (status == WEIR_OK)
		status = job_value_store_all(r, job);
	if (status == WEIR_OK && resolved)
		status = job_resolved_take(r, job, resolved);
	r->checking = true;
	if (status == WEIR_OK)
		status = job_check(r, job);
	const struct job_mistakes *m = r->mistakes;
	if (status == WEIR_E_MEMORY || m->count == 0)
		return status;
	const char *more = m->count == 2 ? " (and one more mistake)" : m->count > 2 ? " (and more mistakes)" : "";
	return weir_fail(r->err, m->kept[0].error.status, "%s%s", m->kept[0].error.text, more);
}

static weir_status parse_all(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                             struct job_resolved *resolved, struct job_mistakes *mistakes, weir_error *err)
{
	struct reading *r = calloc(1, sizeof *r);
	struct job *job = calloc(1, sizeof *job);
	struct arena *arena = arena_create(ARENA_BYTES_MAX);
	weir_status status = WEIR_E_MEMORY;
	mistakes->count = 0;
	if (r && job && arena) {
		r->name = name;
		r->arena = arena;
		r->err = err;
		r->mistakes = mistakes;
		status = parse(r, text, sets, sets_count, job, resolved);
	} else {
		weir_fail(err, status, "%s: out of memory", name);
	}
	arena_destroy(arena);
	free(r);
	if (status != WEIR_OK) {
		if (resolved)
			job_resolved_destroy(resolved);
		job_destroy(job);
		return status;
	}
	*out = job;
	return WEIR_OK;
}

weir_status job_parse_all(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                          struct job_mistakes *mistakes, weir_error *err)
{
	return parse_all(text, name, sets, sets_count, out, NULL, mistakes, err);
}

/* As parse_all; the first mistake is the error. */
static weir_status parse_first(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                               struct job_resolved *resolved, weir_error *err)
{
	weir_error unread = {0};
	struct job_mistakes *mistakes = malloc(sizeof *mistakes);
	err = err ? err : &unread;
	const weir_status status = mistakes ? parse_all(text, name, sets, sets_count, out, resolved, mistakes, err)
	                                    : weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", name);
	free(mistakes);
	return status;
}

weir_status job_parse(const char *text, const char *name, const char *const *sets, uint32_t sets_count, struct job **out,
                      weir_error *err)
{
	return parse_first(text, name, sets, sets_count, out, NULL, err);
}

weir_status job_resolve(const char *text, const char *name, const char *const *sets, uint32_t sets_count,
                        struct job_resolved *out, weir_error *err)
{
	struct job *job = NULL;
	*out = (struct job_resolved){0};
	const weir_status status = parse_first(text, name, sets, sets_count, &job, out, err);
	job_destroy(job);
	return status;
}

weir_status job_resolve_file(const char *path, struct job_resolved *out, weir_error *err)
{
	char *text = NULL;
	size_t bytes;
	*out = (struct job_resolved){0};
	weir_status status = job_read_file(path, &text, &bytes, err);
	if (status == WEIR_OK)
		status = job_resolve(text, path, NULL, 0, out, err);
	free(text);
	return status;
}

/* Reads a pipe, which cannot be read twice and has no size. */
static weir_status read_pipe(FILE *from, const char *path, char **out, size_t *bytes, weir_error *err)
{
	char *text = malloc(WEIR_CONFIG_BYTES_MAX + 1);
	*bytes = text ? fread(text, 1, WEIR_CONFIG_BYTES_MAX + 1, from) : 0;
	weir_status status = WEIR_OK;
	if (!text)
		status = weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	else if (ferror(from))
		status = weir_fail(err, WEIR_E_IO, "cannot read %s: %s", path, strerror(errno));
	else if (*bytes > WEIR_CONFIG_BYTES_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "%s has more than %u bytes, the limit of a job file", path, WEIR_CONFIG_BYTES_MAX);
	if (status != WEIR_OK) {
		free(text);
		return status;
	}
	text[*bytes] = '\0';
	*out = text;
	return WEIR_OK;
}

weir_status job_read_file(const char *path, char **out, size_t *bytes, weir_error *err)
{
	if (!job_file_is_piped(path))
		return disk_read_file(disk_system(), path, WEIR_CONFIG_BYTES_MAX, out, bytes, err);
	FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (!from)
		return weir_fail(err, WEIR_E_IO, "cannot open %s: %s", path, strerror(errno));
	const weir_status status = read_pipe(from, path, out, bytes, err);
	if (from != stdin)
		fclose(from);
	return status;
}

bool job_file_is_piped(const char *path)
{
	struct stat st;
	if (strcmp(path, "-") == 0 || strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0)
		return true;
	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static weir_status parse_bytes(const char *text, size_t bytes, const char *path, const char *const *sets, uint32_t sets_count,
                               struct job **out, struct job_mistakes *mistakes, weir_error *err)
{
	const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
	if (strlen(text) != bytes)
		return weir_fail(err, WEIR_E_PARSE, "%s: a zero byte at offset %zu: this is not a YAML text", name, strlen(text));
	return mistakes ? job_parse_all(text, name, sets, sets_count, out, mistakes, err)
	                : job_parse(text, name, sets, sets_count, out, err);
}

weir_status job_load_all(const char *path, const char *const *sets, uint32_t sets_count, struct job **out, char **text,
                         struct job_mistakes *mistakes, weir_error *err)
{
	size_t bytes;
	mistakes->count = 0;
	weir_status status = job_read_file(path, text, &bytes, err);
	if (status != WEIR_OK)
		return status;
	status = parse_bytes(*text, bytes, path, sets, sets_count, out, mistakes, err);
	if (status != WEIR_OK) {
		free(*text);
		*text = NULL;
	}
	return status;
}

weir_status job_load(const char *path, const char *const *sets, uint32_t sets_count, struct job **out, weir_error *err)
{
	char *text;
	size_t bytes;
	weir_status status = job_read_file(path, &text, &bytes, err);
	if (status != WEIR_OK)
		return status;
	status = parse_bytes(text, bytes, path, sets, sets_count, out, NULL, err);
	free(text);
	return status;
}

void job_destroy(struct job *job)
{
	if (!job)
		return;
	job_value_free_all(job);
	free(job);
}

/* Edit distance: optimal string alignment (Damerau 1964, no substring edited twice) over the first
 * DISTANCE_BYTES_MAX bytes of each word. */
#define DISTANCE_BYTES_MAX 64u

static uint32_t distance(const char *a, const char *b)
{
	uint32_t row[3][DISTANCE_BYTES_MAX + 1]; /* row i % 3 for prefixes of a of i bytes */
	uint32_t na = (uint32_t)strnlen(a, DISTANCE_BYTES_MAX), nb = (uint32_t)strnlen(b, DISTANCE_BYTES_MAX);
	for (uint32_t j = 0; j <= nb; j++)
		row[0][j] = j;
	for (uint32_t i = 1; i <= na; i++) {
		uint32_t *now = row[i % 3], *before = row[(i + 2) % 3], *two_before = row[(i + 1) % 3];
		now[0] = i;
		for (uint32_t j = 1; j <= nb; j++) {
			uint32_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
			if (before[j] + 1 < best)
				best = before[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_before[j - 2] + 1 < best)
				best = two_before[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[na % 3][nb];
}

/* Whether the split gives a part: by time its beginning, else its share. */
static bool splits_off(const struct job *job, uint32_t share, const char *from)
{
	return job->data.split.by == SPLIT_TIME ? *from : job->data.split.by != SPLIT_NONE && share > 0;
}

bool job_has_valid(const struct job *job)
{
	return job->data.valid_count > 0 || splits_off(job, job->data.split.valid, job->data.split.valid_from);
}

bool job_has_test(const struct job *job)
{
	return job->data.test_count > 0 || splits_off(job, job->data.split.test, job->data.split.test_from);
}

uint32_t job_best_task(const struct job *job)
{
	uint32_t task = 0;
	const struct job_column *label;
	while ((label = job_column_label(job, task)) != NULL && strcmp(label->name, job->train.best_task) != 0)
		task++;
	return label ? task : 0;
}

enum eval_metric job_best_by(const struct job *job)
{
	return job->train.best_by == METRIC_OF_EARLY_STOP ? job->train.early_stop.metric : job->train.best_by;
}

bool job_is_language(const struct job *job)
{
	return model_kind_row(job->model.kind)->reads != READS_CLICKS;
}

bool job_is_transformer(const struct job *job)
{
	return model_kind_has(job->model.kind, PART_TRANSFORMER);
}

bool job_normalises_batches(const struct job *job)
{
	const enum model_kind kind = job->model.kind;
	return job->model.batch_norm && (model_kind_has(kind, PART_TOWER) || model_kind_has(kind, PART_NGRAM));
}

bool job_waits_for_evaluation(const struct job *job)
{
	return job_has_valid(job) && (job->train.early_stop.patience > 0 || job->train.keep_best);
}

const char *job_nearest(const char *word, const char *const *candidates, uint32_t count)
{
	const char *nearest = NULL;
	/* a word that differs in more than a third is another word */
	uint32_t least = (uint32_t)(strlen(word) + 2) / 3 + 1;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t d = distance(word, candidates[i]);
		if (d < least) {
			least = d;
			nearest = candidates[i];
		}
	}
	return nearest;
}
