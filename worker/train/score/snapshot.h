/* A model's weights as one safetensors file: `<table>.keys` (n) and `<table>.values` (n, width) of
 * keyed tables, and the flat tables' tensors under their names and shapes. The file leaves out rows
 * that were never pushed. They have their initial values, which follow from the table ids in the
 * metadata and the job's seed; in a table with full decay, after the steps in `<table>.steps` and
 * `<table>.rates` (1). The metadata also have the model's facts (model.h), and the job's
 * fingerprint. */
#ifndef WEIR_SNAPSHOT_H
#define WEIR_SNAPSHOT_H

#include "worker/train/batch/minibatch.h"
#include "worker/train/batch/tables.h"

/* Saves the servers' present values. Trainers should be at rest (between passes), or the file mixes
 * several moments. Rows go through files, not memory: while it writes it needs twice the file's
 * size on its disk. */
weir_status snapshot_save(const char *path, const struct tables *tables, weir_client *client, const struct model_data *data,
                          const char *fingerprint, weir_error *err);

struct snapshot;
/* Opens any safetensors file, a model folder (model_folder.h) or one of adapters
 * (adapter_folder.h). A mismatch shows when a model is bound. */
weir_status snapshot_open(struct snapshot **out, const char *path, weir_error *err);
void snapshot_close(struct snapshot *s);
bool snapshot_is_folder(const struct snapshot *s);
/* Of the job that trained the weights (fingerprint.h); "": they have none. */
const char *snapshot_fingerprint(const struct snapshot *s);
/* The shape of the model's data when it was saved: model_create needs it. Numbers are 0 if weir did
 * not write the file. A folder of adapters leaves the vocabulary to their model. */
struct model_data snapshot_data(const struct snapshot *s);
/* Call after comparing the fingerprint: bind then accepts differences in the model's facts
 * alone. */
void snapshot_trust(struct snapshot *s);
/* Prepares for a model. E_INVALID if the file is of another model; it names the difference (the key
 * of the job file with both values) or the tensor. */
weir_status snapshot_bind(struct snapshot *s, const struct model *model, weir_error *err);
/* Reads a flat table's values: (model_table_elements). */
void snapshot_read_flat(const struct snapshot *s, enum model_table k, float *out);
/* Fills the flat tables, or the rows of a loaded minibatch's keys. */
void snapshot_fill_flat(const struct snapshot *s, struct minibatch *m);
void snapshot_fill_rows(const struct snapshot *s, struct minibatch *m);

/* Sets a job's rows to those of a bound snapshot, by logged assignments. Optimizer slots begin
 * anew; rows that the file does not have stay unchanged. *rows: of keyed tables. */
weir_status snapshot_assign(const struct snapshot *s, const struct tables *t, weir_client *client, uint64_t *rows,
                            weir_error *err);

#endif
