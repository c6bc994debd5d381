/* How the processes of a job speak to each other: by mutual TLS, each with a certificate that says of which job it is and as what, or in plain text, which without `insecure` goes
 * over loopback and unix sockets alone. */
#ifndef WEIR_SECURITY_H
#define WEIR_SECURITY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Paths of PEM files, all three or none (NULL or empty). The certificate has the URI weir://JOB/ROLE/NAME among its alternative names: ROLE is server, worker or admin. The files are
 * read again every reload_s seconds, so that connections made after they were replaced use the new ones; those that there are stay. */
typedef struct weir_security {
	const char *certificate; /* this process's, and behind it the certificates between it and `ca`, if any */
	const char *key;         /* the certificate's */
	const char *ca;          /* certificates that are trusted, one or several */
	const char *job;         /* of which the certificate must be; NULL: of any */
	uint32_t reload_s;       /* 0: 10 */
	int insecure;            /* plain text to other machines is allowed, where no certificate is given */
} weir_security;

#ifdef __cplusplus
}
#endif
#endif
