/* The facts of a dataset that a model needs. */
#ifndef WEIR_DATA_SHAPE_H
#define WEIR_DATA_SHAPE_H

#include "worker/data/dataset.h"
#include "worker/model/model.h"

static inline struct model_data model_data_of(const struct dataset_info *info)
{
	return (struct model_data){
	    .tasks = info->tasks, .fields = info->fields, .dense_dim = info->dense_dim, .vocabulary = info->vocabulary};
}

#endif
