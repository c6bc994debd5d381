/* Who somebody is: what the certificate of a process says of it, as the URI weir://JOB/ROLE/NAME. JOB and NAME are of letters, digits, '_', '-' and '.'. */
#ifndef WEIR_PRINCIPAL_H
#define WEIR_PRINCIPAL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/limits.h"

/* X(NAME, bit, "name"). As what a process takes part: bits, as a method may be several roles' (RPC_METHOD_MAP). */
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

#define PRINCIPAL_ROLES_BYTES   56u /* of all roles' names, with the NUL */
#define PRINCIPAL_URI_BYTES_MAX (2 * WEIR_NAME_BYTES_MAX + PRINCIPAL_ROLES_BYTES + 16)
#define PRINCIPAL_SCHEME        "weir://"

struct principal {
	char job[WEIR_NAME_BYTES_MAX];
	enum principal_role role;
	char name[WEIR_NAME_BYTES_MAX];
};

/* False: the `bytes` bytes at uri are none. */
bool principal_parse(struct principal *out, const char *uri, size_t bytes);
void principal_uri(const struct principal *p, char out[PRINCIPAL_URI_BYTES_MAX]);
/* Whether it may be a principal's JOB or NAME. */
bool principal_is_name(const char *text);
bool principal_role_parse(enum principal_role *out, const char *text, size_t bytes);
/* "server", or of several roles "worker or admin". */
void principal_roles(unsigned roles, char out[PRINCIPAL_ROLES_BYTES]);

#endif
