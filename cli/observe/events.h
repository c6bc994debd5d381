/* Event files for TensorBoard: `tensorboard --logdir runs` shows a job's curves while it trains.
 *
 * A run of `weir train` writes a file RUN_DIR/events/events.out.tfevents.SECONDS.HOST.PID. The file
 * is a sequence of records, little-endian:
 *
 *     0         8              12             12 + n
 *     +---------+--------------+--------------+--------------+
 *     | u64 n   | u32 masked   | n bytes:     | u32 masked   |
 *     |         | crc of the 8 | an Event     | crc of the n |
 *     +---------+--------------+--------------+--------------+
 *
 * masked: (c >> 15 | c << 17) + 0xa282ead8, where c is the crc32c of the bytes before (TensorFlow's
 * record format).
 *
 * The step of an event is the number of batches that the job has trained. A new run, a resumed run
 * and a run after a rewind to a checkpoint begin with a SessionLog START at their step: TensorBoard
 * then drops the values of that step and later steps in earlier files. A file that `weir restore`
 * writes begins in the same way.
 *
 * hparams.h adds the settings of the run, and event_read.h reads the files back. */
#ifndef WEIR_EVENTS_H
#define WEIR_EVENTS_H

#include <stdint.h>
#include <stdio.h>

#include "overview/overview.h"

#define EVENTS_FOLDER "events" /* in track.dir */
/* minimum time between written polls; evaluations and the end are written immediately */
#define EVENTS_INTERVAL_MS 1000

/* Takes each value that events_look writes, also when the file cannot be written. */
struct events_watch {
	/* May be NULL. */
	void (*value)(void *arg, const char *tag, double value, uint64_t step, int64_t wall_ms);
	void *arg;
};

struct events {
	bool goes_on; /* there are files of earlier runs */
	FILE *out;    /* NULL: not open */
	struct events_watch watch;
	int64_t written_ms;
	uint64_t rows; /* of the last poll that was written */
	uint64_t loss_rows;
	double loss_sum;
	uint64_t evaluated_batches; /* of the last evaluation that was written; 0: none */
	uint64_t generation;        /* of the job at the last poll */
	bool begun;                 /* a poll has happened */
};

/* Opens the event file and creates the folder. E_IO: the file cannot be created. wall_ms: since
 * 1970. */
weir_status events_open(struct events *e, const char *folder, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
/* Records a poll of the job: the training loss and speed since the last poll, the bytes, staleness
 * and compression so far, and any new evaluation. After a failure (E_IO: the disk is full) the file
 * is closed and nothing more is written. */
weir_status events_look(struct events *e, const struct overview *s, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
/* Writes any event. Nothing if the file is not open. */
struct Weir__Tensorboard__Event;
weir_status events_write(struct events *e, const struct Weir__Tensorboard__Event *event, weir_error *err) WEIR_MUST_CHECK;
/* Invalidates the values of that step and later steps in the files so far. */
weir_status events_begin(struct events *e, uint64_t step, int64_t wall_ms, weir_error *err) WEIR_MUST_CHECK;
void events_close(struct events *e);

#endif
