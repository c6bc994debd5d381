/* Limits on connections and frames of a server's peers, enforced before gRPC sees them.
 *
 * gRPC 1.51 has no hook for such limits, so they lie below it: ingress.c defines listen, accept4,
 * recvmsg, close, SSL_do_handshake and SSL_read, replacing those of libc and OpenSSL. gRPC calls
 * these, and each calls the real one. For a descriptor or an SSL that was not accepted here they do
 * nothing else. So only weir-server links ingress.c.
 *
 * - A connection whose frames cost too much (h2_scan.h) is cut before gRPC reads them.
 * - With TLS, the handshake refuses a peer whose certificate is not of this job.
 * - A connection is new until it has sent a whole header block (TLS: as many bytes as a handshake
 *   takes). At most WEIR_CONNECTIONS_NEW_MAX connections are new, and
 *   WEIR_CONNECTIONS_NEW_PER_ADDRESS of one address. The next one displaces the oldest.
 * - At most WEIR_SOCKETS_MAX connections are open, and WEIR_SOCKETS_PER_ADDRESS_MAX of one address.
 *   An address may open WEIR_CONNECTS_PER_S more each second. Connections beyond that are refused
 *   (refused.h). A connection that is cut or whose handshake fails counts as several. */
#ifndef WEIR_INGRESS_H
#define WEIR_INGRESS_H

#include <stdint.h>

#include "common/system/logger.h"

struct ingress_options {
	const char *job;       /* job that peers' certificates must name; NULL: plain text */
	struct logger *logger; /* may be NULL; outlives the connections */
};
/* From here until ingress_stop, all sockets on which this process begins to listen are watched.
 * Call once. */
void ingress_begin(const struct ingress_options *options);
void ingress_stop(void);

/* The connection has proven itself otherwise. */
void ingress_trust(int fd);

struct ingress_counts {
	uint64_t connections; /* open now */
	/* So far: cut for frames; refused for number or rate; refused for certificate. */
	uint64_t cut, refused, wrong_peer;
};
void ingress_counts(struct ingress_counts *out);

#endif
