/* Opens weights for a job's model and checks that they fit: a safetensors file, a model folder, a
 * folder of adapters, or a checkpoint. */
#ifndef WEIR_WEIGHTS_FILE_H
#define WEIR_WEIGHTS_FILE_H

#include "cli/core/accepted.h"
#include "common/job/job.h"
#include "common/system/logger.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "worker/train/score/snapshot.h"

struct weights_file {
	struct snapshot *snapshot; /* bound to the model; NULL: a checkpoint (import_checkpoint.h) */
	struct model *model;       /* its shapes come from the job and its data */
	struct dataset *data;      /* the training part */
	struct backend *backend;
};

/* E_INVALID names the file and the tensor that does not fit the model. The caller closes *w, also
 * after an error. */
weir_status weights_file_open(struct weights_file *w, const struct job *job, const char *path, struct accepted *accepted,
                              struct logger *logger, weir_error *err) WEIR_MUST_CHECK;
void weights_file_close(struct weights_file *w);

#endif
