/* A client's channel: its calls and streams in progress, and closing, which ends all of them and
 * waits for the last callback. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rpc/rpc_transport.h"

static weir_status channel_open(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                                bool foreign, bool tls, weir_error *err)
{
	*out = NULL;
	if (strlen(address) >= WEIR_ADDRESS_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "address '%.40s...': longer than %u bytes", address, WEIR_ADDRESS_BYTES_MAX - 1);
	struct rpc_channel *c = rpc->ops->channel_create(rpc);
	if (!c)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", address);
	c->rpc = rpc;
	c->loop = loop;
	c->foreign = foreign;
	c->tls = tls;
	snprintf(c->address, sizeof c->address, "%s", address);
	struct entropy *entropy = entropy_system();
	prng_seed(&c->jitter, entropy->ops->u64(entropy));
	rpc_link_init(&c->calls);
	rpc_link_init(&c->streams);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->closed_changed, NULL);
	weir_status status = rpc->ops->channel_open(c, err);
	if (status) {
		pthread_mutex_destroy(&c->lock);
		pthread_cond_destroy(&c->closed_changed);
		rpc->ops->channel_destroy(c);
		return status;
	}
	*out = c;
	return WEIR_OK;
}

weir_status rpc_channel_open(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                             weir_error *err)
{
	return channel_open(out, rpc, loop, address, false, false, err);
}

weir_status rpc_channel_open_foreign(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                                     bool tls, weir_error *err)
{
	return channel_open(out, rpc, loop, address, true, tls, err);
}

const char *rpc_channel_address(const struct rpc_channel *channel)
{
	return channel->address;
}

void rpc_channel_check_closed(struct rpc_channel *channel)
{
	if (!channel->closing || channel->cancelling || atomic_load(&channel->starting) || !rpc_link_empty(&channel->calls) ||
	    !rpc_link_empty(&channel->streams))
		return;
	pthread_mutex_lock(&channel->lock);
	channel->closed = true;
	pthread_cond_signal(&channel->closed_changed);
	pthread_mutex_unlock(&channel->lock);
}

static void close_on_loop(void *arg)
{
	struct rpc_channel *c = arg;
	c->closing = c->cancelling = true;
	for (struct rpc_link *l = c->calls.next, *next; l != &c->calls; l = next) {
		next = l->next;
		rpc_call_cancel((struct rpc_client_call *)l);
	}
	for (struct rpc_link *l = c->streams.next; l != &c->streams; l = l->next)
		rpc_stream_cancel((struct rpc_stream *)l, WEIR_E_CANCELLED, "the channel was closed");
	c->cancelling = false;
	rpc_channel_check_closed(c);
}

void rpc_channel_close(struct rpc_channel *channel)
{
	if (!channel)
		return;
	assert(!rpc_loop_is_current(channel->loop));
	rpc_loop_post(channel->loop, close_on_loop, channel);
	pthread_mutex_lock(&channel->lock);
	while (!channel->closed)
		pthread_cond_wait(&channel->closed_changed, &channel->lock);
	pthread_mutex_unlock(&channel->lock);
	pthread_mutex_destroy(&channel->lock);
	pthread_cond_destroy(&channel->closed_changed);
	channel->rpc->ops->channel_destroy(channel);
}
