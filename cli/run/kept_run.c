#include "cli/run/kept_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/checkpoint_find.h"
#include "cli/run/run_dir.h"
#include "common/system/disk.h"
#include "common/web/json.h"
#include "kernels/backend.h"
#include "proto/wire/wire.h"
#include "server/log/data_folder.h"
#include "worker/model/model.h"
#include "worker/train/batch/tables.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/score/evaluation.h"
#include "worker/train/score/snapshot.h"

#define INSTEAD "set it back, or begin a new run with these weights (train.warm_start)"

/* --- Servers and partitions */

static weir_status check_count(const struct job *job, const char *key, uint64_t was, uint32_t is, const char *instead,
                               weir_error *err)
{
	return was == is ? WEIR_OK
	                 : weir_fail(err, WEIR_E_STATE, "the run in %s was begun otherwise: %s was '%" PRIu64 "' and is '%u'. %s",
	                             job->run_dir, key, was, is, instead);
}

weir_status kept_run_check_cluster(const struct job *job, weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX + 32], path[WEIR_PATH_BYTES_MAX + 64];
	struct json *identity = NULL;
	uint64_t servers = 0, partitions = 0;
	job_server_dir(job, 0, folder);
	snprintf(path, sizeof path, "%s/IDENTITY", folder);
	weir_status status = json_read_file(path, &identity, err);
	const bool known =
	    status == WEIR_OK && json_get_count(identity, "servers", &servers) && json_get_count(identity, "partitions", &partitions);
	if (known)
		status = check_count(job, "cluster.servers", servers, job->cluster.servers,
		                     "Set what was, or restore a checkpoint (weir restore), which goes on on any number of servers", err);
	if (known && status == WEIR_OK)
		status = check_count(job, "cluster.partitions", partitions, job->cluster.partitions,
		                     "Set what was: they are fixed for the life of the job", err);
	json_destroy(identity);
	return status;
}

/* --- The best weights */

weir_status kept_run_check_best(const struct job *job, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 64];
	struct evaluation e = {0};
	struct snapshot *best = NULL;
	weir_error why = {0};
	snprintf(path, sizeof path, "%s/evaluation.json", job->run_dir);
	weir_status status = evaluation_read(&e, job, path, err);
	snprintf(path, sizeof path, "%s/best.safetensors", job->run_dir);
	if (status == WEIR_OK && e.has_best && (status = snapshot_open(&best, path, &why)) != WEIR_OK)
		weir_fail(
		    err, status,
		    "the best weights so far, of pass %u, cannot be read: %s. Put the file back, or remove it and %s/evaluation.json: "
		    "the next pass counts as the best then",
		    e.best_pass + 1, why.text, job->run_dir);
	snapshot_close(best);
	evaluation_destroy(&e);
	return status;
}

/* --- Tables */

static weir_status compare(const weir_table_spec *kept, const struct model *model, const struct training_length *length,
                           weir_error *err)
{
	for (enum model_table k = 0; k < MODEL_TABLES; k++) {
		weir_table_spec is;
		struct wire_table_difference first;
		if (!model_has(model, k) || strcmp(model_table_spec(model, k).name, kept->name) != 0)
			continue;
		const weir_status status = tables_spec(&is, model, k, length, err);
		if (status != WEIR_OK || wire_table_equal(kept, &is, &first))
			return status;
		return weir_fail(
		    err, WEIR_E_STATE,
		    "the run's servers keep table %s with %s %.9g, and the job's is %.9g, which --accept cannot change: " INSTEAD,
		    kept->name, first.field, first.a, first.b);
	}
	return weir_fail(err, WEIR_E_STATE, "the run's servers keep a table %s, which the job's model does not have: " INSTEAD,
	                 kept->name);
}

static weir_status compare_served(const struct job *job, const struct model *model, const struct training_length *length,
                                  weir_error *err)
{
	char folder[WEIR_PATH_BYTES_MAX + 32];
	Weir__V1__TableRegistry *kept = NULL;
	job_server_dir(job, 0, folder);
	weir_status status = folder_read_tables(disk_system(), folder, &kept, err);
	for (size_t i = 0; status == WEIR_OK && kept && i < kept->n_tables; i++) {
		weir_table_spec spec;
		uint32_t id;
		status = wire_table_read(kept->tables[i], &spec, &id, err);
		if (status != WEIR_OK)
			break;
		status = compare(&spec, model, length, err);
		free((void *)(uintptr_t)spec.segments);
	}
	if (kept)
		wire_destroy(&kept->base);
	return status;
}

static weir_status compare_checkpoint(const struct job *job, const char *name, const struct model *model,
                                      const struct training_length *length, weir_error *err)
{
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	weir_status status = checkpoint_find(job, name, &store, &m, err);
	for (uint32_t i = 0; i < m.tables_count && status == WEIR_OK; i++)
		status = compare(&m.tables[i].spec, model, length, err);
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	return status;
}

weir_status kept_run_check_tables(const struct job *job, const struct run_state *run, const struct dataset *train,
                                  weir_error *err)
{
	const struct training_length length = training_length_of(job, train);
	const struct model_data shape = model_data_of(dataset_get_info(train));
	struct model *model = NULL;
	struct backend *backend = backend_cpu_create(1, err);
	if (!backend)
		return err->status;
	weir_status status = model_create(&model, backend, job, &shape, err);
	if (status == WEIR_OK && run_dir_has_data(job))
		status = compare_served(job, model, &length, err);
	else if (status == WEIR_OK && run->restore[0])
		status = compare_checkpoint(job, run->restore, model, &length, err);
	model_destroy(model);
	backend->ops->destroy(backend);
	return status;
}

/* Tells whether only trainers use this key of tables.*. */
static bool is_trainers_own(const char *key)
{
	static const char *const words[] = {".inner.", ".pull.cache.", ".mode.rounds", ".mode.overlap", ".mode.merge"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(key, words[i]))
			return true;
	return false;
}

weir_status kept_run_check_accepted(const char *key, weir_error *err)
{
	if (strncmp(key, "tables.", 7) != 0 || is_trainers_own(key))
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID, "--accept %s: a checkpoint's tables stay what they are: " INSTEAD, key);
}
