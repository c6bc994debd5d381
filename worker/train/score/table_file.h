/* The tables of a job of other programs' trainers, as one safetensors file: `<table>.keys` (rows)
 * and `<table>.values` (rows, width) of an embedding table, `<table>` (elements) of a dense one.
 * Rows that were never pushed are left out. */
#ifndef WEIR_TABLE_FILE_H
#define WEIR_TABLE_FILE_H

#include <stdint.h>

#include "weir/weir.h"

/* Saves the servers' present values of all tables or, with names (count), of these. Trainers should
 * be at rest, or the file mixes several moments. *saved: the number of tables. E_NOT_FOUND names a
 * table that the job does not have. */
weir_status table_file_save(const char *path, weir_client *client, const char *const *names, uint32_t count, uint32_t *saved,
                            weir_error *err) WEIR_MUST_CHECK;

#endif
