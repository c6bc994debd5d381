#include "cli/run/checkpoint_fork.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/run/checkpoint_find.h"
#include "proto/wire/wire.h"
#include "server/service/job_checkpoint.h"
#include "state.pb-c.h"
#include "worker/train/job/job_fingerprint.h"

#define COPY_BYTES (1u << 20)

/* X(field): of weir_optimizer, the numbers that a fork takes from the job. */
#define FORK_FIELD_MAP(X) X(lr) X(momentum) X(beta1) X(beta2) X(eps) X(weight_decay) X(l1)

static const char *const fork_keys[] = {
#define FORK_KEYS(field) "tables.embedding.optimizer." #field, "tables.dense.optimizer." #field,
    FORK_FIELD_MAP(FORK_KEYS)
#undef FORK_KEYS
};
enum { FORK_KEYS_COUNT = sizeof fork_keys / sizeof *fork_keys };

bool checkpoint_fork_takes(const char *key)
{
	for (size_t i = 0; i < FORK_KEYS_COUNT; i++)
		if (strcmp(key, fork_keys[i]) == 0)
			return true;
	return false;
}

/* --- Tables */

/* Gives the table the numbers of the job's optimizer. Statistics have none. */
static void adopt(const struct job *job, weir_table_spec *spec)
{
	const weir_optimizer *from = spec->kind == WEIR_EMBEDDING ? &job->tables.embedding.optimizer : &job->tables.dense.optimizer;
	if (spec->optimizer.kind != from->kind)
		return;
#define FORK_FIELD(field) spec->optimizer.field = from->field;
	FORK_FIELD_MAP(FORK_FIELD)
#undef FORK_FIELD
}

static weir_status adopt_wire(const struct job *job, Weir__V1__Table *table, weir_error *err)
{
	weir_table_spec spec;
	uint32_t id;
	const weir_status status = wire_table_read(table, &spec, &id, err);
	if (status != WEIR_OK)
		return status;
	adopt(job, &spec);
#define FORK_FIELD(field) table->optimizer->field = spec.optimizer.field;
	FORK_FIELD_MAP(FORK_FIELD)
#undef FORK_FIELD
	free((void *)(uintptr_t)spec.segments);
	return WEIR_OK;
}

/* --- The fingerprint */

struct changes {
	struct fingerprint text; /* the lines that the fork changes */
	weir_status status;
	weir_error *err;
};

static void note_change(void *arg, const char *key, const char *was, const char *is)
{
	struct changes *c = arg;
	(void)was;
	if (c->status == WEIR_OK && checkpoint_fork_takes(key))
		c->status = fingerprint_add(&c->text, key, is, c->err);
}

/* Compares the job with the checkpoint's fingerprint, and finds what the fork changes in it. */
static weir_status find_changes(const struct job *job, const struct checkpoint_manifest *m, const char *const *accepted,
                                size_t accepted_count, struct changes *c, weir_error *err)
{
	char what[WEIR_CHECKPOINT_NAME_BYTES_MAX + 64];
	const char *keys[FORK_KEYS_COUNT + OPTION_LIST_MAX];
	struct fingerprint is = {0};
	if (!m->fingerprint)
		return weir_fail(err, WEIR_E_INVALID,
		                 "checkpoint %s carries no fingerprint: an earlier release wrote it; only `weir restore` goes on from it",
		                 m->name);
	memcpy(keys, fork_keys, sizeof fork_keys);
	for (size_t i = 0; i < accepted_count; i++)
		keys[FORK_KEYS_COUNT + i] = accepted[i];
	snprintf(what, sizeof what, "checkpoint %s is of another job", m->name);
	weir_status status = job_fingerprint(job, &(struct fingerprint_parts){.vocabulary = 0}, &is, err);
	if (status == WEIR_OK)
		status = fingerprint_compare(&(struct fingerprint_comparison){.was = m->fingerprint,
		                                                              .is = is.text,
		                                                              .what = what,
		                                                              .accepted = keys,
		                                                              .accepted_count = FORK_KEYS_COUNT + accepted_count,
		                                                              .differs = note_change,
		                                                              .arg = c},
		                             err);
	free(is.text);
	return status == WEIR_OK ? c->status : status;
}

static weir_status join(const char *was, const struct changes *c, char **out, weir_error *err)
{
	*out = fingerprint_join(was, c->text.text ? c->text.text : "");
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a checkpoint's fingerprint");
}

/* --- Files */

static weir_status copy_object(struct blob_store *from, struct blob_store *to, const char *name, weir_error *err)
{
	struct blob_writer *w = NULL;
	char *block = malloc(COPY_BYTES);
	size_t got = COPY_BYTES;
	weir_status status = block ? blob_create(to, name, &w, err) : weir_fail(err, WEIR_E_MEMORY, "no memory to copy %s", name);
	for (uint64_t at = 0; status == WEIR_OK && got == COPY_BYTES; at += got) {
		status = blob_read_at(from, name, at, block, COPY_BYTES, &got, err);
		if (status == WEIR_OK && got > 0)
			status = blob_write(w, block, got, err);
	}
	free(block);
	if (status == WEIR_OK)
		return blob_commit(w, err);
	blob_abandon(w);
	return status;
}

