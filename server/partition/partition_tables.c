/* The tables of a partition. With other replicas, all of them must know a table before its rows
 * come. So registering a table is an entry of the log: it reaches every replica that takes the log,
 * and snapshots have it. A table is known once its entry is in the log, because a push may follow
 * before the commit is known; the registration is answered once the entry is committed. If the
 * entry is cut off again, the table stays unused and may be registered again. */
#include <assert.h>
#include <stdlib.h>

#include "proto/wire/wire.h"
#include "server/partition/partition_internal.h"

static void table_destroy(struct partition_table *t)
{
	if (!t)
		return;
	delta_base_destroy(t->delta_base);
	free(t->staleness);
	free(t);
}

void partition_free_tables(struct partition *p)
{
	for (uint32_t id = 0; id < p->tables_end; id++) {
		table_destroy(p->tables[id]);
		p->tables[id] = NULL;
	}
	p->tables_end = 0;
}

weir_status partition_add_table(struct partition *p, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	const struct partition_table *known = partition_table(p, id);
	struct wire_table_difference first;
	if (known && wire_table_equal(known->spec, spec, &first))
		return WEIR_OK;
	if (known)
		return weir_fail(err, WEIR_E_EXISTS, "table %u is registered as \"%s\" with %s %g, not %g", id, known->spec->name,
		                 first.field, first.a, first.b);
	weir_status status = store_check_table(p->store, id, spec, p->options.id, p->options.partitions, err);
	struct partition_table *t = status ? NULL : calloc(1, sizeof *t);
	if (!status && !t)
		status = weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", spec->name);
	if (!status)
		status = store_add_table(p->store, id, spec, p->options.id, p->options.partitions, &t->rows, err);
	if (status) {
		table_destroy(t);
		return status;
	}
	t->spec = store_table_spec(t->rows);
	t->optimizer = store_table_optimizer(t->rows);
	t->full_decay = t->spec->kind == WEIR_EMBEDDING && optimizer_is_full_decay(t->optimizer);
	p->tables[id] = t;
	if (id >= p->tables_end)
		p->tables_end = id + 1;
	return WEIR_OK;
}

/* --- As an entry */

weir_status partition_table_record(const struct partition *p, uint32_t id, const weir_table_spec *spec, struct table_record *out)
{
	static const uint8_t nobody[16];
	const struct record r = {.kind = RECORD_TABLE, .partition = (uint16_t)p->options.id};
	struct section s = {.codec = WEIR_CODEC_FP32, .index_codec = INDEX_ALL};
	struct record_writer *w = record_writer_create();
	struct frame_header h;
	struct wire_table wire;
	*out = (struct table_record){0};
	if (!w || wire_table_make(&wire, spec, id)) {
		record_writer_destroy(w);
		return WEIR_E_MEMORY;
	}
	struct message *m = wire_pack(&wire.table.base);
	wire_table_destroy(&wire);
	if (m) {
		s.data_bytes = (uint32_t)m->bytes;
		record_writer_begin(w, &r);
		/* record_writer_end reports it */
		(void)record_writer_add(w, &s, NULL, m->spans[0].data, false);
		if (record_writer_end(w) == WEIR_OK)
			out->frame = record_writer_finish(w, nobody, p->options.generation, NULL, NULL);
	}
	message_release(m);
	record_writer_destroy(w);
	if (!out->frame)
		return WEIR_E_MEMORY;
	struct cursor c = cursor_at(out->frame);
	weir_status status = frame_open(&c, &h, NULL);
	if (!status)
		status = frame_next_record(&c, false, &out->record, &out->body, NULL);
	assert(!status);
	return status;
}

/* The caller frees spec->segments. */
static weir_status read(const struct record *r, struct cursor body, weir_table_spec *spec, uint32_t *id, weir_error *err)
{
	struct section s;
	ProtobufCMessage *m = NULL;
	*spec = (weir_table_spec){0};
	weir_status status = r->sections == 1 ? frame_next_section(&body, &s, err)
	                                      : weir_fail(err, WEIR_E_CORRUPT, "a table in %u sections, expected 1", r->sections);
	if (status)
		return status;
	const size_t n = s.data.left;
	uint8_t *bytes = malloc(n + 1);
	status = bytes ? cursor_read(&s.data, bytes, n) : weir_fail(err, WEIR_E_MEMORY, "out of memory for a table");
	if (!status)
		status = wire_unpack_state(&weir__v1__table__descriptor, bytes, n, &m, err);
	free(bytes);
	if (!status)
		status = wire_table_read((const Weir__V1__Table *)m, spec, id, err);
	wire_destroy(m);
	return status;
}

/* Makes the table known: from now on its rows may come, after a restart too. Keeps it first,
 * because the header has all tables that the partition knows. NULL: failed. */
static struct partition_table *know(struct partition *p, const struct record *r, struct cursor body, weir_error *err)
{
	const struct partition_host *host = &p->options.host;
	weir_table_spec spec;
	uint32_t id = 0;
	weir_status status = read(r, body, &spec, &id, err);
	if (!status && host->ops && host->ops->keep_table && !partition_table(p, id))
		status = host->ops->keep_table(host->arg, id, &spec, err);
	if (!status)
		status = partition_add_table(p, id, &spec, err);
	free((void *)(uintptr_t)spec.segments);
	return status ? NULL : p->tables[id];
}

weir_status submit_table(struct submission *s, struct log_entry *e)
{
	const struct partition_table *t = know(s->p, s->r, *s->body, &s->err);
	if (!t)
		return s->err.status;
	return t->is_logged ? WEIR_OK : submission_enter(s, e);
}

weir_status table_take(struct partition *p, const struct log_entry *e, weir_error *err)
{
	return know(p, &e->record, e->body, err) ? WEIR_OK : err->status;
}

weir_status table_apply(struct partition *p, const struct log_entry *e)
{
	weir_error err = {0};
	struct partition_table *t = know(p, &e->record, e->body, &err);
	if (t)
		t->is_logged = true;
	return t ? WEIR_OK : err.status;
}
