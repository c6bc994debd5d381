/* Makes a running job write a checkpoint. */
#ifndef WEIR_CHECKPOINT_ASK_H
#define WEIR_CHECKPOINT_ASK_H

#include "common/job/job.h"
#include "common/system/logger.h"
#include "proto/wire/wire.h"

/* Requests a checkpoint, or joins the one in progress, and waits for its end. job: NULL if only an
 * address is known. places: "A,B,C", the servers that may have the ledger. *last describes the end;
 * free it with wire_destroy, also after an error; may be NULL then. */
weir_status checkpoint_ask(const struct job *job, const char *places, struct logger *logger, Weir__V1__CheckpointReply **last,
                           weir_error *err) WEIR_MUST_CHECK;

#endif
