/* Overviews from the wire's status messages: of a whole job, the ledger's first and then every server's; or of one server alone. */
#ifndef WEIR_OVERVIEW_READ_H
#define WEIR_OVERVIEW_READ_H

#include "overview/overview.h"
#include "proto/wire/wire.h"

/* Into one that is all zero; free it with overview_free also after an error. What the ledger refuses, E_CORRUPT, E_MEMORY. */
weir_status overview_read_ledger(struct overview *s, const Weir__V1__LedgerStatus *in, weir_error *err) WEIR_MUST_CHECK;
/* Server `index` of those that the ledger told of. One of another generation counts as one that does not answer. */
void overview_read_server(struct overview *s, uint32_t index, const Weir__V1__ServerStatus *in);
/* What server `index` says, into an overview that is all zero, or has what the ledger says: it is of this server alone then. E_MEMORY. */
weir_status overview_read_alone(struct overview *s, uint32_t index, const Weir__V1__ServerStatus *in,
                                weir_error *err) WEIR_MUST_CHECK;

#endif
