/* weir restore: prepares a run directory for resuming from a checkpoint. Servers read the
 * checkpoint when they start. Existing data of the run are moved aside and never overwritten.
 * Evaluations of passes that the checkpoint contains are kept. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/verbs.h"
#include "cli/observe/events.h"
#include "cli/run/checkpoint_find.h"
#include "cli/run/job_servers.h"
#include "cli/run/kept_run.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_fingerprint.h"
#include "cli/run/run_state.h"
#include "common/system/disk.h"
#include "proto/wire/wire.h"
#include "state.pb-c.h"
#include "worker/data/column_facts.h"
#include "worker/train/score/evaluation.h"

#define RESTORE_PATH_BYTES (WEIR_PATH_BYTES_MAX + 64)

/* Moves RUN_DIR/name to before-gN/name. *moved: whether it existed. */
static weir_status move_aside(const struct job *job, const char *name, uint64_t generation, bool *moved, weir_error *err)
{
	char from[RESTORE_PATH_BYTES], to[RESTORE_PATH_BYTES + 32];
	struct disk *d = disk_system();
	snprintf(from, sizeof from, "%s/%s", job->run_dir, name);
	*moved = access(from, F_OK) == 0;
	if (!*moved)
		return WEIR_OK;
	int n = snprintf(to, sizeof to, "%s/before-g%" PRIu64, job->run_dir, generation);
	weir_status status = d->ops->make_dirs(d, to, err);
	snprintf(to + n, sizeof to - (size_t)n, "/%s", name);
	if (status == WEIR_OK && access(to, F_OK) == 0)
		return weir_fail(err, WEIR_E_EXISTS, "%s is there already: move it away, then restore again", to);
	return status == WEIR_OK ? d->ops->rename(d, from, to, err) : status;
}

/* Moves every server's folder aside. */
static weir_status move_data_aside(const struct job *job, uint64_t generation, bool *any, weir_error *err)
{
	char name[16];
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < WEIR_SERVERS_MAX && status == WEIR_OK; i++) {
		bool moved = false;
		snprintf(name, sizeof name, "server-%u", i);
		status = move_aside(job, name, generation, &moved, err);
		*any |= moved;
	}
	return status;
}

/* The facts in the ledger's state at the start of the checkpoint. */
struct ledger_facts {
	uint32_t evaluated; /* evaluated passes */
	uint32_t units;     /* work units of the training data; 0: no worker had reported them */
};

static weir_status read_ledger(struct blob_store *store, const struct checkpoint_manifest *m, struct ledger_facts *out,
                               weir_error *err)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	ProtobufCMessage *message = NULL;
	weir_status status = checkpoint_object_read(store, &m->ledger, WEIR_CHECKPOINT_STATE_BYTES_MAX, &bytes, &n, err);
	if (status == WEIR_OK)
		status = wire_unpack_state(&weir__v1__ledger_state__descriptor, bytes, n, &message, err);
	free(bytes);
	if (status != WEIR_OK)
		return status;
	const Weir__V1__LedgerGlobals *globals = ((const Weir__V1__LedgerState *)message)->globals;
	*out = (struct ledger_facts){.evaluated = globals ? globals->evaluated : 0, .units = globals ? globals->units_count : 0};
	wire_destroy(message);
	return WEIR_OK;
}

/* Discards evaluations of later passes, which are no longer part of this training, and the best
 * weights if they are from such a pass. */
static weir_status forget_evaluations(const struct job *job, uint32_t passes, uint64_t generation, bool *any, weir_error *err)
{
	char path[RESTORE_PATH_BYTES];
	struct evaluation e;
	snprintf(path, sizeof path, "%s/evaluation.json", job->run_dir);
	weir_status status = evaluation_read(&e, job, path, err);
	const uint32_t before = e.passes_count;
	const bool had_best = e.has_best;
	bool moved = false;
	evaluation_forget(&e, job, passes);
	const bool best_lost = had_best && !e.has_best;
	if (status == WEIR_OK && best_lost)
		status = move_aside(job, "best.safetensors", generation, &moved, err);
	if (status == WEIR_OK && (best_lost || e.passes_count < before))
		status = evaluation_write(&e, path, err);
	*any |= moved;
	evaluation_destroy(&e);
	return status;
}

