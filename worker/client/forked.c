/* weir_forked: what a forked child does with a client of its parent. A thread of the parent may
 * have held the lock, so nothing is locked: the child reads what was there when it began. */
#include "proto/rpc/rpc_fork.h"
#include "worker/client/client.h"

void weir_forked(const weir_client *c)
{
	const char *addresses[WEIR_SERVERS_MAX + LEDGER_ADDRESSES_MAX];
	size_t count = 0;
	for (uint32_t i = 0; i < c->links_count; i++)
		addresses[count++] = c->links[i]->address;
	for (uint32_t i = 0; i < c->ledger.addresses_count; i++)
		addresses[count++] = c->ledger.addresses[i]->address;
	rpc_fork_give_up(addresses, count);
}
