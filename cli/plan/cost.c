#include "cli/plan/cost.h"

#include <math.h>
#include <stdio.h>

#include "cli/plan/steps.h"
#include "common/base/limits.h"

/* Bytes on the wire of a byte of a message: 90 of 1,538 are headers (proto/rpc/rpc_shape.c). */
#define WIRE_OVERHEAD 1.063
/* Pushes, and pulls, that a trainer has under way at once (worker/train/loop/trainer.c). */
#define PUSHES_IN_FLIGHT 4.0
#define PULLS_IN_FLIGHT  2.0
/* Messages with their answers that follow each other. Of a unit, the trainer waits for these calls
 * of the ledger: lease, content, begin, commit. The others are measured, with 50 ms of latency
 * (docs/PLANNER.md): of a step, from its push to the next one's values; of a round; and what a
 * batch of ssp waits for clocks. */
#define UNIT_MESSAGES  4.0
#define STEP_MESSAGES  3.5
#define OTHERS_IN_STEP 1.0 /* more, if there are other workers */
#define ROUND_MESSAGES 5.5
#define SSP_MESSAGES   0.5
/* The backward pass takes two of three parts of a batch's products. */
#define BACKWARD (2.0 / 3)
/* A layer larger than a message is computed and sent in parts (worker/model/tower.c). */
#define PART_ELEMENTS (WEIR_MESSAGE_BYTES_TARGET / sizeof(float))

const char *plan_term_name(enum plan_term term)
{
	static const char *const names[] = {
#define NAME(name, text, remedy) text,
	    PLAN_TERM_MAP(NAME)
#undef NAME
	};
	return names[term];
}

const char *plan_term_remedy(enum plan_term term)
{
	static const char *const remedies[] = {
#define REMEDY(name, text, remedy) remedy,
	    PLAN_TERM_MAP(REMEDY)
#undef REMEDY
	};
	return remedies[term];
}

void plan_mode_text(uint32_t mode, char out[PLAN_MODE_BYTES])
{
	static const char *const names[] = {[PLAN_ASYNC] = "async", [PLAN_SSP] = "ssp", [PLAN_SYNC] = "sync"};
	if (mode < PLAN_LOCAL)
		snprintf(out, PLAN_MODE_BYTES, "%s", names[mode]);
	else
		snprintf(out, PLAN_MODE_BYTES, "local, steps %u", plan_mode_steps(mode));
}

/* --- The stages of a batch, for one setting */

struct stages {
	const struct plan_figures *figures;
	const struct plan_site *site;
	const struct plan_traffic *traffic;
	uint32_t workers, servers, executors, threads, mode;
	double crowd; /* how many times longer everything takes beside the other processes */
};

uint32_t plan_threads(const struct plan_figures *f, const struct plan_site *site, uint32_t workers)
{
	const double cores = site->shared ? f->cores / workers : site->worker_cores;
	if (site->threads > 0)
		return site->threads;
	return cores >= 2 ? (uint32_t)cores : 1;
}

static double compute_wall_s(const struct stages *x)
{
	const struct plan_figures *f = x->figures;
	/* Amdahl's law through both. */
	const double serial = (f->compute_all_s * f->cores - f->compute_one_s) / (f->cores - 1);
	if (x->threads == 1 || f->cores < 2)
		return f->compute_one_s;
	const double fixed = serial > 0 ? serial : 0;
	return fixed + (f->compute_one_s - fixed) / x->threads;
}

/* Processor seconds of the worker's trainer between two batches, apart from computing. */
static double trainer_s(const struct stages *x)
{
	const struct plan_figures *f = x->figures;
	return f->load_s + x->traffic->caller_s + (plan_mode_steps(x->mode) > 0 ? f->inner_s : 0);
}

/* Processor seconds of a batch in all processes. */
static double processor_s(const struct stages *x)
{
	const struct plan_figures *f = x->figures;
	return compute_wall_s(x) * x->threads + trainer_s(x) + f->read_s + x->traffic->client_s +
	       x->traffic->server_s * x->site->replicas;
}

/* Cores that work beside a worker's own slow it down: those of other workers always, those of
 * servers and readers by the share of the time that they work. */
