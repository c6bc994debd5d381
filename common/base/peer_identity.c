#include "common/base/peer_identity.h"

#include <stdio.h>
#include <string.h>

static const struct {
	enum peer_role role;
	const char *text;
} roles_known[] = {
#define PEER_ROLE_ROW(name, bit, text) {ROLE_##name, text},
    PEER_ROLE_MAP(PEER_ROLE_ROW)
#undef PEER_ROLE_ROW
};
#define ROLES (sizeof roles_known / sizeof *roles_known)

bool peer_identity_is_name(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	const size_t bytes = strlen(text);
	return bytes > 0 && bytes < WEIR_NAME_BYTES_MAX && text[0] != '.' && text[strspn(text, letters)] == '\0';
}

bool peer_role_parse(enum peer_role *out, const char *text, size_t bytes)
{
	for (size_t i = 0; i < ROLES; i++)
		if (strlen(roles_known[i].text) == bytes && memcmp(roles_known[i].text, text, bytes) == 0) {
			*out = roles_known[i].role;
			return true;
		}
	return false;
}

void peer_roles(unsigned roles, char out[PEER_ROLES_BYTES])
{
	size_t n = 0;
	out[0] = '\0';
	for (size_t i = 0; i < ROLES; i++)
		if (roles & roles_known[i].role)
			n += (size_t)snprintf(out + n, PEER_ROLES_BYTES - n, "%s%s", n ? " or " : "", roles_known[i].text);
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
	return strlen(out) == bytes && peer_identity_is_name(out);
}

bool peer_identity_parse(struct peer_identity *out, const char *uri, size_t bytes)
{
	const size_t scheme = strlen(PEER_IDENTITY_SCHEME);
	const char *at = uri + scheme, *end = uri + bytes;
	char role[WEIR_NAME_BYTES_MAX];
	return bytes > scheme && memcmp(uri, PEER_IDENTITY_SCHEME, scheme) == 0 && take_name(out->job, &at, end) &&
	       take_name(role, &at, end) && peer_role_parse(&out->role, role, strlen(role)) && take_name(out->name, &at, end) &&
	       at == end && end[-1] != '/';
}

void peer_identity_uri(const struct peer_identity *p, char out[PEER_IDENTITY_URI_BYTES_MAX])
{
	char role[PEER_ROLES_BYTES];
	peer_roles(p->role, role);
	snprintf(out, PEER_IDENTITY_URI_BYTES_MAX, PEER_IDENTITY_SCHEME "%s/%s/%s", p->job, role, p->name);
}
