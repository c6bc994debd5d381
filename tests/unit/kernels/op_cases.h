/* Ops whose results could depend on the order of threads: sums, sorts, compaction. Include after
 * cmocka. */
#ifndef WEIR_TESTS_OP_CASES_H
#define WEIR_TESTS_OP_CASES_H

#include "tests/unit/kernels/check_backend.h"

#define OP_CASE_RESULTS 60000u

/* Runs the i-th case on inputs from rng and writes all results to out (OP_CASE_RESULTS, zeroed by
 * the caller). Returns false after the last case. */
bool op_case_run(unsigned i, struct backend *b, struct prng *rng, float *out);

#endif