static double crowding(const struct stages *x)
{
	const struct plan_figures *f = x->figures;
	if (!x->site->shared || f->cores < 2 || x->threads >= f->cores)
		return 1;
	const double own = compute_wall_s(x), beside = (processor_s(x) - own * x->threads) / own + (x->workers - 1.0) * x->threads;
	const double share = beside / (f->cores - x->threads);
	return 1 + (f->crowd - 1) * (share < 1 ? share : 1);
}

/* --- Terms: docs/PLANNER.md */

static double wire_s(const struct stages *x, double bytes)
{
	const double rate = x->site->rate_bits_per_s;
	return rate > 0 ? bytes * WIRE_OVERHEAD * 8 / rate : 0;
}

static double compute_s(const struct stages *x, uint32_t worker)
{
	const double made = compute_wall_s(x) * x->crowd / x->site->worker_speed[worker], paced = x->site->least_batch_s[worker];
	return made > paced ? made : paced;
}

static double encode_s(const struct stages *x, uint32_t worker)
{
	return trainer_s(x) * x->crowd / x->site->worker_speed[worker];
}

/* A small message and its answer. */
static double message_s(const struct stages *x)
{
	return x->figures->round_trip_s + 2 * x->site->latency_s;
}

static double pull_s(const struct stages *x)
{
	return message_s(x) + wire_s(x, x->traffic->pull_bytes) + x->traffic->pull_s * x->crowd;
}

static double server_card_s(const struct stages *x)
{
	const double in = wire_s(x, x->traffic->in_bytes * x->site->replicas), out = wire_s(x, x->traffic->out_bytes);
	return in > out ? in : out;
}

static double server_s(const struct stages *x)
{
	double speed = x->site->server_speed[0];
	for (uint32_t i = 1; i < x->servers; i++)
		speed = x->site->server_speed[i] < speed ? x->site->server_speed[i] : speed;
	return x->traffic->busiest_s * x->site->replicas * x->crowd / (x->executors * speed);
}

static double processors_s(const struct stages *x)
{
	return x->site->shared ? processor_s(x) * x->crowd / x->figures->cores : 0;
}

/* Of a pass's evaluation, while workers wait, the share of one batch of the job. The last pass's
 * comes after training. */
static double evaluation_s(const struct stages *x)
{
	const struct plan_figures *f = x->figures;
	const double waits = (x->site->passes - 1.0) / x->site->passes;
	return f->batches > 0 ? waits * f->valid_batches * f->score_s / f->batches : 0;
}

/* Mean wait of a request for a server whose work is as regular as batches are (M/D/1), bounded by
 * the requests of the other workers. */
static double queueing_s(double service_s, double period_s, uint32_t workers)
{
	const double load = service_s / period_s, most = service_s * (workers - 1.0);
	const double wait = load < 1 ? load * service_s / (2 * (1 - load)) : most;
	return wait < most ? wait : most;
}

/* --- Pipelines */

static double max2(double a, double b)
{
	return a > b ? a : b;
}

/* A batch's share of its unit's calls of the ledger. */
static double unit_s(const struct stages *x)
{
	return UNIT_MESSAGES * message_s(x) / x->site->unit_batches;
}

/* Between two batches of one worker, if only itself limits it. */
static double own_period_s(const struct stages *x, uint32_t worker, double waits_s)
{
	const double chain = compute_s(x, worker) + encode_s(x, worker), pull = pull_s(x) + waits_s;
	const double push = (message_s(x) + wire_s(x, x->traffic->up_bytes)) / PUSHES_IN_FLIGHT;
	const double cards = max2(wire_s(x, x->traffic->up_bytes), wire_s(x, x->traffic->down_bytes));
	const double ahead = (chain + pull) / PULLS_IN_FLIGHT, clocks = x->mode == PLAN_SSP ? SSP_MESSAGES * message_s(x) : 0;
	return max2(max2(chain, ahead), max2(push, cards)) + clocks + unit_s(x);
}

/* Between two batches of the job while workers do not wait for each other. In lockstep the slowest
 * one decides. */
