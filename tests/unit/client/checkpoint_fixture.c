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

Weir__V1__CheckpointReply *asker_ask(struct asker *a, bool start)
{
	Weir__V1__CheckpointRequest q = WEIR__V1__CHECKPOINT_REQUEST__INIT;
	struct message *reply = NULL;
	ProtobufCMessage *m = NULL;
	weir_status status;
	weir_error err = {0};
	q.start = start;
	for (;; a->door = (a->door + 1) % a->count, usleep(1000)) {
		status = rpc_call_wait(a->doors[a->door], RPC_CHECKPOINT, wire_pack(&q.base), PATIENCE_MS, &reply, &err);
		if (a->count == 1 || (status != WEIR_E_MOVED && status != WEIR_E_UNAVAILABLE))
			break;
		err = (weir_error){0};
	}
	assert_ok(status, &err);
	assert_ok(wire_unpack(&weir__v1__checkpoint_reply__descriptor, reply, &m, &err), &err);
	message_release(reply);
	return (Weir__V1__CheckpointReply *)m;
}

void asker_take(struct asker *a, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	Weir__V1__CheckpointReply *r = asker_ask(a, true);
	uint64_t sequence = r->sequence;
	for (uint32_t door = a->door; !r->outcome || r->ended_sequence < sequence || r->outcome->code == WEIR_E_MOVED;) {
		const bool is_over = a->door != door || (r->outcome && r->ended_sequence >= sequence); /* it was given up */
		wire_free(&r->base);
		usleep(1000);
		r = asker_ask(a, is_over);
		sequence = is_over ? r->sequence : sequence;
		door = is_over ? a->door : door;
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
