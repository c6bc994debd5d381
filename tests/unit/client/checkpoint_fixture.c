#include "checkpoint_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

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
	weir_error err = {0};
	a->loop = rpc_loop_create(c->rpc, "asker", &err);
	assert_non_null(a->loop);
	assert_ok(rpc_channel_open(&a->channel, c->rpc, a->loop, "memory:0", &err), &err);
}

void asker_close(struct asker *a)
{
	rpc_channel_close(a->channel);
	rpc_loop_destroy(a->loop);
}

Weir__V1__CheckpointReply *asker_ask(const struct asker *a, bool start)
{
	Weir__V1__CheckpointRequest q = WEIR__V1__CHECKPOINT_REQUEST__INIT;
	struct message *reply = NULL;
	ProtobufCMessage *m = NULL;
	weir_error err = {0};
	q.start = start;
	assert_ok(rpc_call_wait(a->channel, RPC_CHECKPOINT, wire_pack(&q.base), PATIENCE_MS, &reply, &err), &err);
	assert_ok(wire_unpack(&weir__v1__checkpoint_reply__descriptor, reply, &m, &err), &err);
	message_release(reply);
	return (Weir__V1__CheckpointReply *)m;
}

void asker_take(const struct asker *a, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	Weir__V1__CheckpointReply *r = asker_ask(a, true);
	uint64_t sequence = r->sequence;
	while (!r->outcome || r->ended_sequence < sequence) {
		wire_free(&r->base);
		usleep(1000);
		r = asker_ask(a, false);
	}
	if (r->outcome->code)
		fail_msg("checkpoint: %s", r->outcome->text);
	snprintf(name, WEIR_CHECKPOINT_NAME_BYTES_MAX, "%s", r->name);
	wire_free(&r->base);
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
