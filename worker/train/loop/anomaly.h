/* What goes wrong in a run whose numbers stay finite (those that do not: not_finite.h): the loss leaves where it was, gradients explode, data do not come. Each is told of
 * when it begins, once, and again when it has ended in between. */
#ifndef WEIR_TRAIN_ANOMALY_H
#define WEIR_TRAIN_ANOMALY_H

#include <stdbool.h>
#include <stdint.h>

/* X(NAME) */
#define ANOMALY_MAP(X)                                                                                 \
	X(LOSS)     /* the mean of the last batches is twice what it was at best, and 0.1 nats above it */ \
	X(GRADIENT) /* a norm a hundred times that of the batches before */                                \
	X(DATA)     /* no batch has come from the reader for train.anomaly.data_s */

enum anomaly {
#define ANOMALY_ENUM(name) ANOMALY_##name,
	ANOMALY_MAP(ANOMALY_ENUM)
#undef ANOMALY_ENUM
	    ANOMALIES
};

struct anomalies { /* all zero at first */
	uint64_t batches;
	double loss_fast, loss_slow, loss_best; /* means over the last batches, few and many; the least of the latter */
	double norm;                            /* mean of ordinary ones */
	bool present[ANOMALIES];
	char text[160];
};

/* A batch of this mean loss, whose gradients have this norm (0: it is not known). What has just begun, in words that stay until the next call; NULL: nothing. */
const char *anomalies_note_batch(struct anomalies *a, double loss, double norm);
/* The reader has brought none for so long; 0: it has. Likewise. */
const char *anomalies_note_wait(struct anomalies *a, double seconds, double limit_s);

#endif
