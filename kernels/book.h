/* Code books of the int4 codec: 16 values, rising, from -1 to 1, 0 among them. */
#ifndef WEIR_BOOK_H
#define WEIR_BOOK_H

#include <stddef.h>

#include "kernels/codec.h"
#include "weir/table.h"

/* NF4: the quantiles of a normal distribution (QLoRA, Dettmers et al. 2023, appendix E). LOG: 0 and powers of 2, from 1 down to 2^-6 below it and to 2^-7 above.
 * NULL for a book that is fitted. Static. */
const float *book_known(weir_book book);
/* Of n elements, every so-manyth block of CODEC_INT4_BLOCK is looked at, the first among them: BOOK_SAMPLE_MAX elements at most. */
#define BOOK_SAMPLE_MAX (16384u * CODEC_INT4_BLOCK)
size_t book_every(size_t n);
/* A book for what is coded: segments of the range, each with a value of its own, so that the squared error is least (Lloyd 1982; Max 1960) over a histogram
 * of x / largest magnitude of the block, in which a block weighs as much as that magnitude squared: the error is that of x. -1, 0 and 1 stay. x (n), finite. out (CODEC_BOOK): strictly rising. */
void book_fit(const float *x, size_t n, float out[CODEC_BOOK]);

#endif