/* Makes the curves continue from the checkpoint: TensorBoard drops later values. */
static weir_status cut_curves(const struct job *job, uint64_t step, weir_error *err)
{
	char folder[RESTORE_PATH_BYTES];
	const struct clock *clock = clock_system();
	const int64_t now_ms = clock->ops->wall_ns(clock) / 1000000;
	struct events events;
	snprintf(folder, sizeof folder, "%s/" EVENTS_FOLDER, job->track.dir);
	if (access(folder, F_OK) != 0)
		return WEIR_OK;
	weir_status status = events_open(&events, folder, now_ms, err);
	if (status == WEIR_OK)
		status = events_begin(&events, step, now_ms, err);
	events_close(&events);
	return status;
}

/* Writes run.json first. If the move is interrupted, servers then refuse the remaining data of the
 * previous generation, and no server starts empty. */
static weir_status set_run(const struct job *job, const struct checkpoint_manifest *m, const struct ledger_facts *ledger,
                           weir_error *err)
{
	struct run_state run = {0};
	weir_error why = {0};
	bool any = false;
	weir_status status = run_state_read(job->run_dir, &run, &why);
	if (status != WEIR_OK && status != WEIR_E_NOT_FOUND)
		return weir_fail(err, status, "%s", why.text);
	/* Higher than every generation of this run and of the checkpoint's run. */
	uint64_t generation = (run.generation > m->generation ? run.generation : m->generation) + 1;
	const bool same_run = memcmp(run.uuid, m->uuid, sizeof run.uuid) == 0;
	run.generation = generation;
	run.warm_start[0] = '\0'; /* the checkpoint contains the weights */
	run.servers = run.replicas = 0;
	run.finished = false;
	memcpy(run.uuid, m->uuid, sizeof run.uuid);
	snprintf(run.restore, sizeof run.restore, "%s", m->name);
	status = run_fingerprint_restore(job->run_dir, m->fingerprint, ledger->units, err);
	if (status == WEIR_OK)
		status = run_state_write(job->run_dir, &run, err);
	if (status == WEIR_OK)
		status = move_data_aside(job, generation, &any, err);
	if (status == WEIR_OK)
		status = forget_evaluations(job, same_run ? ledger->evaluated : 0, generation, &any, err);
	if (status == WEIR_OK)
		status = cut_curves(job, same_run ? m->step : 0, err);
	if (status == WEIR_OK && any)
		fprintf(stderr, "what the run had written to %s is in %s/before-g%" PRIu64 " now\n", job->run_dir, job->run_dir,
		        generation);
	if (status == WEIR_OK)
		printf("%s is set to go on from %s, after %" PRIu64 " batches, as generation %" PRIu64 ": weir %s --resume\n",
		       job->run_dir, m->name, m->step, generation, run_dir_verb(job));
	return status;
}

/* Checks the parts of the checkpoint that the job file must match. Workers compare the rest when
 * they register their tables. */
static weir_status check_fits(const struct job *job, const struct checkpoint_manifest *m, weir_error *err)
{
	if (m->partitions_count != job->cluster.partitions)
		return weir_fail(err, WEIR_E_INVALID, "checkpoint %s has %u partitions and the job file %u; set cluster.partitions to %u",
		                 m->name, m->partitions_count, job->cluster.partitions, m->partitions_count);
	uint32_t dims[WEIR_DIMS_MAX];
	(void)job_dims(job, dims);
	for (uint32_t i = 0; i < m->tables_count; i++) {
		const weir_table_spec *spec = &m->tables[i].spec;
		if (strcmp(spec->name, "embedding") == 0 && dims[0] == job->model.dim && spec->width != dims[0])
			return weir_fail(err, WEIR_E_INVALID,
			                 "checkpoint %s has embeddings of width %u and model.dim is %u; set model.dim to %u", m->name,
			                 spec->width, dims[0], spec->width);
	}
	return WEIR_OK;
}

