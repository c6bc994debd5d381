/* Has the linker take the emulated backend into a shared object. */
#include "cuda_host.h"

extern "C" struct backend *(*const weir_cuda_emulated_entry)(uint32_t, weir_error *);
struct backend *(*const weir_cuda_emulated_entry)(uint32_t, weir_error *) = weir_backend_cuda_create;
