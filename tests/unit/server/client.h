/* A bare client for service tests: one stream, requests as frames. It collects the replies until
 * the test reads them. */
#ifndef TEST_CLIENT_H
#define TEST_CLIENT_H

#include <pthread.h>

#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"
#include "tests/unit/server/records.h"

struct answer {
	struct record record;
	uint8_t *data; /* of the first section */
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
/* Opens another stream on the same channel after the first one has closed. */
void client_reopen(struct client *c, enum rpc_method stream);
/* Takes ownership of the frame. */
void client_send(struct client *c, struct message *frame);
uint32_t client_answers(struct client *c); /* replies received so far */
/* Waits for `count` replies in all. Fails the test if the stream closes before. Replies live until
 * client_close. */
void client_wait(struct client *c, uint32_t count);
weir_status client_wait_closed(struct client *c);
/* Returns the reply to a request. `partition` may be ALL. */
const struct answer *client_answer(struct client *c, uint64_t request_id, uint32_t partition);
/* Pauses or resumes reading. */
void client_pause(struct client *c, bool pause);
/* A unary call. `reply` may be NULL. */
weir_status client_call(struct client *c, enum rpc_method method, const ProtobufCMessage *request,
                        const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err);

#endif
