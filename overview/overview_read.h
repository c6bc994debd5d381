/* Builds overviews from the wire's status messages: of a whole job, from the ledger's status and
 * then every server's; or of one server. */
#ifndef WEIR_OVERVIEW_READ_H
#define WEIR_OVERVIEW_READ_H

#include "overview/overview.h"
#include "proto/wire/wire.h"

/* Reads into an all-zero overview; free it with overview_destroy, also after an error. Errors: the
 * ledger's own refusal, E_CORRUPT, E_MEMORY. */
weir_status overview_read_ledger(struct overview *s, const Weir__V1__LedgerStatus *in, weir_error *err) WEIR_MUST_CHECK;
/* Adds server `index` of the ledger's list. A server of another generation counts as not
 * answering. */
void overview_read_server(struct overview *s, uint32_t index, const Weir__V1__ServerStatus *in);
/* Adds the status of server `index` to an overview that is all zero or has the ledger's status; it
 * then describes this server alone. E_MEMORY. */
weir_status overview_read_alone(struct overview *s, uint32_t index, const Weir__V1__ServerStatus *in,
                                weir_error *err) WEIR_MUST_CHECK;

#endif