static double workers_period_s(const struct stages *x, double waits_s, bool lockstep)
{
	double rate = 0, slowest = 0;
	for (uint32_t w = 0; w < x->workers; w++) {
		const double own = own_period_s(x, w, waits_s);
		rate += 1 / own;
		slowest = max2(slowest, own);
	}
	return lockstep ? slowest / x->workers : 1 / rate;
}

static double shared_period_s(const struct stages *x)
{
	return max2(max2(server_card_s(x), server_s(x)), processors_s(x));
}

static double pipeline_period_s(const struct stages *x, bool queueing, bool lockstep)
{
	const double free_s = max2(workers_period_s(x, 0, lockstep), shared_period_s(x));
	if (!queueing)
		return free_s;
	const double waits = queueing_s(server_s(x), free_s, x->workers) + queueing_s(server_card_s(x), free_s, x->workers);
	return max2(workers_period_s(x, waits, lockstep), shared_period_s(x));
}

/* The straggler's tail: the slowest of n batches whose times vary like a normal distribution. */
static double tail_s(const struct stages *x, double batch_s)
{
	return x->workers > 1 ? batch_s * x->figures->jitter * sqrt(2 * log(x->workers)) : 0;
}

static double slowest_compute_s(const struct stages *x)
{
	double slowest = 0;
	for (uint32_t w = 0; w < x->workers; w++)
		slowest = max2(slowest, compute_s(x, w));
	return slowest;
}

/* All workers do these processor seconds at once, on the cores there are. */
static double together_s(const struct stages *x, double one_s)
{
	const double sets = x->site->shared ? x->workers / x->figures->cores : 1;
	return one_s * x->crowd * (sets > 1 ? sets : 1);
}

/* All workers push, or pull, at once: through their own cards and the busiest server's. */
static double step_up_s(const struct stages *x)
{
	return max2(wire_s(x, x->traffic->up_bytes), x->workers * wire_s(x, x->traffic->in_bytes * x->site->replicas));
}

static double step_down_s(const struct stages *x)
{
	return max2(wire_s(x, x->traffic->down_bytes), x->workers * wire_s(x, x->traffic->out_bytes));
}

static double min2(double a, double b)
{
	return a < b ? a : b;
}

/* The part of the dense table's way on the worker's card that takes place while its layers compute
 * for behind_s, each of which needs its own values. The same of gradients on their way back.
 * In a layer's parts the hidden time changes evenly, so it is least in the first or the last. */
static double hidden_s(const struct stages *x, double bytes, double behind_s)
{
	const struct plan_figures *f = x->figures;
	const double way = wire_s(x, bytes), part_most = PART_ELEMENTS / f->dense_elements;
	double hidden = min2(way, behind_s), before = 0;
	for (uint32_t i = 0; i < f->layers_count; i++) {
		const double share = f->layers[i] / f->dense_elements, part = min2(share, part_most), last = before + share - part;
		hidden = min2(hidden, way * (1 - before - part) + behind_s * before);
		hidden = min2(hidden, way * (1 - last - part) + behind_s * last);
		before += share;
	}
	return max2(hidden, 0);
}

static double step_hidden_s(const struct stages *x, double made)
{
	const double pulls = x->site->pulls_by_layer ? hidden_s(x, x->traffic->layers_down_bytes, made * (1 - BACKWARD)) : 0;
	return pulls + (x->site->pushes_by_layer ? hidden_s(x, x->traffic->layers_up_bytes, made * BACKWARD) : 0);
}

/* A synchronous step: computing, pushing, applying, closing and pulling come one after the other,
 * except for what travels while layers compute. Per batch of the job. */
static double step_period_s(const struct stages *x)
{
	const double paced = slowest_compute_s(x), made = together_s(x, compute_wall_s(x) * x->threads) / x->threads;
	const double messages = (STEP_MESSAGES + (x->workers > 1 ? OTHERS_IN_STEP : 0)) * message_s(x);
	const double step = max2(paced, made) + tail_s(x, made) + together_s(x, trainer_s(x) + x->traffic->client_s) +
	                    x->workers * server_s(x) + step_up_s(x) + step_down_s(x) + messages + unit_s(x) - step_hidden_s(x, made);
	return max2(step / x->workers, processors_s(x));
}

