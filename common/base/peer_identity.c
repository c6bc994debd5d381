#include "common/base/peer_identity.h"

#include <stdio.h>
#include <string.h>

static const struct {
	enum principal_role role;
	const char *text;
} roles_known[] = {
#define PRINCIPAL_ROLE_ROW(name, bit, text) {ROLE_##name, text},
    PRINCIPAL_ROLE_MAP(PRINCIPAL_ROLE_ROW)
#undef PRINCIPAL_ROLE_ROW
};
#define ROLES (sizeof roles_known / sizeof *roles_known)

bool principal_is_name(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	const size_t bytes = strlen(text);
	return bytes > 0 && bytes < WEIR_NAME_BYTES_MAX && text[0] != '.' && text[strspn(text, letters)] == '\0';
}

bool principal_role_parse(enum principal_role *out, const char *text, size_t bytes)
{
	for (size_t i = 0; i < ROLES; i++)
		if (strlen(roles_known[i].text) == bytes && memcmp(roles_known[i].text, text, bytes) == 0) {
			*out = roles_known[i].role;
			return true;
		}
	return false;
}

void principal_roles(unsigned roles, char out[PRINCIPAL_ROLES_BYTES])
{
	size_t n = 0;
	out[0] = '\0';
	for (size_t i = 0; i < ROLES; i++)
		if (roles & roles_known[i].role)
			n += (size_t)snprintf(out + n, PRINCIPAL_ROLES_BYTES - n, "%s%s", n ? " or " : "", roles_known[i].text);
}

/* Copies the text up to the next '/' or the end to out, and moves *at past it. False: too long, or
 * not a name. */
static bool take_name(char out[WEIR_NAME_BYTES_MAX], const char **at, const char *end)
{
	const char *slash = memchr(*at, '/', (size_t)(end - *at));
	const size_t bytes = (size_t)((slash ? slash : end) - *at);
	if (bytes >= WEIR_NAME_BYTES_MAX)
		return false;
	memcpy(out, *at, bytes);
	out[bytes] = '\0';
	*at += bytes + (slash != NULL);
	return strlen(out) == bytes && principal_is_name(out);
}

bool principal_parse(struct principal *out, const char *uri, size_t bytes)
{
	const size_t scheme = strlen(PRINCIPAL_SCHEME);
	const char *at = uri + scheme, *end = uri + bytes;
	char role[WEIR_NAME_BYTES_MAX];
	return bytes > scheme && memcmp(uri, PRINCIPAL_SCHEME, scheme) == 0 && take_name(out->job, &at, end) &&
	       take_name(role, &at, end) && principal_role_parse(&out->role, role, strlen(role)) && take_name(out->name, &at, end) &&
	       at == end && end[-1] != '/';
}

void principal_uri(const struct principal *p, char out[PRINCIPAL_URI_BYTES_MAX])
{
	char role[PRINCIPAL_ROLES_BYTES];
	principal_roles(p->role, role);
	snprintf(out, PRINCIPAL_URI_BYTES_MAX, PRINCIPAL_SCHEME "%s/%s/%s", p->job, role, p->name);
}
