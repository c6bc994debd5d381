/* Shared by certificate.c, certificate_issue.c and ingress.c: the files that see OpenSSL's
 * certificates. */
#ifndef WEIR_CERTIFICATE_INTERNAL_H
#define WEIR_CERTIFICATE_INTERNAL_H

#include <openssl/x509.h>

#include "common/tls/certificate.h"

/* All certificates of a text, at least one; path: for messages. Free with sk_X509_pop_free(*out, X509_free). */
weir_status certificate_parse(const char *text, const char *path, STACK_OF(X509) * *out, weir_error *err);
weir_status certificate_parse_key(const char *text, const char *path, EVP_PKEY **out, weir_error *err);
weir_status certificate_read(const char *path, char **out, weir_error *err);
/* Who it says that its holder is; false: nobody in a job. */
bool certificate_principal(const X509 *x, struct principal *out);
void certificate_forget(char *text); /* frees it, and leaves nothing of it in memory; NULL is allowed */

#endif
