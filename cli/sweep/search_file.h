/* The parts `search` and `space` of a sweep file:
 *
 *     search:
 *       kind: tpe              # grid | random | tpe | evolution | pbt | external
 *       trials: 40             # at most; of pbt the population (20; of a grid all its points)
 *       seed: 1
 *       metric: valid.auc      # or a list of objectives: the Pareto front
 *       direction: maximize    # or minimize, or a list (what suits the metric)
 *       passes: 9              # of a trial that trains to its end (train.passes of the base)
 *       stop: {kind: asha, first: 1, eta: 3}   # none | median | asha | hyperband
 *       parallel: 1            # trials at a time, which share the cores
 *       budget: {seconds: 3600, samples: 1e9, bytes: 1e12}
 *       constraints: ['bytes <= 1e9']
 *     space:
 *       model.dim: [4, 8, 16]
 *       tables.dense.optimizer.lr: {min: 1.0e-4, max: 1.0e-1, log: true}
 *       tables.dense.optimizer.kind: [adam, momentum]
 *       tables.dense.optimizer.momentum:
 *         {min: 0.5, max: 0.99, when: {tables.dense.optimizer.kind: momentum}}
 */
#ifndef WEIR_SEARCH_FILE_H
#define WEIR_SEARCH_FILE_H

#include "cli/sweep/sweep_yaml.h"

weir_status search_file_read(struct reader *r, const char *path, const yaml_node_t *node, void *out) WEIR_MUST_CHECK;
weir_status search_file_read_space(struct reader *r, const char *path, const yaml_node_t *node, void *out) WEIR_MUST_CHECK;
/* Checks what both say together; needs both. */
weir_status search_file_check(struct reader *r, const yaml_node_t *root) WEIR_MUST_CHECK;

/* Reads the name of a measure, such as valid.auc or bytes. name is kept. False: not a name. */
bool measure_parse(struct arena *arena, const char *name, struct measure *out);

#endif