/* Local steps: batches in lockstep, and what each round exchanges, spread over its batches. */
static double rounds_period_s(const struct stages *x, bool queueing)
{
	const struct plan_traffic *t = x->traffic;
	const double cards = max2(wire_s(x, t->round_bytes), x->workers * wire_s(x, t->round_in_bytes));
	const double messages = ROUND_MESSAGES * message_s(x) / plan_mode_steps(x->mode);
	const double exchange = cards + messages + together_s(x, t->round_s);
	const double tail = x->site->rounds_wait ? tail_s(x, slowest_compute_s(x)) / plan_mode_steps(x->mode) : 0;
	return pipeline_period_s(x, queueing, x->site->rounds_wait) + (exchange + tail) / x->workers;
}

static double period_s(const struct stages *x, bool queueing)
{
	if (x->mode == PLAN_SYNC)
		return step_period_s(x);
	if (plan_mode_steps(x->mode) > 0)
		return rounds_period_s(x, queueing);
	return pipeline_period_s(x, queueing, x->mode == PLAN_SSP);
}

/* --- The bill */

/* What the last worker waits for the slowest one. */
static double straggler_s(const struct stages *x)
{
	const uint32_t last = x->workers - 1;
	const bool waits = x->mode == PLAN_SSP || x->mode == PLAN_SYNC || (plan_mode_steps(x->mode) > 0 && x->site->rounds_wait);
	return waits ? slowest_compute_s(x) - compute_s(x, last) + tail_s(x, compute_s(x, last)) : 0;
}

/* Terms of a batch of the last worker, and of shared resources per batch of the job. The limit is
 * the largest, each as it counts for the period. */
static void itemize(const struct stages *x, struct plan_bill *out)
{
	double *term = out->term_s;
	const uint32_t last = x->workers - 1;
	const bool sync = x->mode == PLAN_SYNC;
	term[PLAN_TERM_COMPUTE] = compute_s(x, last);
	term[PLAN_TERM_ENCODE] = encode_s(x, last);
	term[PLAN_TERM_PULL] = pull_s(x);
	term[PLAN_TERM_UP] = sync ? step_up_s(x) : wire_s(x, x->traffic->up_bytes);
	term[PLAN_TERM_DOWN] = sync ? step_down_s(x) : wire_s(x, x->traffic->down_bytes);
	term[PLAN_TERM_SERVER_CARD] = server_card_s(x);
	term[PLAN_TERM_SERVER] = server_s(x);
	term[PLAN_TERM_PROCESSOR] = processors_s(x);
	term[PLAN_TERM_EVALUATION] = evaluation_s(x);
	term[PLAN_TERM_WAIT] = straggler_s(x);
	out->limit = PLAN_TERM_COMPUTE;
	double most = 0;
	for (enum plan_term t = 0; t < PLAN_TERMS; t++) {
		const bool shared =
		    t == PLAN_TERM_SERVER_CARD || t == PLAN_TERM_SERVER || t == PLAN_TERM_PROCESSOR || t == PLAN_TERM_EVALUATION;
		const double counts = term[t] * (shared ? x->workers : t == PLAN_TERM_PULL ? 1 / PULLS_IN_FLIGHT : 1);
		if (counts > most) {
			most = counts;
			out->limit = t;
		}
	}
}

void plan_bill_of(const struct plan_figures *f, const struct plan_site *site, const struct plan_setting *s,
                  const struct plan_traffic *traffic, bool queueing, struct plan_bill *out)
{
	struct stages x = {.figures = f,
	                   .site = site,
	                   .traffic = traffic,
	                   .workers = s->of[PLAN_KEY_WORKERS],
	                   .servers = s->of[PLAN_KEY_SERVERS],
	                   .executors = s->of[PLAN_KEY_EXECUTORS],
	                   .threads = plan_threads(f, site, s->of[PLAN_KEY_WORKERS]),
	                   .mode = s->of[PLAN_KEY_MODE]};
	x.crowd = crowding(&x);
	*out = (struct plan_bill){.period_s = (period_s(&x, queueing) + evaluation_s(&x)) / site->rehearsed};
	out->samples_per_s = f->rows / out->period_s;
	out->steps = traffic->steps * plan_steps_of_mode(x.mode, x.workers);
	out->cost_s = out->steps / out->samples_per_s;
	itemize(&x, out);
}
