/* Reads a checkpoint back and converts its state to the initial state of a new generation. */
#include "server/checkpoint/checkpoint_restore.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/ledger/ledger_state.h"
#include "server/partition/partition.h"
#include "server/partition/partition_state.h"
#include "server/store/cold.h"
#include "state.pb-c.h"

struct checkpoint_restore {
	struct blob_store *store;
	struct checkpoint_manifest manifest;
	bool replicated;
};

static weir_status check_job(const struct checkpoint_restore *r, const struct checkpoint_restore_job *job, weir_error *err)
{
	const struct checkpoint_manifest *m = &r->manifest;
	if (memcmp(m->uuid, job->uuid, sizeof m->uuid) != 0)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "checkpoint %s in %s is of another run of job %s; set checkpoint.dir to that of this run", m->name,
		                 r->store->place, m->job);
	if (m->generation >= job->generation)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "checkpoint %s is of generation %" PRIu64 " and cannot begin generation %" PRIu64
		                 "; run `weir restore` first",
		                 m->name, m->generation, job->generation);
	if (m->partitions_count != job->partitions)
		return weir_fail(err, WEIR_E_INVALID, "checkpoint %s has %u partitions and the job file %u; set cluster.partitions to %u",
		                 m->name, m->partitions_count, job->partitions, m->partitions_count);
	return WEIR_OK;
}

weir_status checkpoint_restore_open(struct checkpoint_restore **out, const struct checkpoint_options *options, const char *name,
                                    const struct checkpoint_restore_job *job, weir_error *err)
{
	struct checkpoint_restore *r = calloc(1, sizeof *r);
	if (!r)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a restore");
	r->replicated = job->replicated;
	weir_status status = checkpoint_options_open(options, &r->store, err);
	if (!status)
		status = checkpoint_manifest_read(r->store, name, &r->manifest, err);
	if (!status)
		status = check_job(r, job, err);
	if (status) {
		checkpoint_restore_close(r);
		return status;
	}
	*out = r;
	return WEIR_OK;
}

void checkpoint_restore_close(struct checkpoint_restore *r)
{
	if (!r)
		return;
	checkpoint_manifest_destroy(&r->manifest);
	blob_close(r->store);
	free(r);
}

const struct checkpoint_manifest *checkpoint_restore_manifest(const struct checkpoint_restore *r)
{
	return &r->manifest;
}

/* Reads a small file and unpacks it. */
static weir_status read_message(struct checkpoint_restore *r, const struct checkpoint_object *o,
                                const ProtobufCMessageDescriptor *type, ProtobufCMessage **out, weir_error *err)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	weir_status status = checkpoint_object_read(r->store, o, WEIR_CHECKPOINT_STATE_BYTES_MAX, &bytes, &n, err);
	if (!status)
		status = wire_unpack_state(type, bytes, n, out, err);
	free(bytes);
	return status;
}

static weir_status pack(const ProtobufCMessage *m, uint8_t **out, size_t *bytes, weir_error *err)
{
	*bytes = protobuf_c_message_get_packed_size(m);
	*out = malloc(*bytes + 1);
	if (!*out)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a restore");
	protobuf_c_message_pack(m, *out);
	return WEIR_OK;
}

/* --- State of a partition */

/* Forgets that the part ever arrived: its batch will be executed again. */
static void forget_waiting(Weir__V1__PartitionState *s, const Weir__V1__WaitingPart *w)
{
	uint64_t key = w->batch ? (uint64_t)w->batch->pass << 32 | w->batch->unit : 0;
	for (size_t i = 0; w->batch && w->part < 64 && i < s->n_units; i++)
		if (s->units[i]->key == key && w->batch->batch < s->units[i]->n_parts)
			s->units[i]->parts[w->batch->batch] &= ~(1ull << w->part);
}

weir_status checkpoint_restore_state(struct checkpoint_restore *r, uint32_t partition, uint8_t **out, size_t *bytes,
                                     weir_error *err)
{
	ProtobufCMessage *m;
	weir_status status =
	    read_message(r, &r->manifest.partitions[partition].header, &weir__v1__partition_state__descriptor, &m, err);
	if (status)
		return status;
	/* `kept` omits some fields of *s; freeing m frees those too. */
	Weir__V1__PartitionState *s = (Weir__V1__PartitionState *)m, kept = *s;
	Weir__V1__EpochStart epoch = WEIR__V1__EPOCH_START__INIT, *began = &epoch;
	epoch.epoch = 1;
	epoch.first = CHECKPOINT_RESTORE_INDEX;
	for (size_t i = 0; i < s->n_waiting; i++)
		forget_waiting(s, s->waiting[i]);
	kept.index = r->replicated ? CHECKPOINT_RESTORE_INDEX : 0;
	kept.n_epochs = r->replicated; /* earlier epochs belong to the log of the old generation */
	kept.epochs = &began;
	kept.n_waiting = 0;
	status = pack(&kept.base, out, bytes, err);
	wire_destroy(m);
	return status;
}

