/* Code books of the int4 codec: 16 values, rising, from -1 to 1, one of them 0. */
#ifndef WEIR_BOOK_H
#define WEIR_BOOK_H

#include <stddef.h>

#include "kernels/codec.h"
#include "weir/table.h"

/* NF4: the quantiles of a normal distribution (QLoRA, Dettmers et al. 2023, appendix E). LOG: 0 and
 * powers of 2, from 1 down to 2^-6 on the negative side and to 2^-7 on the positive side. NULL for
 * a fitted book. Static. */
const float *book_known(weir_book book);
/* book_fit looks at every book_every(n)-th block of CODEC_INT4_BLOCK among n elements, beginning
 * with the first: BOOK_SAMPLE_MAX elements at most. */
#define BOOK_SAMPLE_MAX (16384u * CODEC_INT4_BLOCK)
size_t book_every(size_t n);
/* Fits a book to the data. It divides the range into segments with one value each, for the least
 * squared error (Lloyd 1982; Max 1960) over a histogram of x / largest magnitude of the block. A
 * block weighs its largest magnitude squared, so that the error is that of x. -1, 0 and 1 stay.
 * x (n), finite. out (CODEC_BOOK): strictly rising. */
void book_fit(const float *x, size_t n, float out[CODEC_BOOK]);

#endif
