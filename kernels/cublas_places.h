/* cuBLAS is half a gigabyte, so that it does not travel with libweir_cuda.so: it is taken from where the machine has it. The loader looks in its own places and
 * in those that are written in the library; the rest is here. */
#ifndef WEIR_CUBLAS_PLACES_H
#define WEIR_CUBLAS_PLACES_H

#include <stdbool.h>

#define CUBLAS_LIBRARIES 2u /* libcublas, libcublasLt */

/* Whether a library could not be opened, as `reason` of dlerror says, because cuBLAS is not found. */
bool cublas_is_missing(const char *reason);
/* Opens it, for good, from where else it may be, so that the next dlopen finds it. */
bool cublas_open(const char *reason);

#endif
