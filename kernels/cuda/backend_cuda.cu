/* The CUDA backend: its creation and end, and its table of ops. */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

/* The exports of libweir_cuda.so. */
extern "C" WEIR_API struct backend *weir_backend_cuda_create(const struct backend_options *options, weir_error *err);
extern "C" WEIR_API weir_status weir_backend_cuda_check(const struct backend_options *options, weir_error *err);
extern "C" WEIR_API const struct backend_ops *weir_backend_cuda_ops(void);

static void cuda_destroy(struct backend *b)
{
	struct cuda_backend *c = cuda_of(b);
	cuda_wait_for_all(c); /* nobody can receive a failure any more */
	cuda_forget_replays(b);
	cuda_products_close(c);
	cuda_memory_close(c);
	cuda_streams_close(c);
	unique_destroy(&c->table);
	free(c);
}

static void cuda_info(const struct backend *b, struct backend_info *out)
{
	const struct cuda_backend *c = (const struct cuda_backend *)b;
	const struct cuda_pool *pool = &c->pool;
	*out = backend_info{.device = c->device.name,
	                    .precision = c->precision,
	                    .memory_budget = pool->budget,
	                    .memory_held = pool->held,
	                    .memory_used = pool->used,
	                    .memory_used_most = pool->used_most,
	                    .replays = c->replays,
	                    .not_replayed = c->not_replayed.status != WEIR_OK ? c->not_replayed.text : NULL};
}

#define CUDA_ENTRY(op) .op = cuda_##op,
static const struct backend_ops cuda_ops = {.name = CUDA_BACKEND_NAME,
                                            .host_memory = false,
                                            .destroy = cuda_destroy,
                                            .sync = cuda_sync,
                                            .info = cuda_info,
                                            BACKEND_OPS(CUDA_ENTRY)};
#undef CUDA_ENTRY

const struct backend_ops *weir_backend_cuda_ops(void)
{
	return &cuda_ops;
}

weir_status weir_backend_cuda_check(const struct backend_options *options, weir_error *err)
{
	struct cuda_device device;
	return cuda_device_find(&device, options, err);
}

struct backend *weir_backend_cuda_create(const struct backend_options *options, weir_error *err)
{
	struct cuda_device device;
	if (cuda_device_find(&device, options, err) != WEIR_OK || cuda_device_open(&device, err) != WEIR_OK)
		return NULL;
	struct cuda_backend *c = (struct cuda_backend *)calloc(1, sizeof *c);
	if (!c) {
		weir_fail(err, WEIR_E_MEMORY, "CUDA backend: no memory");
		return NULL;
	}
	c->base.ops = &cuda_ops;
	c->device = device;
	c->precision = options->precision;
	if (!cuda_streams_open(c) || !cuda_memory_open(c, options->memory_bytes) || !cuda_products_open(c)) {
		weir_fail(err, WEIR_E_UNSUPPORTED, "%s", c->fault.text);
		cuda_destroy(&c->base);
		return NULL;
	}
	return &c->base;
}
