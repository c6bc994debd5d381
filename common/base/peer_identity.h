/* The identity of a process, as its certificate states it in the URI weir://JOB/ROLE/NAME. JOB and
 * NAME consist of letters, digits, '_', '-' and '.'. */
#ifndef WEIR_PRINCIPAL_H
#define WEIR_PRINCIPAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/limits.h"

/* X(NAME, bit, "name"). The role of a process in a job. Roles are bits because several roles may
 * call one method (RPC_METHOD_MAP). */
#define PRINCIPAL_ROLE_MAP(X) \
	X(SERVER, 1, "server")    \
	X(WORKER, 2, "worker")    \
	X(ADMIN, 4, "admin")      \
	X(EVALUATOR, 8, "evaluator")
enum principal_role {
#define PRINCIPAL_ROLE_ENUM(name, bit, text) ROLE_##name = bit,
	PRINCIPAL_ROLE_MAP(PRINCIPAL_ROLE_ENUM)
#undef PRINCIPAL_ROLE_ENUM
};

#define PRINCIPAL_ROLES_BYTES   56u /* the names of all roles, with the NUL */
#define PRINCIPAL_URI_BYTES_MAX (2 * WEIR_NAME_BYTES_MAX + PRINCIPAL_ROLES_BYTES + 16)
#define PRINCIPAL_SCHEME        "weir://"

struct principal {
	char job[WEIR_NAME_BYTES_MAX];
	enum principal_role role;
	char name[WEIR_NAME_BYTES_MAX];
};

/* Parses `bytes` bytes at uri. False: they are not an identity. */
bool principal_parse(struct principal *out, const char *uri, size_t bytes);
void principal_uri(const struct principal *p, char out[PRINCIPAL_URI_BYTES_MAX]);
/* Whether the text may be the JOB or NAME of an identity. */
bool principal_is_name(const char *text);
bool principal_role_parse(enum principal_role *out, const char *text, size_t bytes);
/* Writes "server", or for several roles "worker or admin". */
void principal_roles(unsigned roles, char out[PRINCIPAL_ROLES_BYTES]);

#endif
