#include "cli/run/checkpoint_ask.h"

#include <time.h>

#include "cli/core/ledger_client.h"
#include "cli/core/transport.h"
#include "common/base/clock.h"

#define POLL_MS   100u
#define MOVES_MAX 5u /* moves of the ledger while waiting for one checkpoint */

struct asker {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct ledger_client *ledger;
};

static void asker_close(struct asker *a)
{
	ledger_client_close(a->ledger);
	if (a->loop)
		rpc_loop_destroy(a->loop);
	if (a->rpc)
		rpc_destroy(a->rpc);
}

/* places: "A,B,C". */
static weir_status asker_open(struct asker *a, const struct job *job, const char *places, struct logger *logger, weir_error *err)
{
	const weir_status status = transport_open(&a->rpc, job, logger, err);
	if (status != WEIR_OK)
		return status;
	a->loop = rpc_loop_create(a->rpc, "checkpoint", err);
	return a->loop ? ledger_client_open(&a->ledger, a->rpc, a->loop, places, err) : err->status;
}

static bool may_move(const struct asker *a)
{
	return ledger_client_count(a->ledger) > 1;
}

/* Repeats the request until the server with the ledger answers. With replicas, another server may
 * first have to take over the ledger. */
static weir_status ask(struct asker *a, bool start, Weir__V1__CheckpointReply **out, weir_error *err)
{
	const struct clock *clock = clock_system();
	const int64_t until_ms = clock_ms(clock) + WEIR_CONTROL_TIMEOUT_MS;
	Weir__V1__CheckpointRequest q = WEIR__V1__CHECKPOINT_REQUEST__INIT;
	q.start = start;
	for (;;) {
		ProtobufCMessage *m;
		const weir_status status = ledger_client_ask(a->ledger, RPC_CHECKPOINT, &q.base, WEIR_CONTROL_TIMEOUT_MS,
		                                             &weir__v1__checkpoint_reply__descriptor, &m, err);
		*out = (Weir__V1__CheckpointReply *)m;
		const bool passes = status == WEIR_E_MOVED || status == WEIR_E_UNAVAILABLE || status == WEIR_E_TIMEOUT;
		if (!passes || !may_move(a) || clock_ms(clock) >= until_ms)
			return status;
		*err = (weir_error){0};
		nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
	}
}

static bool has_ended(const Weir__V1__CheckpointReply *r, uint64_t sequence)
{
	return r->outcome && r->ended_sequence >= sequence;
}

/* Requests a checkpoint, or joins the one in progress, and waits for its end. *last describes that
 * end; free it with wire_destroy. */
static weir_status take(struct asker *a, Weir__V1__CheckpointReply **last, weir_error *err)
{
	weir_status status = ask(a, true, last, err);
	const uint64_t sequence = status == WEIR_OK ? (*last)->sequence : 0;
	const uint32_t at = status == WEIR_OK ? ledger_client_at(a->ledger) : 0;
	while (status == WEIR_OK && !has_ended(*last, sequence)) {
		nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
		wire_destroy(&(*last)->base);
		*last = NULL;
		status = ask(a, false, last, err);
		/* each server counts its own checkpoints, from 0 */
		if (status == WEIR_OK && (ledger_client_at(a->ledger) != at || (*last)->sequence < sequence))
			return weir_fail(err, WEIR_E_MOVED, "the checkpoint was given up: %s meanwhile; ask for another one",
			                 may_move(a) ? "another server has the ledger" : "server 0 was started again");
	}
	if (status == WEIR_OK && (*last)->outcome->code)
		status = weir_fail(err, (weir_status)(*last)->outcome->code, "the checkpoint failed: %s", (*last)->outcome->text);
	return status;
}

/* Requests a checkpoint again if the ledger moves meanwhile. */
static weir_status take_anywhere(struct asker *a, Weir__V1__CheckpointReply **last, weir_error *err)
{
	weir_status status = take(a, last, err);
	for (uint32_t moves = 0; may_move(a) && status == WEIR_E_MOVED && moves < MOVES_MAX; moves++) {
		if (*last)
			wire_destroy(&(*last)->base);
		*last = NULL;
		*err = (weir_error){0};
		status = take(a, last, err);
	}
	return status;
}

weir_status checkpoint_ask(const struct job *job, const char *places, struct logger *logger, Weir__V1__CheckpointReply **last,
                           weir_error *err)
{
	struct asker a = {0};
	*last = NULL;
	weir_status status = asker_open(&a, job, places, logger, err);
	if (status == WEIR_OK)
		status = take_anywhere(&a, last, err);
	asker_close(&a);
	return status;
}
