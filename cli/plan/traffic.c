/* What a batch's pushes and pulls cost together. */
#include <string.h>

#include "cli/plan/cost.h"
#include "cli/plan/steps.h"
#include "weir/table.h"

/* The busiest server's share of the dense table: chunks go to servers in turn. */
static double busiest_share(const struct plan_figures *f, uint32_t servers)
{
	const double chunks = (double)weir_chunks((uint64_t)f->dense_elements);
	const double most = (double)(((uint64_t)chunks + servers - 1) / servers);
	return chunks > 0 ? most / chunks : 1.0 / servers;
}

/* A worker pulls the rows that its cache does not have. */
static struct plan_code without_hits(const struct plan_code *c, double hits)
{
	struct plan_code rest = *c;
	rest.bytes *= 1 - hits;
	rest.asked_bytes *= 1 - hits;
	rest.caller_s *= 1 - hits;
	rest.client_s *= 1 - hits;
	rest.server_s *= 1 - hits;
	return rest;
}

/* Of these codes a worker keeps nothing back (worker/client/push_stream.h). */
static bool leaves_by_layer(const char *codec)
{
	return strcmp(codec, "fp32") == 0 || strcmp(codec, "bf16") == 0;
}

static void add_leg(struct plan_traffic *t, const struct plan_figures *f, const struct plan_setting *s, enum plan_leg leg,
                    const struct plan_code *c)
{
	const bool dense = leg == PLAN_DENSE_PUSH || leg == PLAN_DENSE_PULL, up = leg == PLAN_DENSE_PUSH || leg == PLAN_ROWS_PUSH;
	const uint32_t steps = dense ? plan_mode_steps(s->of[PLAN_KEY_MODE]) : 0, servers = s->of[PLAN_KEY_SERVERS];
	const double share = dense ? busiest_share(f, servers) : 1.0 / servers, part = steps ? 1.0 / steps : 1;
	const double server_s = (c->server_s - (leg == PLAN_DENSE_PUSH && steps ? f->outer_s : 0)) * part;
	*(up ? &t->up_bytes : &t->down_bytes) += c->bytes * part;
	*(up ? &t->in_bytes : &t->out_bytes) += c->bytes * part * share;
	if (leg == PLAN_DENSE_PULL)
		t->layers_down_bytes = c->bytes;
	else if (dense && leaves_by_layer(c->codec))
		t->layers_up_bytes = c->bytes;
	t->up_bytes += c->asked_bytes * part;
	t->in_bytes += c->asked_bytes * part * share;
	t->caller_s += c->caller_s * part;
	t->client_s += c->client_s * part;
	t->server_s += server_s > 0 ? server_s : 0;
	t->busiest_s += server_s > 0 ? server_s * share : 0;
	if (steps == 0) {
		t->pull_bytes += up ? 0 : c->bytes + c->asked_bytes;
		t->pull_s += up ? 0 : c->caller_s + c->client_s + c->server_s;
		return;
	}
	t->round_bytes += c->bytes * part;
	t->round_in_bytes += c->bytes * part * share;
	t->round_s += (c->caller_s + c->client_s) * part + (server_s > 0 ? server_s : 0);
}

/* An asynchronous worker pulls the differences that all workers' pushes have made since its last
 * pull, and each push makes one. */
static double differences(const struct plan_setting *s, enum plan_leg leg, const struct plan_code *c)
{
	const bool joined = s->of[PLAN_KEY_MODE] == PLAN_SYNC || plan_mode_steps(s->of[PLAN_KEY_MODE]) > 0;
	return leg == PLAN_DENSE_PULL && !joined && strcmp(c->codec, "fp32") != 0 ? s->of[PLAN_KEY_WORKERS] : 1;
}

/* The traffic of these codes, one for each leg that the model has. */
static struct plan_traffic total(const struct plan_figures *f, const struct plan_setting *s,
                                 const struct plan_code codes[PLAN_LEGS])
{
	struct plan_traffic t = {.caller_s = f->joint_caller_s,
	                         .client_s = f->joint_client_s,
	                         .server_s = f->joint_server_s,
	                         .busiest_s = f->joint_server_s / s->of[PLAN_KEY_SERVERS]};
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++)
		if (f->codes[leg] > 0) {
			const bool cached = leg == PLAN_ROWS_PULL && s->of[PLAN_KEY_CACHE] > 0;
			const struct plan_code pulled = without_hits(&codes[leg], cached ? f->cache_hits : 0);
			add_leg(&t, f, s, leg, &pulled);
		}
	return t;
}

struct plan_traffic plan_traffic_of(const struct plan_figures *f, const struct plan_setting *s)
{
	struct plan_code codes[PLAN_LEGS];
	double steps = 1;
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++) {
		if (f->codes[leg] == 0)
			continue;
		codes[leg] = f->legs[leg][s->of[PLAN_KEY_LEGS + leg]];
		codes[leg].bytes *= differences(s, leg, &codes[leg]);
		steps *= plan_steps_of_codec(leg, codes[leg].codec);
	}
	struct plan_traffic t = total(f, s, codes);
	t.steps = steps;
	return t;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

struct plan_traffic plan_traffic_least(const struct plan_figures *f, const struct plan_space *space, const struct plan_setting *s)
{
	struct plan_code codes[PLAN_LEGS];
	double steps = 1;
	for (enum plan_leg leg = 0; leg < PLAN_LEGS; leg++) {
		if (f->codes[leg] == 0)
			continue;
		const uint32_t *values = space->values[PLAN_KEY_LEGS + leg];
		codes[leg] = f->legs[leg][values[0]];
		codes[leg].bytes *= differences(s, leg, &codes[leg]);
		double factor = plan_steps_of_codec(leg, codes[leg].codec);
		for (uint32_t i = 1; i < space->counts[PLAN_KEY_LEGS + leg]; i++) {
			const struct plan_code *c = &f->legs[leg][values[i]];
			codes[leg].bytes = least(codes[leg].bytes, c->bytes * differences(s, leg, c));
			codes[leg].asked_bytes = least(codes[leg].asked_bytes, c->asked_bytes);
			codes[leg].caller_s = least(codes[leg].caller_s, c->caller_s);
			codes[leg].client_s = least(codes[leg].client_s, c->client_s);
			codes[leg].server_s = least(codes[leg].server_s, c->server_s);
			factor = least(factor, plan_steps_of_codec(leg, c->codec));
			if (leaves_by_layer(c->codec))
				memcpy(codes[leg].codec, c->codec, sizeof codes[leg].codec);
		}
		steps *= factor;
	}
	struct plan_traffic t = total(f, s, codes);
	t.steps = steps;
	return t;
}
