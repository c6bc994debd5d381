/* weir checkpoint: makes a running job write a checkpoint, verifies an existing one, or copies one
 * of another run for this job to go on from. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/verbs.h"
#include "cli/run/checkpoint_ask.h"
#include "cli/run/checkpoint_find.h"
#include "cli/run/checkpoint_fork.h"
#include "cli/run/job_servers.h"
#include "common/web/json.h"
#include "server/service/job_checkpoint.h"

struct checkpoint_verb {
	struct job_options options;
	const char *at, *from;
	bool json;
	struct option_list accepted;
	struct job *job; /* NULL: only an address was given */
	struct logger *logger;
};

/* --- Taking a checkpoint */

static weir_status print_taken(const struct checkpoint_verb *v, const Weir__V1__CheckpointReply *r, weir_error *err)
{
	char size[32];
	if (!v->json) {
		format_bytes(size, sizeof size, (double)r->bytes);
		printf("%s: %s of rows in %.1f s\n", r->name, size, (double)r->wall_ms / 1e3);
		return WEIR_OK;
	}
	struct json *j = json_create();
	json_set_text(j, "name", r->name);
	json_set_count(j, "bytes", r->bytes);
	json_set_real(j, "wall_s", (double)r->wall_ms / 1e3);
	weir_status status = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory to print");
	json_destroy(j);
	return status;
}

static weir_status take_one(struct checkpoint_verb *v, weir_error *err)
{
	Weir__V1__CheckpointReply *last = NULL;
	char address[JOB_PLACES_BYTES];
	weir_status status = job_servers_find_ledger(v->job, v->at, address, err);
	if (status == WEIR_OK)
		status = checkpoint_ask(v->job, address, v->logger, &last, err);
	if (status == WEIR_OK)
		status = print_taken(v, last, err);
	if (last)
		wire_destroy(&last->base);
	return status;
}

/* --- Verifying a checkpoint */

static uint64_t rows_of(const struct checkpoint_manifest *m)
{
	uint64_t rows = 0;
	for (uint32_t p = 0; p < m->partitions_count; p++)
		for (uint32_t i = 0; i < m->partitions[p].rows_count; i++)
			rows += m->partitions[p].rows[i].info.rows;
	return rows;
}

static weir_status print_verified(const struct checkpoint_verb *v, const struct checkpoint_manifest *m, uint64_t bytes,
                                  weir_error *err)
{
	char size[32];
	if (!v->json) {
		format_bytes(size, sizeof size, (double)bytes);
		printf("%s is whole: job %s, generation %" PRIu64 ", after %" PRIu64 " batches; %u tables, %u partitions, %" PRIu64
		       " rows (values %s, slots %s), %s\n",
		       m->name, m->job, m->generation, m->step, m->tables_count, m->partitions_count, rows_of(m),
		       row_precision_name(m->values), row_precision_name(m->slots), size);
		return WEIR_OK;
	}
	struct json *j = json_create();
	json_set_text(j, "name", m->name);
	json_set_text(j, "job", m->job);
	json_set_count(j, "generation", m->generation);
	json_set_count(j, "step", m->step);
	json_set_count(j, "tables", m->tables_count);
	json_set_count(j, "partitions", m->partitions_count);
	json_set_count(j, "rows", rows_of(m));
	json_set_count(j, "bytes", bytes);
	json_set_text(j, "values", row_precision_name(m->values));
	json_set_text(j, "slots", row_precision_name(m->slots));
	weir_status status = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory to print");
	json_destroy(j);
	return status;
}

static weir_status verify(struct checkpoint_verb *v, weir_error *err)
{
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	uint64_t bytes = 0;
	weir_status status = checkpoint_find(v->job, v->from, &store, &m, err);
	if (status == WEIR_OK)
		status = checkpoint_verify(store, &m, &bytes, err);
	if (status == WEIR_OK)
		status = print_verified(v, &m, bytes, err);
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	return status;
}

/* --- Forking a checkpoint */

static weir_status fork_one(struct checkpoint_verb *v, weir_error *err)
{
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	const weir_status status = checkpoint_fork(v->job, v->from, v->accepted.items, v->accepted.count, name, err);
	if (status == WEIR_OK)
		printf("%s is a checkpoint of %s now, with the job's rates: weir restore --from %s, then weir train --resume\n", name,
		       v->job->run_dir, name);
	return status;
}

/* --- The verb */

enum action { ACTION_TAKE, ACTION_VERIFY, ACTION_FORK };

static enum action action_of(const char *word)
{
	if (word && strcmp(word, "verify") == 0)
		return ACTION_VERIFY;
	return word && strcmp(word, "fork") == 0 ? ACTION_FORK : ACTION_TAKE;
}

static weir_status prepare(struct checkpoint_verb *v, enum action action, weir_error *err)
{
	if (action != ACTION_TAKE && v->at)
		return weir_fail(err, WEIR_E_INVALID, "verify and fork read files: they need --job FILE and no --at");
	if (action == ACTION_TAKE && v->from)
		return weir_fail(err, WEIR_E_INVALID, "--from goes with verify and fork");
	if (action == ACTION_FORK && !v->from)
		return weir_fail(err, WEIR_E_INVALID, "fork needs --from PLACE, the checkpoints of another run, or PLACE/ck-NAME");
	if (action != ACTION_FORK && v->accepted.count > 0)
		return weir_fail(err, WEIR_E_INVALID, "--accept goes with fork");
	if (!v->at && !v->options.path)
		return weir_fail(err, WEIR_E_INVALID, action == ACTION_TAKE ? "needs --job FILE or --at ADDRESS" : "needs --job FILE");
	return job_options_logger(&v->options, "weir", LOG_ERROR, &v->logger, err);
}

int verb_checkpoint(int count, char **args)
{
	struct checkpoint_verb v = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&v.options),
	    AT_OPTION(v.at),
	    {"--from", OPTION_TEXT, &v.from, "NAME",
	     "which checkpoint to verify: its name, or latest; to fork: PLACE or PLACE/ck-NAME"},
	    {"--accept", OPTION_LIST, &v.accepted, "KEY", "fork: take another value of this key; may be given repeatedly"},
	    {"--json", OPTION_FLAG, &v.json, NULL, "what was done, as JSON"}};
	const char *words[2] = {NULL, NULL};
	weir_error err = {0};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, words, 2, &err);
	const enum action action = action_of(words[0]);
	const char *path = action == ACTION_TAKE ? words[0] : words[1];
	if (status == WEIR_OK && action == ACTION_TAKE && words[1])
		status = weir_fail(&err, WEIR_E_INVALID,
		                   "unexpected '%s'; there is `weir checkpoint`, `weir checkpoint verify` and `weir checkpoint fork`",
		                   words[1]);
	v.options.path = path ? path : v.options.path;
	if (status == WEIR_OK)
		status = prepare(&v, action, &err);
	if (status != WEIR_OK)
		return verb_usage("checkpoint", &err);
	if (v.options.path)
		status = job_options_load(&v.options, &v.job, &err);
	if (status == WEIR_OK)
		status = action == ACTION_VERIFY ? verify(&v, &err) : action == ACTION_FORK ? fork_one(&v, &err) : take_one(&v, &err);
	job_destroy(v.job);
	logger_destroy(v.logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("checkpoint", &err);
}