/* --- Rows */

struct rows_taker {
	checkpoint_restore_fn take;
	void *arg;
	struct row_batch batch;
};

static weir_status take_rows(void *arg, const struct checkpoint_rows *rows, weir_error *err)
{
	struct rows_taker *t = arg;
	size_t floats = (size_t)rows->elements * (1 + rows->slots);
	row_batch_clear(&t->batch);
	for (uint32_t i = 0; i < rows->count; i++) {
		struct row_meta meta = rows->metas[i];
		meta.version = 0;
		if (row_batch_add(&t->batch, rows->table, rows->keys[i], &meta, rows->rows + i * floats, floats))
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for the rows of a checkpoint");
	}
	return t->take(t->arg, &t->batch, err);
}

weir_status checkpoint_restore_rows(struct checkpoint_restore *r, uint32_t partition, enum checkpoint_order order,
                                    checkpoint_restore_fn take, void *arg, weir_error *err)
{
	struct rows_taker t = {.take = take, .arg = arg, .batch = {.partition = partition}};
	weir_status status = checkpoint_read_rows(r->store, &r->manifest, partition, order, take_rows, &t, err);
	row_batch_destroy(&t.batch);
	return status;
}

/* --- The ledger */

static void release_unit(Weir__V1__LedgerUnit *u)
{
	if (u->state == UNIT_LEASED)
		u->state = UNIT_FREE;
}

/* Workers of the old generation have left. A worker that comes under an old name joins anew. */
static void let_go(Weir__V1__LedgerWorker *w)
{
	w->live = false;
	w->left = true;
	w->n_held = 0;
	w->dropped = false;
}

weir_status checkpoint_restore_ledger(struct checkpoint_restore *r, uint8_t **out, size_t *bytes, weir_error *err)
{
	ProtobufCMessage *m;
	weir_status status = read_message(r, &r->manifest.ledger, &weir__v1__ledger_state__descriptor, &m, err);
	if (status)
		return status;
	Weir__V1__LedgerState *s = (Weir__V1__LedgerState *)m, kept = *s;
	Weir__V1__LedgerSteps steps = WEIR__V1__LEDGER_STEPS__INIT;
	Weir__V1__LedgerEpoch epoch = WEIR__V1__LEDGER_EPOCH__INIT, *began = &epoch;
	epoch.epoch = 1;
	epoch.first = CHECKPOINT_RESTORE_INDEX;
	for (size_t i = 0; i < s->n_units; i++)
		release_unit(s->units[i]);
	for (size_t i = 0; i < s->n_workers; i++)
		let_go(s->workers[i]);
	if (s->steps) {
		steps = *s->steps;
		steps.open = false;
		steps.needed = 0;
		/* Closes stay, although every partition has applied them: they tell workers how far the job
		 * has advanced. */
		steps.n_members = 0;
		kept.steps = &steps;
	}
	kept.index = r->replicated ? CHECKPOINT_RESTORE_INDEX : 0;
	kept.n_epochs = r->replicated;
	kept.epochs = &began;
	status = pack(&kept.base, out, bytes, err);
	wire_destroy(m);
	return status;
}

/* --- Into a partition */

static weir_status load_batch(void *arg, struct row_batch *b, weir_error *err)
{
	struct partition *p = arg;
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < b->count && !status; i++)
		status = store_load(partition_store(p), b->items[i].table, b->items[i].key, b->data + b->items[i].offset,
		                    b->items[i].bytes, true, err);
	return status;
}

static weir_status write_batch(void *arg, struct row_batch *b, weir_error *err)
{
	return cold_write(arg, b, err);
}

weir_status checkpoint_restore_partition(struct checkpoint_restore *r, struct partition *p, struct cold *cold, weir_error *err)
{
	const struct checkpoint_manifest *m = &r->manifest;
	uint8_t *state = NULL;
	size_t bytes = 0;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < m->tables_count && !status; i++)
		status = partition_add_table(p, m->tables[i].id, &m->tables[i].spec, err);
	if (!status)
		status = checkpoint_restore_state(r, partition_id(p), &state, &bytes, err);
	if (!status)
		status = partition_state_import(p, state, bytes, err);
	free(state);
	if (!status && cold) /* the row written last stays */
		status = checkpoint_restore_rows(r, partition_id(p), CHECKPOINT_OLDEST_FIRST, write_batch, cold, err);
	else if (!status) /* the row loaded first stays */
		status = checkpoint_restore_rows(r, partition_id(p), CHECKPOINT_NEWEST_FIRST, load_batch, p, err);
	return status;
}
