/* Training without servers: one process and thread, rows in a plain array; the same model, data
 * order and update rules. A job with one synchronous worker must equal it bit for bit. */
#ifndef WEIR_TEST_LOCAL_LOOP_H
#define WEIR_TEST_LOCAL_LOOP_H

#include "common/job/job.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"

struct local_loop;

weir_status local_loop_open(struct local_loop **out, const struct job *job, struct dataset *data, weir_error *err);
void local_loop_close(struct local_loop *l);
/* Trains one pass. table_ids: the table ids of the compared job, which determine initial values. */
weir_status local_loop_pass(struct local_loop *l, uint32_t pass, weir_error *err);
void local_loop_set_table_id(struct local_loop *l, enum model_table t, uint32_t id);

const struct model *local_loop_model(const struct local_loop *l);
/* A row (width) that training has changed, or NULL. */
const float *local_loop_row(const struct local_loop *l, enum model_table t, uint64_t key);
size_t local_loop_rows(const struct local_loop *l, enum model_table t);
/* A flat table's values, (elements). */
const float *local_loop_flat(const struct local_loop *l, enum model_table t);

#endif
