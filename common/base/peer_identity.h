/* The identity of a process, as its certificate states it in the URI weir://JOB/ROLE/NAME. JOB and
 * NAME consist of letters, digits, '_', '-' and '.'. */
#ifndef WEIR_PEER_IDENTITY_H
#define WEIR_PEER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/limits.h"

/* X(NAME, bit, "name"). The role of a process in a job. Roles are bits because several roles may
 * call one method (RPC_METHOD_MAP). */
#define PEER_ROLE_MAP(X)   \
	X(SERVER, 1, "server") \
	X(WORKER, 2, "worker") \
	X(ADMIN, 4, "admin")   \
	X(EVALUATOR, 8, "evaluator")
enum peer_role {
#define PEER_ROLE_ENUM(name, bit, text) ROLE_##name = bit,
	PEER_ROLE_MAP(PEER_ROLE_ENUM)
#undef PEER_ROLE_ENUM
};

#define PEER_ROLES_BYTES            56u /* the names of all roles, with the NUL */
#define PEER_IDENTITY_URI_BYTES_MAX (2 * WEIR_NAME_BYTES_MAX + PEER_ROLES_BYTES + 16)
#define PEER_IDENTITY_SCHEME        "weir://"

struct peer_identity {
	char job[WEIR_NAME_BYTES_MAX];
	enum peer_role role;
	char name[WEIR_NAME_BYTES_MAX];
};

/* Parses `bytes` bytes at uri. False: they are not an identity. */
bool peer_identity_parse(struct peer_identity *out, const char *uri, size_t bytes);
void peer_identity_uri(const struct peer_identity *p, char out[PEER_IDENTITY_URI_BYTES_MAX]);
/* Whether the text may be the JOB or NAME of an identity. */
bool peer_identity_is_name(const char *text);
bool peer_role_parse(enum peer_role *out, const char *text, size_t bytes);
/* Writes "server", or for several roles "worker or admin". */
void peer_roles(unsigned roles, char out[PEER_ROLES_BYTES]);

#endif
