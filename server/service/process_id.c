/* A server whose log is in memory, in a job without replicas, restarts with nothing under its old
 * name. Its process id (`boot`), drawn at random by each process, distinguishes it from the process
 * before. A caller that knows another process id is refused for good (E_LOST), so that it does not
 * train on with what is left. */
#include "server/service/server_internal.h"

uint64_t server_volatile_process_id(const struct server *s)
{
	return s->durable || s->identity.folder ? 0 : s->options.process_id;
}

weir_status server_check_process_id(const struct server *s, uint64_t process_id, weir_error *err)
{
	const uint64_t own = server_volatile_process_id(s);
	if (!own || !process_id || process_id == own)
		return WEIR_OK;
	return weir_fail(
	    err, WEIR_E_LOST,
	    "%s was started again and has lost what it held, as its log is in memory (cluster.log: memory): stop the job's "
	    "workers and servers, and start it anew",
	    s->name);
}

weir_status server_check_ledger_process_id(struct server *s, uint64_t process_id, weir_error *err)
{
	uint64_t known = 0;
	if (s->ledger_loop)
		return server_check_process_id(s, process_id, err);
	if (!server_volatile_process_id(s) || !process_id ||
	    atomic_compare_exchange_strong(&s->ledger_process_id, &known, process_id) || known == process_id)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_LOST,
	                 "%s has rows of a job whose ledger is lost: server 0 was started again, and its log is in memory "
	                 "(cluster.log: memory): stop the job's workers and servers, and start it anew",
	                 s->name);
}
