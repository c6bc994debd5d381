/* Checks a search before its first trial begins. */
#include <string.h>

#include "cli/run/checkpoint_fork.h"
#include "cli/sweep/search_run.h"
#include "cli/sweep/search_slot.h"
#include "common/system/energy.h"
#include "common/system/gpu.h"

static bool lasts_whole_training(const weir_schedule *s)
{
	return s->total == 0 && (s->kind == WEIR_SCHEDULE_LINEAR || s->kind == WEIR_SCHEDULE_COSINE || s->kind == WEIR_SCHEDULE_WSD);
}

static weir_status check_parts(const struct sweep *s, const struct job *job, weir_error *err)
{
	const struct search_options *o = &s->search->options;
	const struct job_table *tables[] = {&job->tables.embedding, &job->tables.dense};
	if (!job_has_valid(job))
		return weir_fail(err, WEIR_E_INVALID, "%s: the job has no validation part, which a search compares by", s->path);
	for (unsigned i = 0; i < 2 && o->policy != POLICY_WHOLE; i++)
		if (lasts_whole_training(&tables[i]->optimizer.schedule))
			return weir_fail(
			    err, WEIR_E_INVALID,
			    "%s: tables.%s.optimizer.schedule lasts as long as the training, and trials that go on train longer: "
			    "set its total (steps), or another kind",
			    s->path, i ? "dense" : "embedding");
	for (uint32_t i = 0; i < o->space.count && o->policy == POLICY_PBT; i++)
		if (!checkpoint_fork_takes(o->space.dims[i].key))
			return weir_fail(
			    err, WEIR_E_INVALID,
			    "%s: space: pbt cannot change %s, as a checkpoint's tables keep it; expected lr, momentum, beta1, beta2, "
			    "eps, weight_decay or l1 of tables.embedding.optimizer or tables.dense.optimizer",
			    s->path, o->space.dims[i].key);
	return WEIR_OK;
}

/* Loads the job with the settings of a trial; point NULL: without. */
static weir_status load(const struct sweep *s, const struct space_point *point, struct job **out, weir_error *err)
{
	struct job_options o = {.path = s->base, .sets.count = s->all.sets_count};
	search_settings settings;
	weir_error why = {0};
	memcpy(o.sets.items, s->all.sets, s->all.sets_count * sizeof *s->all.sets);
	const uint32_t count = point ? search_settings_of(s, point, settings) : 0;
	for (uint32_t i = 0; i < count; i++)
		o.sets.items[o.sets.count++] = settings[i];
	weir_status status = job_options_load(&o, out, &why);
	if (status == WEIR_OK)
		status = job_check_own(*out, &why);
	return status == WEIR_OK ? WEIR_OK
	                         : weir_fail(err, status, "%s: %s: %s", s->path, point ? "a trial's job" : "base", why.text);
}

/* Checks the job of the first trial; of an external search, which has none yet, the base. */
static weir_status check_first(const struct sweep *s, weir_error *err)
{
	struct search *search = search_create(&s->search->options);
	struct search_segment first;
	struct job *job = NULL;
	weir_status status = search ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for the search");
	if (search)
		status = load(s, search_ask(search, &first) == SEARCH_RUN ? &first.point : NULL, &job, err);
	if (status == WEIR_OK)
		status = check_parts(s, job, err);
	job_destroy(job);
	search_destroy(search);
	return status;
}

/* The energy of a trial is that of the machine while it trains. */
static weir_status check_energy(const struct sweep *s, const struct job *job, weir_error *err)
{
	if (!search_wants_joules(s->search))
		return WEIR_OK;
	if (s->search->parallel > 1)
		return weir_fail(err, WEIR_E_INVALID,
		                 "%s: search: joules are those of the whole machine, which %u trials would share; expected parallel: 1",
		                 s->path, s->search->parallel);
	struct energy *e = energy_open(job->metrics.powercap, GPU_LIBRARY);
	energy_close(e);
	return e ? WEIR_OK
	         : weir_fail(
	               err, WEIR_E_UNSUPPORTED,
	               "%s: search: joules: nothing tells the energy of this machine: %s has no counters that may be read (as root "
	               "more may be), and " GPU_LIBRARY " finds no device",
	               s->path, job->metrics.powercap);
}

weir_status search_check_job(struct sweep *s, weir_error *err)
{
	struct job *job = NULL;
	weir_status status = load(s, NULL, &job, err);
	if (status == WEIR_OK) {
		s->search->options.steps = s->search->options.steps ? s->search->options.steps : job->train.passes;
		s->search->workers = job->cluster.workers;
		s->search->has_threads = job->train.threads > 0;
		status = check_energy(s, job, err);
	}
	job_destroy(job);
	const char *wrong = status == WEIR_OK ? search_check(&s->search->options) : NULL;
	if (wrong)
		return weir_fail(err, WEIR_E_INVALID, "%s: search: %s", s->path, wrong);
	return status == WEIR_OK ? check_first(s, err) : status;
}
