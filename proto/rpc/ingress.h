/* What peers of a server may send, and how many connections they may have, before gRPC takes any
 * of it in.
 *
 * gRPC 1.51 has no place for such limits, so they stand below it: ingress.c defines listen,
 * accept4, recvmsg, close, SSL_do_handshake and SSL_read in place of libc's and OpenSSL's. gRPC
 * calls these, and each calls the real one. For a descriptor or an SSL that was not accepted here
 * they do nothing more. So ingress.c is linked into weir-server alone.
 *
 * - A connection whose frames cost too much (h2_scan.h) is cut before gRPC reads them.
 * - With TLS, a peer whose certificate is not of this job is refused in the handshake.
 * - A connection is new until it has sent a whole header block (TLS: as many bytes as a handshake
 *   takes). There are at most WEIR_CONNECTIONS_NEW_MAX new ones, of one address
 *   WEIR_CONNECTIONS_NEW_PER_ADDRESS; the oldest goes for the next.
 * - Of all there are WEIR_SOCKETS_MAX, of one address WEIR_SOCKETS_PER_ADDRESS_MAX and
 *   WEIR_CONNECTS_PER_S more a second; others are closed at once. */
#ifndef WEIR_INGRESS_H
#define WEIR_INGRESS_H

#include <stdint.h>

#include "common/system/logger.h"

struct ingress_options {
	const char *job;       /* that peers' certificates must name; NULL: plain text */
	struct logger *logger; /* or NULL; outlives the connections */
};
/* What this process begins to listen at from now on, until ingress_end, is watched. Once. */
void ingress_begin(const struct ingress_options *options);
void ingress_end(void);

struct ingress_counts {
	uint64_t connections;              /* that are open */
	uint64_t cut, refused, wrong_peer; /* so far: for their frames; for their number; for their certificate */
};
void ingress_counts(struct ingress_counts *out);

#endif
