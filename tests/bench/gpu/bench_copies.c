/* Copies between host and device, and within the device: the upper limit of all other speeds. Host
 * memory is pinned, as a worker's is, or pageable. Bytes count once over the bus. Within the
 * device, reads and writes count. */
#include <stdlib.h>

#include "tests/bench/gpu/bench_gpu.h"

#define COPIED_BYTES       ((size_t)64 << 20)
#define COPIED_BYTES_QUICK ((size_t)64 << 10)

struct copies {
	struct gpu_bench *g;
	size_t bytes;
	void *pinned, *any;
	float *here, *there; /* on the device */
};

static void pinned_to_device(void *arg, unsigned call)
{
	const struct copies *c = arg;
	(void)call;
	c->g->b->ops->to_device(c->g->b, c->there, c->pinned, c->bytes);
}

static void any_to_device(void *arg, unsigned call)
{
	const struct copies *c = arg;
	(void)call;
	c->g->b->ops->to_device(c->g->b, c->there, c->any, c->bytes);
}

static void device_to_pinned(void *arg, unsigned call)
{
	const struct copies *c = arg;
	(void)call;
	c->g->b->ops->to_host_later(c->g->b, c->pinned, c->there, c->bytes);
}

static void device_to_any(void *arg, unsigned call)
{
	const struct copies *c = arg;
	(void)call;
	c->g->b->ops->to_host(c->g->b, c->any, c->there, c->bytes);
}

static void within_device(void *arg, unsigned call)
{
	const struct copies *c = arg;
	(void)call;
	c->g->b->ops->copy(c->g->b, c->there, c->here, c->bytes / sizeof(float));
}

static bool copies_open(struct copies *c, struct gpu_bench *g)
{
	*c = (struct copies){.g = g, .bytes = g->quick ? COPIED_BYTES_QUICK : COPIED_BYTES};
	c->here = gpu_normal(g, c->bytes / sizeof(float), 41);
	c->there = gpu_normal(g, c->bytes / sizeof(float), 42);
	c->pinned = g->b->ops->host_alloc(g->b, c->bytes);
	c->any = malloc(c->bytes);
	if (c->here == NULL || c->there == NULL || c->pinned == NULL || c->any == NULL)
		return false;
	g->b->ops->to_host(g->b, c->pinned, c->here, c->bytes); /* fills the pages with numbers */
	g->b->ops->to_host(g->b, c->any, c->here, c->bytes);
	return true;
}

static void copies_close(struct copies *c)
{
	gpu_free(c->g, c->here);
	gpu_free(c->g, c->there);
	if (c->pinned != NULL)
		c->g->b->ops->host_free(c->g->b, c->pinned);
	free(c->any);
}

void bench_copies(struct gpu_bench *g)
{
	static const struct {
		const char *name;
		void (*run)(void *arg, unsigned call);
		double times; /* moves per byte */
	} ways[] = {{"copy, pinned to device", pinned_to_device, 1},
	            {"copy, any memory to device", any_to_device, 1},
	            {"copy, device to pinned", device_to_pinned, 1},
	            {"copy, device to any memory", device_to_any, 1},
	            {"copy, within the device", within_device, 2}};
	struct copies c;
	weir_error err = {0};
	bool going = copies_open(&c, g);
	if (g->b->ops->sync(g->b, &err) != WEIR_OK || !going) {
		printf("copies of %zu bytes: left out: %s\n", c.bytes, err.text);
		going = false;
	}
	for (size_t i = 0; i < sizeof ways / sizeof *ways && going; i++) {
		const struct gpu_subject s = {
		    .name = ways[i].name, .n = c.bytes, .bytes = ways[i].times * (double)c.bytes, .run = ways[i].run, .arg = &c};
		going = gpu_measure(g, &s);
	}
	copies_close(&c);
}
