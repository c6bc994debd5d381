/* Rewind: the whole job restarts from a checkpoint, as its next generation. It happens
 * automatically when no full log of a partition or of the ledger is left (replica.h, LOST). It
 * happens on command (RPC_REWIND, `weir rewind`) when the last full log was on a machine that does
 * not come back, which no server can know.
 *
 *   decide   a server names the checkpoint: the last one of this run, or the one requested. If
 *            there is no checkpoint, the server reports that, and nothing else happens
 *   put      the decision becomes the coordinator's record `next` of this generation
 *            (coord_records.h). The first record stays; a server that decides at the same time, or
 *            later, finds it
 *   follow   every server learns of the record by its watch and ends as it stands: for its folder
 *            this is a crash. A server that starts looks for the record first (rewind_follow.h),
 *            takes its generation and checkpoint, puts aside the folder of an earlier generation,
 *            and begins from the checkpoint as after `weir restore`. So the result is the same
 *            whenever the server died and however long it was away
 *
 * Invariants. A generation has at most one successor, with one checkpoint. No server begins a
 * generation with a checkpoint other than the record's. If the record cannot be read, the server
 * reports that and ends, and a person decides. Every request, entry and message carries a
 * generation, so nothing from an earlier generation is accepted. Servers that have not heard of the
 * record may continue together; their acknowledgements belong to the earlier generation and are
 * lost with it. A loss in the next generation is handled in the same way.
 *
 * Threads. rewind_lost, rewind_told and rewind_ask may be called on any thread. Work that waits for
 * a disk or the coordinator runs on a thread of its own. */
#ifndef WEIR_REWIND_H
#define WEIR_REWIND_H

#include "server/checkpoint/checkpoint_take.h"
#include "server/records/rewind_record.h"

/* Of one server whose partitions have replicas; NULL on other servers. All functions except
 * rewind_told allow NULL. */
struct rewind;

/* Sets s->rewind. checkpoint: location of the checkpoints; copied. NULL: none are taken. */
weir_status rewind_create(struct server *s, const struct checkpoint_options *checkpoint, weir_error *err) WEIR_MUST_CHECK;
/* Stops deciding. The executors must still run. */
void rewind_stop(struct rewind *r);
/* Call it after the coordinator records (struct coord_records) have ended. */
void rewind_destroy(struct rewind *r);

/* No full log of the partition, or of JOURNAL_LEDGER, is left. */
void rewind_lost(struct rewind *r, uint16_t partition);
/* The record exists. */
void rewind_told(struct rewind *r, const struct rewind_record *next);
bool rewind_is_told(const struct server *s);
/* Reports the loss that is final because there is no checkpoint to rewind to; "": none. Any
 * thread. */
void rewind_get_lost(struct rewind *r, char out[WEIR_ERROR_TEXT_BYTES]);
/* RPC_REWIND. */
void rewind_ask(struct server *s, struct rpc_call *call, struct message *request);

#endif
