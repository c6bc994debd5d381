#include "cli/profile/rehearsal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/profile/profile_job.h"
#include "common/base/clock.h"
#include "common/job/job_schema.h"
#include "common/system/temp_folder.h"

/* Since the first batch: when the measurement begins, when it may end, when it must. */
#define WARM_MS   1000
#define ENOUGH_MS 5000
#define MOST_MS   9000
/* Reports of each worker between which its speed is taken. */
#define REPORTS_LEAST 3u
/* More rows than are trained in that time, and soon generated. */
#define GENERATE_ROWS_MAX 1000000ull
#define OWN_SETS_MAX      (JOB_ASKS_MAX + 6u)

struct part { /* of one trainer */
	uint32_t id, reports;
	int64_t first_ms, last_ms; /* of its reports */
	uint64_t first_rows, rows;
};

struct rehearsal {
	struct job_options options;
	char sets[OWN_SETS_MAX][JOB_KEY_BYTES_MAX + 64];
	uint32_t sets_count;
	struct part parts[WEIR_WORKERS_MAX];
	uint32_t count;
};

/* --- Settings */

WEIR_PRINTF(2, 3)
static void set(struct rehearsal *r, const char *format, ...)
{
	va_list list;
	char *out = r->sets[r->sets_count++];
	va_start(list, format);
	vsnprintf(out, sizeof r->sets[0], format, list);
	va_end(list);
}

static weir_status choose_settings(struct rehearsal *r, const struct job *job, weir_error *err)
{
	struct option_list *sets = &r->options.sets;
	set(r, "train.passes=%u", WEIR_PASSES_MAX);
	set(r, "train.early_stop.patience=0");
	set(r, "cluster.listen=auto");
	set(r, "cluster.coord=static");
	set(r, "cluster.servers_at=[]");
	if (job->data.generate.rows > GENERATE_ROWS_MAX)
		set(r, "data.generate.rows=%llu", GENERATE_ROWS_MAX);
	for (uint32_t i = 0; i < job->asks.count; i++)
		set(r, "%s=%s", job->asks.keys[i], job_schema_find(job->asks.keys[i])->fallback);
	if (sets->count + r->sets_count > OPTION_LIST_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "--set: at most %u", OPTION_LIST_MAX - r->sets_count);
	for (uint32_t i = 0; i < r->sets_count; i++)
		sets->items[sets->count++] = r->sets[i];
	return WEIR_OK;
}

/* --- Speed: each trainer's between its own reports, as all report at different times */

static struct part *part_of(struct rehearsal *r, uint32_t id)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->parts[i].id == id)
			return &r->parts[i];
	if (r->count == WEIR_WORKERS_MAX)
		return NULL;
	r->parts[r->count] = (struct part){.id = id};
	return &r->parts[r->count++];
}

static void note(struct rehearsal *r, const struct profile_asker *a, int64_t now_ms)
{
	uint32_t count;
	const struct profile_trainer *t = profile_ask_trainers(a, &count);
	for (uint32_t i = 0; i < count; i++) {
		struct part *p = part_of(r, t[i].id);
		if (!p || t[i].rows == p->rows)
			continue;
		/* The first report that is seen may be any time old, the second one is new. */
		if (++p->reports == 2) {
			p->first_ms = now_ms;
			p->first_rows = t[i].rows;
		}
		p->last_ms = now_ms;
		p->rows = t[i].rows;
	}
}

static bool all_told(const struct rehearsal *r, const struct job *job)
{
	bool told = r->count >= job->cluster.workers;
	for (uint32_t i = 0; i < r->count; i++)
		told &= r->parts[i].reports >= 2 + REPORTS_LEAST;
	return told;
}

static double speed(const struct rehearsal *r)
{
	double sum = 0;
	for (uint32_t i = 0; i < r->count; i++) {
		const struct part *p = &r->parts[i];
		if (p->last_ms > p->first_ms && p->reports > 2)
			sum += (double)(p->rows - p->first_rows) * 1e3 / (double)(p->last_ms - p->first_ms);
	}
	return sum;
}

static weir_status watch(struct rehearsal *r, struct profile_job *run, const struct job *job, struct logger *logger,
                         weir_error *err)
{
	struct profile_asker *asker = NULL;
	weir_status status = WEIR_OK;
	int64_t began_ms = 0, since_ms = 0;
	while (status == WEIR_OK && since_ms < MOST_MS && !(since_ms >= ENOUGH_MS && all_told(r, job))) {
		uint64_t batches;
		status = profile_job_poll(run, logger, &asker, &batches, err);
		const int64_t now_ms = clock_ms(clock_system());
		if (began_ms == 0 && batches > 0)
			began_ms = now_ms;
		since_ms = began_ms ? now_ms - began_ms : 0;
		if (status == WEIR_OK && since_ms >= WARM_MS)
			note(r, asker, now_ms);
	}
	profile_ask_close(asker);
	return status;
}

static weir_status run(struct rehearsal *r, const struct job *job, struct logger *logger, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX];
	struct profile_job *run = NULL;
	weir_error ignored = {0};
	weir_status status = temp_folder_make("weir-rehearsal", folder, sizeof folder, err);
	if (status == WEIR_OK)
		status = profile_job_start(&run, &r->options, folder, err);
	if (status == WEIR_OK)
		status = watch(r, run, job, logger, err);
	const weir_status stopped = profile_job_stop(run, status == WEIR_OK, status == WEIR_OK ? err : &ignored);
	return status == WEIR_OK ? stopped : status;
}

weir_status rehearse(const struct job_options *options, const struct job *job, struct logger *logger, double *samples_per_s,
                     weir_error *err)
{
	struct rehearsal *r = calloc(1, sizeof *r);
	*samples_per_s = 0;
	if (!r)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a rehearsal");
	r->options = *options;
	weir_status status = choose_settings(r, job, err);
	if (status == WEIR_OK)
		status = run(r, job, logger, err);
	if (status == WEIR_OK && all_told(r, job))
		*samples_per_s = speed(r);
	free(r);
	return status;
}
