/* The scales that a block may have: bf16, as their bits. Above the maximum, a code times the scale
 * could be infinite: encoders stay below it, and received scales above it are refused. */
#ifndef WEIR_SCALE_H
#define WEIR_SCALE_H

#define SCALE_BYTES     2u
#define SCALE_LEAST     0x0080u /* 2^-126: below it are subnormal numbers */
#define INT8_SCALE_MOST 0x7bffu /* 255/128 * 2^120, times 128 */
#define E4M3_SCALE_MOST 0x7b12u /* 146/128 * 2^119, times 448 */
#define E5M2_SCALE_MOST 0x7792u /* 146/128 * 2^112, times 57344 */
#define BF16_MOST       0x7f7fu /* int4, sign */

#endif
