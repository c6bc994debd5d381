/* A server whose log is in memory, in a job without replicas, restarts with nothing under its old
 * name. Its process id (`boot`), drawn at random by each process, distinguishes it from the process
 * before. A caller that knows another process id is refused for good (E_LOST), so that it does not
 * train on with what is left. */
#include "server/service/server_internal.h"

uint64_t server_volatile_boot(const struct server *s)
{
	return s->durable || s->standing.folder ? 0 : s->options.boot;
}

weir_status server_check_boot(const struct server *s, uint64_t boot, weir_error *err)
{
	const uint64_t own = server_volatile_boot(s);
	if (!own || !boot || boot == own)
		return WEIR_OK;
	return weir_fail(
	    err, WEIR_E_LOST,
	    "%s was started again and has lost what it held, as its log is in memory (cluster.log: memory): stop the job's "
	    "workers and servers, and start it anew",
	    s->name);
}

weir_status server_check_ledger_boot(struct server *s, uint64_t boot, weir_error *err)
{
	uint64_t known = 0;
	if (s->ledger_loop)
		return server_check_boot(s, boot, err);
	if (!server_volatile_boot(s) || !boot || atomic_compare_exchange_strong(&s->ledger_boot, &known, boot) || known == boot)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_LOST,
	                 "%s has rows of a job whose ledger is lost: server 0 was started again, and its log is in memory "
	                 "(cluster.log: memory): stop the job's workers and servers, and start it anew",
	                 s->name);
}
