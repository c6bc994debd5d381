/* Generates click data with several threads, which draw and format blocks of rows. Blocks are
 * written in order, so the bytes do not depend on the threads. The true logit and outcome of every
 * row (5 bytes) are kept, to score the best possible predictor exactly at the end. */
#include "worker/data/columns/generate_clicks.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/system/process.h"
#include "worker/data/columns/ground_truth.h"
#include "worker/data/columns/synthetic_model.h"
#include "worker/data/format/line_split.h"
#include "worker/data/quality/score.h"

#define BLOCK_ROWS    4096u
#define ROW_BYTES_MAX (2 + SYNTHETIC_NUMBERS * 12 + SYNTHETIC_FIELDS * 9)
#define PART_ALL      3u
#define THREADS_MAX   64u

struct generation {
	const struct generate_options *options;
	struct synthetic_model *synthetic;
	struct split split;
	uint64_t ids_before[SYNTHETIC_FIELDS]; /* ids of the fields before this one */
	_Atomic uint64_t *seen;                /* (ids / 64 + 1) a set bit: the id occurs */
	float *logits;                         /* (rows) */
	uint8_t *outcomes;                     /* (rows) click | part << 1 */
	int fd;
	pthread_mutex_t lock;
	pthread_cond_t turn_changed;
	uint64_t next_block, turn, blocks, bytes;
	int write_errno;
};

static char *put_integer(char *at, int32_t x)
{
	char digits[12];
	int n = 0;
	do {
		digits[n++] = (char)('0' + x % 10);
		x /= 10;
	} while (x > 0);
	while (n > 0)
		*at++ = digits[--n];
	return at;
}

static char *put_hex(char *at, uint32_t x)
{
	for (int shift = 28; shift >= 0; shift -= 4)
		*at++ = "0123456789abcdef"[x >> shift & 15];
	return at;
}

