/* Checks common to all coordinators. */
#include "proto/coord/coord.h"

#include <assert.h>
#include <string.h>

#include "common/base/limits.h"

bool coord_name_is_prefix(const char *name)
{
	return name[strlen(name) - 1] == '/';
}

bool coord_name_covers(const char *name, const char *key)
{
	return coord_name_is_prefix(name) ? strncmp(name, key, strlen(name)) == 0 : strcmp(name, key) == 0;
}

static weir_status check_name(const char *name, bool prefix_allowed, weir_error *err)
{
	size_t n = strlen(name);
	if (n >= WEIR_COORD_KEY_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "coordinator: name '%.40s...' has %zu bytes, at most %u", name, n,
		                 WEIR_COORD_KEY_BYTES_MAX - 1);
	if (name[0] != '/' || (!prefix_allowed && coord_name_is_prefix(name)))
		return weir_fail(err, WEIR_E_INVALID, "coordinator: '%s' is not a key: it begins with '/' and does not end with it",
		                 name);
	return WEIR_OK;
}

weir_status coord_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err)
{
	weir_status status = check_name(name, true, err);
	return status ? status : c->ops->read(c, name, timeout_ms, done, arg, err);
}

static weir_status check_change(const struct coord_txn *t, uint32_t i, weir_error *err)
{
	const struct coord_change *change = &t->changes[i];
	weir_status status = check_name(change->key, false, err);
	if (status)
		return status;
	if (change->value && change->value_bytes > WEIR_COORD_VALUE_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "coordinator: the value of %s has %zu bytes, at most %u", change->key,
		                 change->value_bytes, WEIR_COORD_VALUE_BYTES_MAX);
	for (uint32_t j = 0; j < i; j++)
		if (strcmp(t->changes[j].key, change->key) == 0)
			return weir_fail(err, WEIR_E_INVALID, "coordinator: a transaction changes %s twice", change->key);
	return WEIR_OK;
}

weir_status coord_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                      weir_error *err)
{
	if (txn->guards_count > WEIR_COORD_TXN_MAX || txn->changes_count > WEIR_COORD_TXN_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "coordinator: a transaction of %u guards and %u changes, at most %u each",
		                 txn->guards_count, txn->changes_count, WEIR_COORD_TXN_MAX);
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < txn->guards_count && !status; i++)
		status = check_name(txn->guards[i].key, false, err);
	for (uint32_t i = 0; i < txn->changes_count && !status; i++)
		status = check_change(txn, i, err);
	return status ? status : c->ops->txn(c, txn, timeout_ms, done, arg, err);
}

struct coord_watch *coord_watch_start(struct coord *c, const char *name, uint64_t revision,
                                      const struct coord_watch_handler *handler, void *arg)
{
	assert(revision > 1 && check_name(name, true, NULL) == WEIR_OK);
	return c->ops->watch_start(c, name, revision, handler, arg);
}

void coord_watch_stop(struct coord_watch *w)
{
	if (w)
		w->coord->ops->watch_stop(w);
}

void coord_close(struct coord *c)
{
	if (c)
		c->ops->close(c);
}
