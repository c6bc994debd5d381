/* This variant's ops. */
#include "kernels/cpu/ops.h"

#define STRING_OF(x)  #x
#define NAME_OF(name) STRING_OF(name)

extern const struct cpu_variant ISA(cpu_variant);
const struct cpu_variant ISA(cpu_variant) = {
    .name = NAME_OF(WEIR_ISA),
    .own_gemm = ISA(cpu_own_gemm),
    .ops = {.name = "cpu",
            .host_memory = true,
            .destroy = cpu_destroy,
            .sync = cpu_sync,
            .info = cpu_info,
            .buffer_alloc = cpu_buffer_alloc,
            .buffer_free = cpu_buffer_free,
            .host_alloc = cpu_buffer_alloc,
            .host_free = cpu_buffer_free,
            .to_device = cpu_to_device,
            .to_host = cpu_to_host,
            .to_host_later = cpu_to_host,
            .choose_stream = cpu_choose_stream,
            .sync_stream = cpu_sync,
            .set_mark = cpu_set_mark,
            .free_mark = cpu_set_mark,
            .follow_mark = cpu_follow_mark,
            .await_mark = cpu_await_mark,
            .replay = cpu_replay,
            .forget_replays = cpu_forget_replays,
            .gemm = cpu_gemm,
            .linear = cpu_linear,
            .linear_backward = cpu_linear_backward,
            .unique = cpu_unique,
#define CPU_SAME(op) .op = cpu_##op,
            CPU_COMPRESSION_OPS(CPU_SAME)
#undef CPU_SAME
#define CPU_ENTRY(op) .op = ISA(cpu_##op),
                CPU_VARIANT_OPS(CPU_ENTRY)
#undef CPU_ENTRY
    },
};
