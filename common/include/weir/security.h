/* Security of the connections between the processes of a job. With certificates, connections use
 * mutual TLS, and each certificate names its job and role. Without certificates, connections use
 * plain text, which is allowed only over loopback and unix sockets unless `insecure` is set. */
#ifndef WEIR_SECURITY_H
#define WEIR_SECURITY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Paths of PEM files: give all three or none (NULL or empty). The certificate must have the URI
 * weir://JOB/ROLE/NAME among its alternative names; ROLE is server, worker, admin or evaluator. The
 * files are read again every reload_s seconds. New connections use the new files; existing
 * connections stay open. */
typedef struct weir_security {
	/* this process's certificate, followed by any intermediate ones up to `ca` */
	const char *certificate;
	const char *key;   /* private key of the certificate */
	const char *ca;    /* one or more trusted certificates */
	const char *job;   /* the job that certificates must name; NULL: any job */
	uint32_t reload_s; /* 0: 10 seconds */
	int insecure;      /* without certificates, allow plain text to other machines */
} weir_security;

#ifdef __cplusplus
}
#endif
#endif
