/* A trainer between its files: trainer_feed.c brings batches to the device, trainer_push.c their
 * gradients to the servers, trainer_open.c makes and unmakes it, and trainer.c has the loop. */
#ifndef WEIR_TRAINER_INTERNAL_H
#define WEIR_TRAINER_INTERNAL_H

#include "common/base/clock.h"
#include "worker/client/client_trace.h"
#include "worker/data/dataset.h"
#include "worker/data/item_index.h"
#include "worker/data/negatives.h"
#include "worker/data/prefetch.h"
#include "worker/train/batch/batch_pipeline.h"
#include "worker/train/batch/batch_places.h"
#include "worker/train/batch/gradients.h"
#include "worker/train/batch/layers.h"
#include "worker/train/batch/loss_scale.h"
#include "worker/train/batch/tables.h"
#include "worker/train/job/job_fingerprint.h"
#include "worker/train/loop/anomaly.h"
#include "worker/train/loop/local_sgd.h"
#include "worker/train/loop/trainer.h"
#include "worker/train/loop/trainer_metrics.h"
#include "worker/train/loop/units.h"

/* Batches pulled ahead of the one that computes: one hides the pull, more would only make gradients
 * staler. */
#define TRAINER_AHEAD 1u
/* Batches pushed but not yet acknowledged: with this many the next one waits. */
#define TRAINER_PUSHED 4u
/* Batches in the ring: pulled ahead, computing, pushed. */
#define TRAINER_RING_MAX (TRAINER_AHEAD + STAGING_SETS - 1u + TRAINER_PUSHED)

struct slot {
	struct minibatch data;
	struct row_cache_batch cached;
	struct prefetched *item;
	struct batch joined; /* the item's batch with negatives */
	struct held_unit *unit;
	uint64_t place;     /* in the training */
	weir_ticket ticket; /* of the pull, then of the push; 0: nothing under way */
	struct batch_pipeline_step step;
	int64_t launched_ns;
	int64_t until_ns; /* train.pace: the batch lasts at least until then */
};

struct trainer {
	const struct trainer_options *options;
	const struct job *job;
	uint32_t number; /* among the workers */
	weir_client *client;
	struct dataset *dataset;
	struct item_index items; /* of models that retrieve them: how often each is in the data */
	struct negatives negatives;
	struct batch_places places;
	struct fingerprint fingerprint;
	struct prefetcher *prefetcher;
	struct backend *backend;
	struct model *model;
	struct batch_pipeline *pipeline;
	struct gradients *gradients;
	struct row_cache *row_cache; /* NULL: none */
	struct tables tables;
	struct layers *layers;   /* NULL: the dense table travels whole */
	bool pushes_layers;      /* its gradients do not wait for each other */
	struct layers_push push; /* of the batch that computes */
	struct local_sgd *local; /* NULL: the dense table's mode is not local */
	weir_optimizer inner;    /* inner optimizer of `local` */
	struct loss_scale scale;
	struct trainer_metrics metrics;
	struct anomalies anomalies;
	int64_t fed_ns; /* when the reader last brought something, or had nothing to bring */
	struct units units;
	/* Batches that compute while the one before is pushed; 0: each is pushed before the next
	 * computes. */
	uint32_t goes_on;
	uint32_t ring_count;
	struct slot ring[TRAINER_RING_MAX]; /* (ring_count) */
	/* Batches so far; acknowledged <= computed <= launched <= started <= acknowledged + ring_count.
	 * The batch pipeline has those that are launched and not computed. */
	uint64_t started, launched, computed, acknowledged;
	bool not_replayed; /* it has been logged */
	int64_t began_ms, joined_ms;
};

static inline struct slot *trainer_slot(struct trainer *t, uint64_t n)
{
	return &t->ring[n % t->ring_count];
}

static inline weir_batch trainer_batch(const struct slot *s)
{
	const weir_unit *u = &s->unit->lease;
	return (weir_batch){.pass = u->pass, .unit = u->unit, .batch = s->item->index, .attempt = u->attempt};
}

/* Records a span of the batch in the slot that began at begun_ns. A batch that is pushed has no
 * number any more; its span is one of its unit. */
static inline void trainer_note_span(const struct trainer *t, const struct slot *s, enum trace_kind kind, int64_t begun_ns)
{
	const weir_unit *u = &s->unit->lease;
	const weir_batch id = {
	    .pass = u->pass, .unit = u->unit, .batch = s->item ? s->item->index : TRACE_NO_BATCH, .attempt = u->attempt};
	const struct trace_what what = batch_trace(kind, &id);
	trace_end(client_trace(t->client), begun_ns, &what);
}

/* Reports an anomaly. `what`: a text, or NULL: none. */
weir_status trainer_heed(struct trainer *t, const char *what, const weir_batch *id, weir_error *err);
/* The batch in the trainer's own copy of a dense table, and its position in the inner optimizer's
 * schedule. That is a function of the batch, so that a worker that comes later continues at the
 * others' position. */
struct local_sgd_batch trainer_local_batch(const struct trainer *t, const struct slot *s);
uint64_t trainer_inner_step(const struct trainer *t, const struct slot *s);

/* Takes the reader's next batch into the ring and starts its pull. *started: whether there was
 * one. */
weir_status trainer_start_next(struct trainer *t, bool wait, bool *started, weir_error *err);
/* Launches the oldest started batch, with all that it pulled. */
weir_status trainer_launch_next(struct trainer *t, weir_error *err);
/* Whether the batch has one row in a model that normalises over rows: there is no spread to
 * normalise by, and nothing to learn from. (PyTorch refuses such a batch.) */
bool trainer_is_alone(const struct trainer *t, const struct slot *s);
/* Whether the batch has nothing to learn from, since no target of its sequences counts. */
bool trainer_is_masked(const struct slot *s);
/* Number of examples that the batch's gradient averages: targets that count, or rows. Rounds of
 * local steps weigh the same, however many steps and examples they had. */
double trainer_weight(const struct trainer *t, const struct slot *s);

/* Waits for the slot's ticket, if it has one. */
weir_status trainer_settle(struct trainer *t, struct slot *s, weir_error *err);

/* Sends the results of the oldest launched batch to the servers. */
weir_status trainer_push_next(struct trainer *t, weir_error *err);
/* Notes acknowledged pushes. Waits for one if the ring is full or there is nothing else to do. */
weir_status trainer_acknowledge(struct trainer *t, bool wait, weir_error *err);

weir_status trainer_parts_open(struct trainer *t, weir_error *err);
weir_status trainer_open_client(void *trainer, weir_error *err); /* joins; of `struct rejoin` */
/* failed: leaves without order, as a crash would; what is in flight cannot be waited for. */
weir_status trainer_parts_close(struct trainer *t, bool failed, weir_error *err);

#endif
