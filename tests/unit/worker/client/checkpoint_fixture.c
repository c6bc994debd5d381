#include "tests/unit/worker/client/checkpoint_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/await.h"

void place_make(struct place *p)
{
	snprintf(p->folder, sizeof p->folder, "/tmp/weir-ckjob-XXXXXX");
	assert_non_null(mkdtemp(p->folder));
	p->options = (struct checkpoint_options){.place = p->folder, .job = "integers", .keep = 1000};
}

void place_remove(const struct place *p)
{
	char command[128];
	snprintf(command, sizeof command, "rm -r %s", p->folder);
	assert_int_equal(system(command), 0);
}

void asker_open(struct asker *a, struct cluster *c)
{
	char address[32];
	weir_error err = {0};
	*a = (struct asker){.loop = rpc_loop_create(c->rpc, "asker", &err), .count = c->options.replicas > 1 ? c->servers_count : 1};
	assert_non_null(a->loop);
	for (uint32_t i = 0; i < a->count; i++) {
		snprintf(address, sizeof address, "memory:%u", i);
		assert_ok(rpc_channel_open(&a->doors[i], c->rpc, a->loop, address, &err), &err);
	}
}

void asker_close(struct asker *a)
{
	for (uint32_t i = 0; i < a->count; i++)
		rpc_channel_close(a->doors[i]);
	rpc_loop_destroy(a->loop);
}

/* Tries the next server if this one does not have the ledger. */
static bool knock(struct asker *a, const Weir__V1__CheckpointRequest *q, struct message **reply)
{
	weir_error err = {0};
	const weir_status status = rpc_call_wait(a->doors[a->door], RPC_CHECKPOINT, wire_pack(&q->base), PATIENCE_MS, reply, &err);
	if (a->count > 1 && (status == WEIR_E_MOVED || status == WEIR_E_UNAVAILABLE)) {
		a->door = (a->door + 1) % a->count;
		return false;
	}
	assert_ok(status, &err);
	return true;
}

Weir__V1__CheckpointReply *asker_ask(struct asker *a, bool start)
{
	Weir__V1__CheckpointRequest q = WEIR__V1__CHECKPOINT_REQUEST__INIT;
	struct message *reply = NULL;
	ProtobufCMessage *m = NULL;
	weir_error err = {0};
	q.start = start;
	AWAIT(knock(a, &q, &reply), "no server has the ledger");
	assert_ok(wire_unpack(&weir__v1__checkpoint_reply__descriptor, reply, &m, &err), &err);
	message_release(reply);
	return (Weir__V1__CheckpointReply *)m;
}

void asker_begin(struct asker *a)
{
	Weir__V1__CheckpointReply *r = asker_ask(a, true);
	a->sequence = r->sequence;
	a->begun_at = a->door;
	wire_destroy(&r->base);
}

static bool is_over(const struct asker *a, const Weir__V1__CheckpointReply *r)
{
	return r->outcome && r->ended_sequence >= a->sequence;
}

static bool has_ended(struct asker *a, weir_status *status)
{
	Weir__V1__CheckpointReply *r = asker_ask(a, false);
	const bool ended = is_over(a, r);
	*status = ended ? (weir_status)r->outcome->code : WEIR_OK;
	wire_destroy(&r->base);
	return ended;
}

weir_status asker_await_end(struct asker *a)
{
	weir_status status;
	AWAIT(has_ended(a, &status), "the checkpoint is not over");
	return status;
}

static bool is_taken(struct asker *a, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	Weir__V1__CheckpointReply *r = asker_ask(a, false);
	const bool given_up = a->door != a->begun_at || (is_over(a, r) && r->outcome->code == WEIR_E_MOVED);
	const bool taken = is_over(a, r) && !given_up;
	if (taken && r->outcome->code)
		fail_msg("checkpoint: %s", r->outcome->text);
	if (taken)
		snprintf(name, WEIR_CHECKPOINT_NAME_BYTES_MAX, "%s", r->name);
	wire_destroy(&r->base);
	if (given_up)
		asker_begin(a);
	return taken;
}

void asker_take(struct asker *a, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	asker_begin(a);
	AWAIT(is_taken(a, name), "the checkpoint is not over");
}

void *take_again_and_again(void *arg)
{
	struct taker *t = arg;
	while (!atomic_load(&t->stop) && t->count < CHECKPOINTS_MAX)
		asker_take(&t->asker, t->names[t->count++]);
	return NULL;
}

void restore_and_finish(const struct place *place, const char *name, uint32_t servers, uint64_t generation, weir_mode mode)
{
	struct cluster c;
	struct trainer t;
	weir_error err = {0};
	cluster_start(
	    &c, &(struct cluster_options){
	            .servers = servers, .executors = 2, .checkpoint = &place->options, .restore = name, .generation = generation});
	trainer_open(&t, &c, "restored", mode);
	assert_ok(train(&t, UINT32_MAX, &err), &err);
	assert_sums(&t);
	assert_audit(&c);
	trainer_close(&t);
	cluster_stop(&c);
}
