/* Test certificate authorities and their certificates, in temporary folders. */
#ifndef TLS_FIXTURE_H
#define TLS_FIXTURE_H

#include "common/tls/certificate.h"

struct tls_folder {
	char path[64];
};
void tls_folder_make(struct tls_folder *f); /* the authority lasts one day */
void tls_folder_remove(struct tls_folder *f);
/* Two authorities, with a test group's set-up and tear-down. */
extern struct tls_folder mine, other;
int tls_folders_make(void **state);
int tls_folders_remove(void **state);

/* A certificate of a folder's authority and the paths to use it. The holder trusts `trusted`'s
 * authority. */
struct tls_files {
	char certificate[144], key[144], ca[144];
	weir_security security;
};
void tls_issue(struct tls_files *out, const struct tls_folder *f, const struct tls_folder *trusted, const char *uri,
               uint64_t valid_s);

#endif
