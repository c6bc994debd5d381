/* Ops whose results would differ from run to run if they depended on which thread comes first: sums, sorts, compaction. Include after cmocka. */
#ifndef WEIR_TESTS_OP_CASES_H
#define WEIR_TESTS_OP_CASES_H

#include "tests/unit/kernels/check_backend.h"

#define OP_CASE_RESULTS 60000u

/* Runs the i-th case on inputs from rng, and writes all that it computes to out (OP_CASE_RESULTS, zeroed by the caller). False: there are no more. */
bool op_case_run(unsigned i, struct backend *b, struct prng *rng, float *out);

#endif