static weir_status copy_partitions(struct blob_store *from, struct blob_store *to, const struct checkpoint_manifest *m,
                                   weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t p = 0; p < m->partitions_count && status == WEIR_OK; p++) {
		const struct checkpoint_partition *part = &m->partitions[p];
		status = copy_object(from, to, part->header.name, err);
		for (uint32_t i = 0; i < part->rows_count && status == WEIR_OK; i++)
			status = copy_object(from, to, part->rows[i].name, err);
	}
	return status;
}

/* The ledger has the tables and the fingerprint, too. */
static weir_status change_ledger(const struct job *job, const struct changes *c, Weir__V1__LedgerState *state, weir_error *err)
{
	char *was = NULL, *is = NULL;
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < state->n_tables && status == WEIR_OK; i++)
		status = adopt_wire(job, state->tables[i], err);
	if (status != WEIR_OK || !state->fingerprint.len)
		return status;
	was = strndup((const char *)state->fingerprint.data, state->fingerprint.len);
	status = was ? join(was, c, &is, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for the ledger's fingerprint");
	free(was);
	if (status == WEIR_OK) {
		free(state->fingerprint.data);
		state->fingerprint = (ProtobufCBinaryData){.len = strlen(is), .data = (uint8_t *)is};
	}
	return status;
}

static weir_status write_ledger(const ProtobufCMessage *state, struct blob_store *to, struct checkpoint_manifest *m,
                                weir_error *err)
{
	char name[WEIR_BLOB_NAME_BYTES_MAX];
	struct message *packed = wire_pack(state);
	uint8_t *bytes = packed ? malloc(packed->bytes + 1) : NULL;
	struct cursor c = packed ? cursor_at(packed) : (struct cursor){0};
	weir_status status = WEIR_E_MEMORY;
	snprintf(name, sizeof name, "%s", m->ledger.name);
	if (!bytes || cursor_read(&c, bytes, packed->bytes) != WEIR_OK)
		weir_fail(err, status, "no memory for the ledger of %s", m->name);
	else
		status = checkpoint_object_write(to, name, bytes, packed->bytes, &m->ledger, err);
	free(bytes);
	message_release(packed);
	return status;
}

static weir_status fork_ledger(const struct job *job, const struct changes *c, struct blob_store *from, struct blob_store *to,
                               struct checkpoint_manifest *m, weir_error *err)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	ProtobufCMessage *state = NULL;
	weir_status status = checkpoint_object_read(from, &m->ledger, WEIR_CHECKPOINT_STATE_BYTES_MAX, &bytes, &n, err);
	if (status == WEIR_OK)
		status = wire_unpack_state(&weir__v1__ledger_state__descriptor, bytes, n, &state, err);
	free(bytes);
	if (status != WEIR_OK)
		return status;
	status = change_ledger(job, c, (Weir__V1__LedgerState *)state, err);
	if (status == WEIR_OK)
		status = write_ledger(state, to, m, err);
	wire_destroy(state);
	return status;
}

/* --- The fork */

static weir_status fork_into(const struct job *job, const struct changes *c, struct blob_store *from, struct blob_store *to,
                             struct checkpoint_manifest *m, weir_error *err)
{
	char *is = NULL;
	if (strcmp(from->place, to->place) == 0)
		return weir_fail(err, WEIR_E_INVALID, "%s is this job's own place: a fork goes to another checkpoint.dir or run_dir",
		                 to->place);
	weir_status status = join(m->fingerprint, c, &is, err);
	if (status == WEIR_OK) {
		free(m->fingerprint);
		m->fingerprint = is;
		status = copy_partitions(from, to, m, err);
	}
	if (status == WEIR_OK)
		status = fork_ledger(job, c, from, to, m, err);
	for (uint32_t i = 0; i < m->tables_count; i++)
		adopt(job, &m->tables[i].spec);
	return status == WEIR_OK ? checkpoint_manifest_write(to, m, err) : status;
}

weir_status checkpoint_fork(const struct job *job, const char *from, const char *const *accepted, size_t accepted_count,
                            char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], weir_error *err)
{
	struct blob_store *store = NULL, *own = NULL;
	struct checkpoint_manifest m = {0};
	struct checkpoint_options o;
	struct changes c = {.err = err};
	char place[WEIR_PATH_BYTES_MAX + 32];
	job_checkpoint_options(job, place, &o);
	weir_status status = checkpoint_find_at(job, from, &store, &m, err);
	if (status == WEIR_OK)
		status = find_changes(job, &m, accepted, accepted_count, &c, err);
	if (status == WEIR_OK)
		status = checkpoint_options_open(&o, &own, err);
	if (status == WEIR_OK)
		status = fork_into(job, &c, store, own, &m, err);
	snprintf(name, WEIR_CHECKPOINT_NAME_BYTES_MAX, "%s", m.name);
	free(c.text.text);
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	blob_close(own);
	return status;
}