static void mark_seen(struct generation *g, uint32_t field, uint32_t rank)
{
	uint64_t id = g->ids_before[field] + rank, bit = 1ull << (id & 63);
	if (!(atomic_load_explicit(&g->seen[id >> 6], memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(&g->seen[id >> 6], bit, memory_order_relaxed);
}

static char *put_row(struct generation *g, char *at, uint64_t index)
{
	struct synthetic_row row;
	const char *line = at;
	synthetic_model_draw(g->synthetic, index, &row);
	*at++ = row.click ? '1' : '0';
	for (uint32_t j = 0; j < SYNTHETIC_NUMBERS; j++) {
		*at++ = '\t';
		if (row.numbers[j] >= 0)
			at = put_integer(at, row.numbers[j]);
	}
	for (uint32_t f = 0; f < SYNTHETIC_FIELDS; f++) {
		*at++ = '\t';
		at = put_hex(at, synthetic_model_token(g->synthetic, f, row.ranks[f]));
		mark_seen(g, f, row.ranks[f]);
	}
	enum split_part part = split_line(&g->split, line, (size_t)(at - line));
	g->logits[index] = row.logit;
	g->outcomes[index] = (uint8_t)(row.click | (unsigned)part << 1);
	*at++ = '\n';
	return at;
}

static int write_all(int fd, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, data, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? errno : ENOSPC;
		data += w;
		n -= (size_t)w;
	}
	return 0;
}

static void *generate_thread(void *argument)
{
	struct generation *g = argument;
	char *text = malloc((size_t)BLOCK_ROWS * ROW_BYTES_MAX);
	pthread_mutex_lock(&g->lock);
	if (!text)
		g->write_errno = ENOMEM;
	while (g->write_errno == 0 && g->next_block < g->blocks) {
		uint64_t block = g->next_block++, first = block * BLOCK_ROWS;
		uint64_t end = first + BLOCK_ROWS < g->options->rows ? first + BLOCK_ROWS : g->options->rows;
		char *at = text;
		pthread_mutex_unlock(&g->lock);
		for (uint64_t i = first; i < end; i++)
			at = put_row(g, at, i);
		pthread_mutex_lock(&g->lock);
		while (g->turn != block && g->write_errno == 0)
			pthread_cond_wait(&g->turn_changed, &g->lock);
		if (g->write_errno == 0)
			g->write_errno = write_all(g->fd, text, (size_t)(at - text));
		g->bytes += (uint64_t)(at - text);
		g->turn++;
		pthread_cond_broadcast(&g->turn_changed);
	}
	pthread_cond_broadcast(&g->turn_changed);
	pthread_mutex_unlock(&g->lock);
	free(text);
	return NULL;
}

static void run_threads(struct generation *g)
{
	pthread_t threads[THREADS_MAX];
	const uint32_t wanted = g->options->threads > 0 ? g->options->threads : process_cores();
	uint32_t started = 0;
	while (started + 1 < wanted && started < THREADS_MAX && pthread_create(&threads[started], NULL, generate_thread, g) == 0)
		started++;
	generate_thread(g);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* Computes the averages over new drawings of the labels. Sorts the logits. */
static void expected_scores(float *logits, size_t n, struct generate_scores *out)
{
	double positives = 0, negatives = 0, won = 0, entropy = 0;
	qsort(logits, n, sizeof *logits, by_value);
	for (size_t i = 0; i < n; i++) {
		double z = (double)logits[i], p = 1.0 / (1.0 + exp(-z));
		won += p * negatives;
		positives += p;
		negatives += 1.0 - p;
		entropy += p * log1p(exp(-z)) + (1.0 - p) * log1p(exp(z));
	}
	out->auc_expected = won / (positives * negatives);
	out->logloss_expected = entropy / (double)n;
}

/* Scores the true logit on the rows of one part. scratch (2 * rows). */
static weir_status score_part(const struct generation *g, uint32_t part, float *scratch, struct generate_scores *out)
{
	float *logits = scratch, *labels = scratch + g->options->rows;
	size_t n = 0;
	double loss = 0;
	*out = (struct generate_scores){0};
	for (uint64_t i = 0; i < g->options->rows; i++) {
		if (part != PART_ALL && (uint32_t)(g->outcomes[i] >> 1) != part)
			continue;
		bool click = g->outcomes[i] & 1;
		double z = (double)g->logits[i];
		loss += log1p(exp(click ? -z : z));
		logits[n] = g->logits[i];
		labels[n++] = click ? 1.0f : 0.0f;
		out->clicks += click;
	}
	out->rows = n;
	out->logloss = loss / (double)n;
	weir_status status = score_auc(&(struct scored){.labels = labels, .scores = logits, .n = n}, &out->auc);
	if (status == WEIR_OK)
		expected_scores(logits, n, out);
	return status;
}

static weir_status score_truth(const struct generation *g, struct ground_truth *out, weir_error *err)
{
	float *scratch = malloc(2 * g->options->rows * sizeof *scratch);
	struct generate_scores *const parts[] = {&out->train, &out->valid, &out->test, &out->all};
	weir_status status = !scratch ? WEIR_E_MEMORY : WEIR_OK;
	for (uint32_t part = 0; part <= PART_ALL && status == WEIR_OK; part++)
		status = score_part(g, part, scratch, parts[part]);
	free(scratch);
	out->ids = synthetic_model_ids(g->synthetic);
	out->bytes = g->bytes;
	out->ids_seen = 0;
	for (uint64_t i = 0; i < out->ids / 64 + 1; i++)
		out->ids_seen += (uint64_t)__builtin_popcountll(g->seen[i]);
	return status == WEIR_OK ? status : weir_fail(err, status, "out of memory scoring %s", g->options->path);
}

/* Opens the file for one writer. Overwrites what a killed program left. Refuses a file that another
 * program is writing, or renamed into place before this one got the lock. */
static weir_status open_alone(const char *path, int *fd, weir_error *err)
{
	struct stat locked, named;
	*fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (*fd < 0)
		return weir_fail(err, WEIR_E_IO, "cannot create %s: %s", path, strerror(errno));
	weir_status status = WEIR_OK;
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0 || fstat(*fd, &locked) != 0 || stat(path, &named) != 0 ||
	    locked.st_ino != named.st_ino)
		status = weir_fail(err, WEIR_E_BUSY, "cannot write %s: another program does", path);
	else if (ftruncate(*fd, 0) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
	if (status != WEIR_OK)
		close(*fd);
	return status;
}

static weir_status write_file(struct generation *g, struct ground_truth *out, weir_error *err)
{
	const char *path = g->options->path;
	char *temporary;
	if (asprintf(&temporary, "%s.tmp", path) < 0)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", path);
	weir_status status = open_alone(temporary, &g->fd, err);
	if (status != WEIR_OK) {
		free(temporary);
		return status;
	}
	run_threads(g);
	if (g->write_errno != 0)
		status = weir_fail(err, g->write_errno == ENOMEM ? WEIR_E_MEMORY : WEIR_E_IO, "cannot write %s: %s", path,
		                   strerror(g->write_errno));
	if (status == WEIR_OK)
		status = score_truth(g, out, err);
	if (status == WEIR_OK && rename(temporary, path) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot complete %s: %s", path, strerror(errno));
	if (status != WEIR_OK)
		unlink(temporary);
	close(g->fd);
	free(temporary);
	return status == WEIR_OK ? ground_truth_write(g->options, out, err) : status;
}

static weir_status prepare(struct generation *g, weir_error *err)
{
	const struct generate_options *o = g->options;
	g->synthetic = synthetic_model_create(o->ids, o->seed);
	g->logits = malloc(o->rows * sizeof *g->logits);
	g->outcomes = malloc(o->rows);
	g->seen = !g->synthetic ? NULL : calloc(synthetic_model_ids(g->synthetic) / 64 + 1, sizeof *g->seen);
	if (!g->seen || !g->logits || !g->outcomes)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory generating %s", o->path);
	for (uint32_t f = 1; f < SYNTHETIC_FIELDS; f++)
		g->ids_before[f] = g->ids_before[f - 1] + synthetic_model_vocabulary(g->synthetic, f - 1);
	return WEIR_OK;
}

weir_status generate_criteo(const struct generate_options *o, struct ground_truth *out, weir_error *err)
{
	if (o->rows == 0 || o->rows > GENERATE_ROWS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "generate: rows must be 1 to %llu", (unsigned long long)GENERATE_ROWS_MAX);
	if (o->ids < WEIR_GENERATE_IDS_MIN || o->ids > WEIR_GENERATE_IDS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "generate: ids is %llu; expected %u to %llu", (unsigned long long)o->ids,
		                 WEIR_GENERATE_IDS_MIN, WEIR_GENERATE_IDS_MAX);
	struct generation g = {.options = o,
	                       .split = split_of(o->split_train, o->split_valid, o->split_test),
	                       .blocks = (o->rows + BLOCK_ROWS - 1) / BLOCK_ROWS};
	pthread_mutex_init(&g.lock, NULL);
	pthread_cond_init(&g.turn_changed, NULL);
	weir_status status = prepare(&g, err);
	if (status == WEIR_OK)
		status = write_file(&g, out, err);
	pthread_cond_destroy(&g.turn_changed);
	pthread_mutex_destroy(&g.lock);
	synthetic_model_destroy(g.synthetic);
	free(g.logits);
	free(g.outcomes);
	free((void *)g.seen);
	return status;
}

bool generate_is_current(const struct generate_options *o, struct ground_truth *out)
{
	struct stat st;
	return ground_truth_read(o->path, o, out, NULL) == WEIR_OK && stat(o->path, &st) == 0 && (uint64_t)st.st_size == out->bytes;
}

weir_status generate_read_ground_truth(const char *path, struct ground_truth *out, weir_error *err)
{
	return ground_truth_read(path, NULL, out, err);
}
