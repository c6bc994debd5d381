/* X.509 certificates, by OpenSSL's libcrypto: checks of a process's own certificate before use, and
 * a small certificate authority for development. No text or message ever contains any part of a
 * key. */
#ifndef WEIR_CERTIFICATE_H
#define WEIR_CERTIFICATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/peer_identity.h"
#include "weir/security.h"
#include "weir/status.h"

#define CERTIFICATE_BYTES_MAX (1u << 20) /* one file */
#define CERTIFICATE_HOSTS_MAX 16u

/* The certificate, key and trusted certificates of a process, as PEM. */
struct certificates {
	char *certificate, *key, *ca;
	struct peer_identity who; /* as the certificate states */
};

/* Reads the files and checks what a peer will check: the files exist, the key belongs to the
 * certificate, and the certificate is valid now, signed by one that `ca` trusts, and names an
 * identity. E_NOT_FOUND, E_IO, E_LIMIT, E_PARSE, E_INVALID: the text names the file and says what
 * to do, and *out is empty. */
weir_status certificates_load(struct certificates *out, const weir_security *security, weir_error *err) WEIR_MUST_CHECK;
void certificates_destroy(struct certificates *c); /* erases the key from memory */
/* Seconds for which the certificate (PEM, `bytes` long) remains valid; 0: expired, or not a
 * certificate. */
uint64_t certificate_seconds_left(const char *pem, size_t bytes);
/* Whether the files would load. */
weir_status certificates_check(const weir_security *security, weir_error *err) WEIR_MUST_CHECK;

/* Creates an authority in folder `dir`, which it also creates: ca.crt and ca.key, valid from five
 * minutes ago until valid_s seconds from now. E_EXISTS: the folder has an authority; replacing it
 * would make its certificates worthless. Only the owner can read the files; keys use the curve
 * P-256. */
weir_status certificate_authority(const char *dir, uint64_t valid_s, weir_error *err) WEIR_MUST_CHECK;

struct certificate_order {
	struct peer_identity who; /* role 0: no role in a job, only the hosts: for etcd */
	const char *hosts[CERTIFICATE_HOSTS_MAX];
	/* names or IP addresses, for clients that check them: etcd and its clients */
	uint32_t hosts_count;
	uint64_t valid_s;
};
/* Issues a certificate of that authority: dir/NAME.crt and dir/NAME.key, NAME being who.name.
 * Replaces existing files. */
weir_status certificate_issue(const char *dir, const struct certificate_order *order, weir_error *err) WEIR_MUST_CHECK;

#endif
