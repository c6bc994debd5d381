/* Shared by certificate.c, certificate_issue.c and ingress.c, the files that use OpenSSL's
 * certificate types. */
#ifndef WEIR_CERTIFICATE_INTERNAL_H
#define WEIR_CERTIFICATE_INTERNAL_H

#include <openssl/x509.h>

#include "common/tls/certificate.h"

/* Parses all certificates of a text, at least one; path: for messages. Free with
 * sk_X509_pop_free(*out, X509_free). */
weir_status certificate_parse(const char *text, const char *path, STACK_OF(X509) * *out, weir_error *err);
weir_status certificate_parse_key(const char *text, const char *path, EVP_PKEY **out, weir_error *err);
weir_status certificate_read(const char *path, char **out, weir_error *err);
/* The identity that the certificate states; false: none of a job. */
bool certificate_peer_identity(const X509 *x, struct peer_identity *out);
/* Erases the text from memory and frees it; NULL is allowed. */
void certificate_forget(char *text);

#endif
