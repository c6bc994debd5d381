/* Assignments and the successor of this generation: records that any server may change, with a
 * status as the result. */
#include "server/coord/coord_records_internal.h"

/* --- Assignments */

static void tell_placing(void *arg)
{
	struct coord_records_placing *p = arg;
	p->done(p);
}

static void end_placing(struct coord_records_placing *p, weir_status status)
{
	p->status = status;
	callback_executor_post(&p->run_on, tell_placing, p);
}

static void on_placed(void *arg, const struct coord_answer *result)
{
	struct coord_records_placing *p = arg;
	struct coord_records *a = p->records;
	weir_status status = result->status ? WEIR_E_UNAVAILABLE : WEIR_E_STALE;
	if (!result->status && result->applied) {
		p->record.revision = result->revision;
		if (a->options.placed)
			a->options.placed(a->options.arg, p->partition, &p->record);
		status = WEIR_OK;
	} else if (!result->status && result->count == 1) {
		hosts_take_in(a, p->partition, result->records);
	}
	end_placing(p, status);
}

static void place(struct coord_records *a, struct coord_records_placing *p)
{
	struct message *value = coord_records_pack_assignment(&p->record);
	char key[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	weir_status status = WEIR_E_UNAVAILABLE;
	coord_records_key(a->prefix, COORD_RECORDS_HOSTS, p->partition, key);
	if (value && a->coord) {
		const struct coord_guard guard = {.key = key, .mod_revision = p->record.revision};
		const struct coord_change change = {.key = key, .value = value->spans[0].data, .value_bytes = value->bytes};
		const struct coord_txn txn = {.guards = &guard, .guards_count = 1, .changes = &change, .changes_count = 1};
		status = coord_txn(a->coord, &txn, a->options.timeout_ms, on_placed, p, &err);
	}
	message_release(value);
	if (status)
		end_placing(p, WEIR_E_UNAVAILABLE);
}

void place_all(struct coord_records *a, struct coord_records_placing *list)
{
	for (struct coord_records_placing *p = list, *next; p; p = next) {
		next = p->next;
		place(a, p);
	}
}

/* --- The next generation */

static void tell_succession(void *arg)
{
	struct coord_records_succession *x = arg;
	x->done(x);
}

static void end_succession(struct coord_records_succession *x, weir_status status)
{
	x->status = status;
	callback_executor_post(&x->run_on, tell_succession, x);
}

static void on_succeeded(void *arg, const struct coord_answer *result)
{
	struct coord_records_succession *x = arg;
	struct coord_records *a = x->records;
	weir_status status = WEIR_E_UNAVAILABLE;
	if (!result->status && result->applied) {
		if (a->options.next)
			a->options.next(a->options.arg, &x->record);
		status = WEIR_OK;
	} else if (!result->status && result->count == 1 && next_take_in(a, result->records, &x->record)) {
		status = WEIR_E_EXISTS;
	}
	end_succession(x, status);
}

static void succeed(struct coord_records *a, struct coord_records_succession *x)
{
	struct message *value = coord_records_pack_next(&x->record);
	char key[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	weir_status status = WEIR_E_UNAVAILABLE;
	coord_records_key(a->prefix, COORD_RECORDS_NEXT, 0, key);
	if (value && a->coord) {
		const struct coord_guard guard = {.key = key}; /* requires that there is no record */
		const struct coord_change change = {.key = key, .value = value->spans[0].data, .value_bytes = value->bytes};
		const struct coord_txn txn = {.guards = &guard, .guards_count = 1, .changes = &change, .changes_count = 1};
		status = coord_txn(a->coord, &txn, a->options.timeout_ms, on_succeeded, x, &err);
	}
	message_release(value);
	if (status)
		end_succession(x, WEIR_E_UNAVAILABLE);
}

void succeed_all(struct coord_records *a, struct coord_records_succession *list)
{
	for (struct coord_records_succession *x = list, *next; x; x = next) {
		next = x->next;
		succeed(a, x);
	}
}
