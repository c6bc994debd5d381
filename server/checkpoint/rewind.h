/* Going back: the whole job begins anew from a checkpoint, as its next generation. By itself where no full log of a partition, or of the ledger, is left (replica.h,
 * LOST); on command (RPC_REWIND, `weir rewind`) where the last one was on a machine that does not come back, which no server can know.
 *
 *   decide   a server names the checkpoint: the last one of this run, or the one that it was asked for. Where there is none, that is said, and nothing else happens
 *   put      the coordinator's record `next` of this generation (authority.h). The first one stays: who decides at the same time, or later, finds it
 *   follow   every server is told by its watch, and ends as it stands: a crash, as far as its folder is concerned. One that starts looks for the record first
 *            (rewind_follow.h), takes the generation and the checkpoint it names, puts the folder of an earlier generation aside, and begins from the checkpoint like after
 *            `weir restore`. So it is the same at whatever moment it died, and however long it was away
 *
 * What holds. A generation is followed by one other, with one checkpoint. No server begins a generation with another checkpoint than the record names; if that cannot be
 * read, it says so and ends, and a person decides. Generations are on every request, entry and message: nothing from before is accepted. A server that has not heard of
 * the record may go on with others like it: what they acknowledge is of the generation before, and goes with it. A loss in the next generation is the same again.
 *
 * Threads. rewind_lost, rewind_told and rewind_ask come on any; what waits, for a disk or the coordinator, is done on one of its own. */
#ifndef WEIR_REWIND_H
#define WEIR_REWIND_H

#include "server/checkpoint/checkpoint_take.h"
#include "server/records/rewind_record.h"

struct rewind; /* of one server whose partitions have replicas; NULL, in all of the functions: it has none */

/* Sets s->rewind. checkpoint: where they are; copied. NULL: none are taken. */
weir_status rewind_create(struct server *s, const struct checkpoint_options *checkpoint, weir_error *err) WEIR_MUST_CHECK;
/* Nothing is decided any more. The executors must run still. */
void rewind_stop(struct rewind *r);
void rewind_destroy(struct rewind *r); /* after the authority has ended */

/* No full log of the partition, or JOURNAL_LEDGER, is left. */
void rewind_lost(struct rewind *r, uint16_t partition);
/* The record is there. */
void rewind_told(struct rewind *r, const struct rewind_record *next);
bool rewind_is_told(const struct server *s);
/* What was lost for good, as there is no checkpoint to go back to; "": nothing. Any thread. */
void rewind_get_lost(struct rewind *r, char out[WEIR_ERROR_TEXT_BYTES]);
/* RPC_REWIND. */
void rewind_ask(struct server *s, struct rpc_call *call, struct message *request);

#endif
