/* This server in the coordinator's records: its address, leased; its last start, which stays; and
 * its mark. Each change of a partition's record is guarded by the start record. So of two processes
 * with the same server number, only the later one can change a record. */
#include <string.h>

#include "server/coord/coord_records_internal.h"

/* --- The coordinator's records of this server */

/* In-sync sets name servers by number: two processes with one number would both act on them. */
static void displace(struct coord_records *a, const char *why, const char *address)
{
	weir_error err = {0};
	if (!a->options.displaced)
		return;
	(void)weir_fail(&err, WEIR_E_EXISTS, why, a->options.self, address);
	a->displaced = true;
	a->options.displaced(a->options.arg, &err);
}

static bool understand_server(struct coord_records *a, const struct coord_record *r, char *address, uint64_t *incarnation)
{
	weir_error err = {0};
	if (!coord_records_unpack_server(r->value, r->value_bytes, address, incarnation, &err))
		return true;
	LOG_AT(a->options.logger, LOG_ERROR, "record not understood", "key=%s %s", r->key, err.text);
	return false;
}

static bool is_displaced(struct coord_records *a, const char *address, uint64_t incarnation)
{
	if (incarnation > a->options.incarnation)
		displace(a, "server %u of this job was started again, at %s, while this process was away: that one goes on", address);
	return a->displaced;
}

/* A server's last start stays recorded. So a process that wakes up after its replacement came and
 * went does not count any more either. */
void start_take_in(struct coord_records *a, uint16_t server, const struct coord_record *r)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	uint64_t incarnation = 0;
	if (server != a->options.self || !a->options.address || r->mod_revision < a->start_revision ||
	    (r->value && !understand_server(a, r, address, &incarnation)) || is_displaced(a, address, incarnation))
		return;
	a->start_revision = r->value ? r->mod_revision : 0;
	a->started = r->value && incarnation == a->options.incarnation;
}

/* Until this start is recorded, a live process at another address keeps its place. A record with
 * this server's own address belongs to a dead process. */
void server_take_in(struct coord_records *a, uint16_t server, const struct coord_record *r)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	uint64_t incarnation;
	const bool is_self = server == a->options.self && a->options.address;
	if (is_self)
		a->self_revision = r->value ? r->mod_revision : 0;
	if (r->value && !understand_server(a, r, address, &incarnation))
		return;
	if (is_self && r->value && !is_displaced(a, address, incarnation) && !a->started && !a->announcing &&
	    strcmp(address, a->options.address) != 0)
		displace(a,
		         "server %u of this job lives, at %s: stop that one first (if it was killed, its lease ends within seconds), or "
		         "give another job another --uuid",
		         address);
	if (a->options.server)
		a->options.server(a->options.arg, server, r->value ? address : NULL);
}

/* --- Announcing this server */

static void on_announced(void *arg, const struct coord_answer *result)
{
	struct coord_records *a = arg;
	a->announcing = false;
	a->announced = !result->status && result->applied;
	if (a->announced) {
		a->self_revision = a->start_revision = result->revision;
		a->started = true;
	} else if (!result->status) { /* another process was quicker: find out which */
		records_missed(a);
	}
}

/* Stores the record once it is known that no other process is this server. */
void self_announce(struct coord_records *a)
{
	char self[WEIR_COORD_KEY_BYTES_MAX], start[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	if (!a->coord || !a->options.address || a->announced || a->announcing || a->stale || a->displaced)
		return;
	struct message *value = coord_records_pack_server(a->options.address, a->options.incarnation);
	if (!value)
		return; /* retried at a tick */
	coord_records_key(a->prefix, COORD_RECORDS_SERVER, a->options.self, self);
	coord_records_key(a->prefix, COORD_RECORDS_START, a->options.self, start);
	const struct coord_guard guards[] = {{.key = self, .mod_revision = a->self_revision},
	                                     {.key = start, .mod_revision = a->start_revision}};
	const struct coord_change changes[] = {
	    {.key = self, .value = value->spans[0].data, .value_bytes = value->bytes, .leased = true},
	    {.key = start, .value = value->spans[0].data, .value_bytes = value->bytes}};
	const struct coord_txn txn = {.guards = guards, .guards_count = 2, .changes = changes, .changes_count = 2};
	a->announcing = coord_txn(a->coord, &txn, a->options.timeout_ms, on_announced, a, &err) == WEIR_OK;
	message_release(value);
}

/* --- The mark. Of two processes with one number only the later one moves it. */

static void tell_marking(void *arg)
{
	struct coord_records_marking *m = arg;
	m->done(m);
}

static void end_marking(struct coord_records_marking *m, weir_status status)
{
	m->status = status;
	callback_executor_post(&m->run_on, tell_marking, m);
}

static void on_marked(void *arg, const struct coord_answer *result)
{
	struct coord_records_marking *m = arg;
	struct coord_records *a = m->records;
	char key[WEIR_COORD_KEY_BYTES_MAX];
	coord_records_mark_key(a->options.uuid, a->options.self, key);
	if (!result->status && result->applied)
		a->mark_revision = result->revision;
	for (uint32_t i = 0; !result->status && !result->applied && i < result->count; i++)
		if (strcmp(result->records[i].key, key) == 0)
			a->mark_revision = result->records[i].mod_revision;
	end_marking(m, !result->status && result->applied ? WEIR_OK : WEIR_E_UNAVAILABLE);
}

void self_mark(struct coord_records *a, struct coord_records_marking *m)
{
	char key[WEIR_COORD_KEY_BYTES_MAX], start[WEIR_COORD_KEY_BYTES_MAX];
	weir_error err = {0};
	weir_status status = WEIR_E_UNAVAILABLE;
	coord_records_mark_key(a->options.uuid, a->options.self, key);
	coord_records_key(a->prefix, COORD_RECORDS_START, a->options.self, start);
	struct message *value = a->coord && a->started ? coord_records_pack_mark(&m->mark) : NULL;
	if (value) {
		const struct coord_guard guards[] = {{.key = key, .mod_revision = a->mark_revision},
		                                     {.key = start, .mod_revision = a->start_revision}};
		const struct coord_change change = {.key = key, .value = value->spans[0].data, .value_bytes = value->bytes};
		const struct coord_txn txn = {.guards = guards, .guards_count = 2, .changes = &change, .changes_count = 1};
		status = coord_txn(a->coord, &txn, a->options.timeout_ms, on_marked, m, &err);
	}
	message_release(value);
	if (status)
		end_marking(m, WEIR_E_UNAVAILABLE);
}
