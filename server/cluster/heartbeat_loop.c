#include "server/cluster/heartbeat_loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/heartbeat_loop_internal.h"

/* --- Callbacks of failure_detector.h */

static void send_beat(void *arg, uint16_t to, struct message *m)
{
	struct heartbeat_loop *h = arg;
	heartbeat_link_send(&h->links[to], m);
}

/* Replicas have streams of their own. */
static void drop_item(void *arg, uint16_t partition, const struct replica_message *m)
{
	(void)arg, (void)partition, (void)m;
}

static void tell_silence(void *arg, uint16_t server, bool silent)
{
	struct heartbeat_loop *h = arg;
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (silent) {
		if (h->options.address(h->options.arg, server, address)) /* else it is not there yet */
			LOG_AT(h->options.logger, LOG_WARN, "server silent", "server=%u", server);
		return;
	}
	LOG_AT(h->options.logger, LOG_INFO, "server heard again", "server=%u", server);
	h->links[server].wait = 0; /* it can be reached, and waits for our heartbeats */
	atomic_store_explicit(&h->silent[server], 0, memory_order_relaxed);
}

/* --- Ticks */

static void take_heard(struct heartbeat_loop *h)
{
	for (uint16_t i = 0; i < h->options.servers; i++)
		if (atomic_exchange_explicit(&h->heard[i], false, memory_order_relaxed))
			failure_detector_heard(h->detector, i);
}

static void publish(struct heartbeat_loop *h)
{
	const struct heartbeat *now = failure_detector_silences(h->detector);
	for (uint16_t i = 0; i < h->options.servers; i++) {
		atomic_store_explicit(&h->silent[i], heartbeat_silent(now, i), memory_order_relaxed);
		if (atomic_exchange_explicit(&h->slow[i], now->slow[i], memory_order_relaxed) != now->slow[i] && i != h->options.self)
			LOG_AT(h->options.logger, LOG_WARN, now->slow[i] ? "server slow" : "server well again", "server=%u by its disk", i);
	}
}

static void tick(void *arg)
{
	struct heartbeat_loop *h = arg;
	if (h->closing)
		return;
	/* It refuses the others' heartbeats, so their silence means nothing. */
	const bool hushed = atomic_load(&h->hushed);
	const uint32_t idle = hushed ? 0 : loop_watch_tick(h->options.watch);
	take_heard(h);
	if (idle <= WEIR_HEARTBEAT_LATE_TICKS && !hushed)
		failure_detector_tick(h->detector);
	if (h->options.is_slow)
		failure_detector_say_slow(h->detector, h->options.is_slow(h->options.arg));
	publish(h);
	for (uint32_t i = 0; i < h->options.servers; i++)
		if (hushed) /* or servers that end together would wait for each other's streams */
			heartbeat_link_stop(&h->links[i]);
		else
			heartbeat_link_tick(&h->links[i]);
	if (idle < LOOP_WATCH_STUCK_TICKS && !hushed)
		failure_detector_beat(h->detector);
	rpc_loop_after(h->loop, WEIR_HEARTBEAT_TICK_MS, tick, h);
}

/* --- From any thread */

void heartbeat_loop_heard(struct heartbeat_loop *h, uint16_t server)
{
	assert(server < h->options.servers);
	atomic_store_explicit(&h->heard[server], true, memory_order_relaxed);
}

void heartbeat_loop_hush(struct heartbeat_loop *h)
{
	atomic_store(&h->hushed, true);
}

void heartbeat_loop_silences(const struct heartbeat_loop *h, struct heartbeat *out)
{
	for (uint16_t i = 0; i < WEIR_SERVERS_MAX; i++) {
		out->silent[i] = atomic_load_explicit(&h->silent[i], memory_order_relaxed);
		out->slow[i] = atomic_load_explicit(&h->slow[i], memory_order_relaxed);
	}
}

/* --- Life */

static weir_status make_detector(struct heartbeat_loop *h, weir_error *err)
{
	const struct heartbeat_loop_options *o = &h->options;
	struct failure_detector_options detector = {.generation = o->generation,
	                                            .self = o->self,
	                                            .servers = o->servers,
	                                            .partitions = o->partitions,
	                                            .incarnation = o->incarnation,
	                                            .process_id = o->process_id,
	                                            .first_ticks = WEIR_HEARTBEAT_FIRST_TICKS,
	                                            .arg = h,
	                                            .send = send_beat,
	                                            .deliver = drop_item,
	                                            .silence = tell_silence};
	memcpy(detector.uuid, o->uuid, sizeof detector.uuid);
	h->detector = failure_detector_create(&detector);
	h->links = calloc(o->servers, sizeof *h->links);
	if (!h->detector || !h->links)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the heartbeats of server %u", o->self);
	for (uint16_t i = 0; i < o->servers; i++)
		h->links[i] = (struct heartbeat_link){.h = h, .to = i};
	return WEIR_OK;
}

weir_status heartbeat_loop_create(struct heartbeat_loop **out, const struct heartbeat_loop_options *options, weir_error *err)
{
	*out = NULL;
	struct heartbeat_loop *h = calloc(1, sizeof *h);
	if (!h)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the heartbeats of server %u", options->self);
	h->options = *options;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, NULL);
	weir_status status = make_detector(h, err);
	if (!status && !(h->loop = rpc_loop_create(options->rpc, "heartbeat", err)))
		status = WEIR_E_MEMORY;
	if (status) {
		h->stopped = true;
		heartbeat_loop_destroy(h);
		return status;
	}
	rpc_loop_post(h->loop, tick, h);
	*out = h;
	return WEIR_OK;
}

static void begin_closing(void *arg)
{
	struct heartbeat_loop *h = arg;
	h->closing = true;
	pthread_mutex_lock(&h->lock);
	h->closed = true;
	pthread_cond_signal(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

void heartbeat_loop_stop(struct heartbeat_loop *h)
{
	if (!h || h->stopped)
		return;
	h->stopped = true;
	rpc_loop_post(h->loop, begin_closing, h);
	pthread_mutex_lock(&h->lock);
	while (!h->closed)
		pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
	for (uint32_t i = 0; i < h->options.servers; i++)
		rpc_channel_close(h->links[i].channel);
	for (uint32_t i = 0; i < h->retired_count; i++)
		rpc_channel_close(h->retired[i]);
	rpc_loop_destroy(h->loop);
}

void heartbeat_loop_destroy(struct heartbeat_loop *h)
{
	if (!h)
		return;
	assert(h->stopped);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->changed);
	failure_detector_destroy(h->detector);
	free(h->links);
	free(h->retired);
	free(h);
}
