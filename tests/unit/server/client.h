/* A bare client of the wire for service tests: one stream, requests by frame, replies collected until asked for. */
#ifndef TEST_CLIENT_H
#define TEST_CLIENT_H

#include <pthread.h>

#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"
#include "tests/unit/server/records.h"

struct answer {
	struct record record;
	uint8_t *data; /* of its first section */
	uint32_t bytes;
};

struct client {
	struct rpc_loop *loop;
	struct rpc_channel *channel;
	struct rpc_stream *stream;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct answer *answers;
	uint32_t answers_count, answers_taken;
	bool closed;
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
};

void client_open(struct client *c, struct rpc *rpc, const char *address, enum rpc_method stream);
void client_close(struct client *c);
/* Another stream on the same channel, after the first has closed. */
void client_reopen(struct client *c, enum rpc_method stream);
/* Sends a frame (taken over). */
void client_send(struct client *c, struct message *frame);
uint32_t client_answers(struct client *c); /* how many have come */
/* Waits until `count` answers have come in all; fails the test when the stream closes before. Answers stay until client_close. */
void client_wait(struct client *c, uint32_t count);
weir_status client_wait_closed(struct client *c);
/* The answer to a request id (and partition, unless ALL). */
const struct answer *client_answer(struct client *c, uint64_t request_id, uint32_t partition);
/* Pauses or resumes reading. */
void client_pause(struct client *c, bool pause);
/* A unary call; *reply may be NULL. */
weir_status client_call(struct client *c, enum rpc_method method, const ProtobufCMessage *request,
                        const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err);

#endif