/* Compares the fingerprint of the job file alone; the run compares its data when it resumes. */
static weir_status check_fingerprint(const struct job *job, const struct checkpoint_manifest *m, struct accepted *a,
                                     struct fingerprint *is, weir_error *err)
{
	char what[WEIR_CHECKPOINT_NAME_BYTES_MAX + 64];
	if (!m->fingerprint) {
		fprintf(stderr, "checkpoint %s carries no fingerprint: whether it is of this job is not known\n", m->name);
		return WEIR_OK;
	}
	const weir_status status = job_fingerprint(job, &(struct fingerprint_parts){.vocabulary = 0}, is, err);
	if (status != WEIR_OK)
		return status;
	snprintf(what, sizeof what, "checkpoint %s is of another job", m->name);
	return accepted_compare(a, &(struct fingerprint_comparison){.was = m->fingerprint, .is = is->text, .what = what}, err);
}

static weir_status keep_accepted(const struct job *job, const struct fingerprint *is, const struct accepted *a, weir_error *err)
{
	fprintf(stderr,
	        "only the data tell whether units and tables stay the same with these differences: `weir %s --resume` checks it "
	        "before it starts anything\n",
	        run_dir_verb(job));
	return run_fingerprint_resume(job->run_dir, is->text, a, err);
}

static weir_status restore(const struct job *job, const char *from, struct accepted *accepted, weir_error *err)
{
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	struct fingerprint fingerprint = {0};
	uint64_t bytes = 0;
	struct ledger_facts ledger = {0};
	char size[32];
	int fd = -1;
	weir_status status = checkpoint_find(job, from, &store, &m, err);
	if (status == WEIR_OK)
		status = check_fits(job, &m, err);
	if (status == WEIR_OK)
		status = check_fingerprint(job, &m, accepted, &fingerprint, err);
	if (status == WEIR_OK)
		status = checkpoint_verify(store, &m, &bytes, err);
	if (status == WEIR_OK)
		status = read_ledger(store, &m, &ledger, err);
	if (status == WEIR_OK) {
		format_bytes(size, sizeof size, (double)bytes);
		fprintf(stderr, "%s is whole: %s read\n", m.name, size);
		status = run_dir_lock(job, &fd, err);
	}
	if (status == WEIR_OK)
		status = job_servers_check_idle(job, "weir restore", err);
	if (status == WEIR_OK)
		status = set_run(job, &m, &ledger, err);
	if (status == WEIR_OK && accepted->record)
		status = keep_accepted(job, &fingerprint, accepted, err);
	free(fingerprint.text);
	if (fd >= 0)
		close(fd);
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	return status;
}

int verb_restore(int count, char **args)
{
	struct job_options jo = {0};
	struct accepted accepted = {0};
	struct job *job = NULL;
	const char *from = NULL, *word = NULL;
	weir_error err = {0};
	const struct option options[] = {JOB_OPTIONS(&jo),
	                                 ACCEPT_OPTION(accepted),
	                                 {"--from", OPTION_TEXT, &from, "NAME", "which checkpoint: its name, or latest"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	if (status == WEIR_OK)
		status = job_options_take(&jo, word, &err);
	if (status == WEIR_OK && !from)
		status = weir_fail(&err, WEIR_E_INVALID, "needs --from NAME or --from latest");
	if (status == WEIR_OK)
		status = fingerprint_check_accepted(accepted.keys.items, accepted.keys.count, &err);
	for (uint32_t i = 0; status == WEIR_OK && i < accepted.keys.count; i++)
		status = kept_run_check_accepted(accepted.keys.items[i], &err);
	if (status != WEIR_OK)
		return verb_usage("restore", &err);
	status = job_options_load(&jo, &job, &err);
	if (status == WEIR_OK)
		status = column_facts_assume(job, &err);
	if (status == WEIR_OK)
		status = restore(job, from, &accepted, &err);
	accepted_destroy(&accepted);
	job_destroy(job);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("restore", &err);
}
