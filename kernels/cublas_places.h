/* Finds cuBLAS on the machine. It is half a gigabyte, so it is not shipped with libweir_cuda.so.
 * The loader searches its own places and those written in the library; this code searches the
 * others. */
#ifndef WEIR_CUBLAS_PLACES_H
#define WEIR_CUBLAS_PLACES_H

#include <stdbool.h>

#define CUBLAS_LIBRARIES 2u /* libcublas, libcublasLt */

/* Whether a library failed to open because cuBLAS is missing. reason: from dlerror. */
bool cublas_is_missing(const char *reason);
/* Opens cuBLAS, for good, from the other places, so that the next dlopen finds it. */
bool cublas_open(const char *reason);

#endif
