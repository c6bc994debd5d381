/* X.509 certificates, by OpenSSL's libcrypto: what a process checks of its own before it uses it, and a small authority for development. Nothing of a key is ever in a text. */
#ifndef WEIR_CERTIFICATE_H
#define WEIR_CERTIFICATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/peer_identity.h"
#include "weir/security.h"
#include "weir/status.h"

#define CERTIFICATE_BYTES_MAX (1u << 20) /* of a file */
#define CERTIFICATE_HOSTS_MAX 16u

/* What a process shows and believes, as PEM. */
struct certificates {
	char *certificate, *key, *ca;
	struct principal who; /* by its certificate */
};

/* Reads the files and checks of them what a peer will: that they are there, that the key is the certificate's, that it is valid now, signed by one that `ca` trusts, and says who this
 * is. E_NOT_FOUND, E_IO, E_LIMIT, E_PARSE, E_INVALID: the text names the file and says what to do, and *out is empty. */
weir_status certificates_load(struct certificates *out, const weir_security *security, weir_error *err) WEIR_MUST_CHECK;
void certificates_free(struct certificates *c); /* leaves nothing of the key in memory */
/* For so long is the certificate, PEM and `bytes` long, valid still; 0: no more, or there is none. */
uint64_t certificate_seconds_left(const char *pem, size_t bytes);
/* Whether they would load. */
weir_status certificates_check(const weir_security *security, weir_error *err) WEIR_MUST_CHECK;

/* An authority in folder `dir`, which is made: ca.crt and ca.key, valid from five minutes ago for valid_s seconds from now. E_EXISTS: there is one, whose certificates would be worth
 * nothing. All files are readable by their owner alone; keys are of the curve P-256. */
weir_status certificate_authority(const char *dir, uint64_t valid_s, weir_error *err) WEIR_MUST_CHECK;

struct certificate_order {
	struct principal who; /* role 0: nobody in a job, only the hosts: for etcd */
	const char *hosts[CERTIFICATE_HOSTS_MAX];
	uint32_t hosts_count; /* names or IP addresses, for those who ask for that: etcd and its clients */
	uint64_t valid_s;
};
/* A certificate of that authority: dir/NAME.crt and dir/NAME.key, NAME being who.name, in place of those that were there. */
weir_status certificate_issue(const char *dir, const struct certificate_order *order, weir_error *err) WEIR_MUST_CHECK;

#endif
