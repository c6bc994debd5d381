/* Connections after a fork. A forked child inherits the sockets of its parent, and a connection
 * ends for its peer only once every process has given it up: while the child lives, a server would
 * not see that the parent was killed. */
#ifndef WEIR_RPC_FORK_H
#define WEIR_RPC_FORK_H

#include <stddef.h>

/* In a forked child: gives up the sockets that are connected to these addresses ("unix:/path",
 * "HOST:PORT"), and all lanes. Their numbers stay taken, by /dev/null, since the parent's objects
 * in the child's memory name them. A host that is given by name is known by its port alone: a child
 * must not wait for DNS. */
void rpc_fork_give_up(const char *const *addresses, size_t count);

#endif
