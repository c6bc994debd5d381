/* The edge of libweir's API: structs that may grow.
 *
 * Such a struct begins with `size`, the number of its bytes as the caller's compiler knows them. 0
 * means the size that the struct had in API version 2. A caller with older headers has a smaller
 * struct: the fields that it lacks are 0. A caller with newer headers has a larger one: it is
 * accepted while the bytes that this library does not know are 0, else E_VERSION. Inside the
 * library every struct has its full size. */
#ifndef WEIR_API_STRUCT_H
#define WEIR_API_STRUCT_H

#include "weir/weir.h"

/* X(struct, its bytes in API version 2, which never change) */
#define API_STRUCT_MAP(X)    \
	X(weir_options, 192)     \
	X(weir_table_spec, 320)  \
	X(weir_evaluation, 64)   \
	X(weir_push_options, 32) \
	X(weir_report, 120)      \
	X(weir_stats, 80)        \
	X(weir_job, 1008)        \
	X(weir_scan_rows, 40)    \
	X(weir_columns_rows, 112)

enum api_struct {
#define API_STRUCT_ENUM(type, bytes) API_##type,
	API_STRUCT_MAP(API_STRUCT_ENUM)
#undef API_STRUCT_ENUM
};

/* Copies the caller's struct to *out, this library's. in NULL: all fields are 0. E_VERSION: the
 * caller sets a field that this library does not know, or its size is invalid. */
weir_status api_struct_read(enum api_struct type, void *out, const void *in, weir_error *err) WEIR_MUST_CHECK;
/* Checks the size of a struct that the library is to fill. E_VERSION. */
weir_status api_struct_check(enum api_struct type, const void *out, weir_error *err) WEIR_MUST_CHECK;
/* Copies this library's struct to the caller's, whose size was checked. Fields that only the caller
 * knows become 0. The caller's `size` stays. */
void api_struct_write(enum api_struct type, void *out, const void *in);
/* The distance of two neighbours in the caller's array of such structs. */
size_t api_struct_bytes(enum api_struct type, const void *first);

#endif
