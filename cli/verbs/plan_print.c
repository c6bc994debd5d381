#include "cli/verbs/plan_print.h"

#include <math.h>

#include "cli/plan/layers.h"

#define MS 1e3
/* Backward takes two of three parts of a batch's products. */
#define BACKWARD (2.0 / 3)

static void print_sets(const struct plan_view *v, const struct plan_found *p, const char *before, FILE *out)
{
	struct answers answers;
	plan_answers(v->job, v->figures, p, &answers);
	if (answers.count == 0)
		fprintf(out, "%sas it is written\n", before);
	for (uint32_t i = 0; i < answers.count; i++)
		fprintf(out, "%s%s\n", before, answers.items[i].set);
}

static void print_speed(const struct plan_found *p, FILE *out)
{
	fprintf(out, "%.4g samples/s, limited by %s", p->bill.samples_per_s, plan_term_name(p->bill.limit));
	if (p->bill.steps != 1)
		fprintf(out, "; %.3g times as many batches to the same value", p->bill.steps);
	fputc('\n', out);
}

static bool may_choose(const struct plan_space *space)
{
	for (enum plan_key k = 0; k < PLAN_KEYS; k++)
		if (space->counts[k] > 1)
			return true;
	return false;
}

void plan_print(const struct plan_view *v, FILE *out)
{
	const struct plan_found *best = &v->result->best[0];
	fprintf(out, "as written  ");
	print_speed(v->written, out);
	if (v->site->rehearsed != 1)
		fprintf(out, "            measured in a rehearsal; the bill alone says %.4g samples/s\n", v->bill_samples_per_s);
	if (v->result->count == 0) {
		fprintf(out, "no plan     the keys that may be chosen have no values that go together\n");
		return;
	}
	fprintf(out, "plan        ");
	print_speed(best, out);
	print_sets(v, best, "  ", out);
	if (!may_choose(v->space))
		fprintf(out, "no key says auto; --all shows what the planner would choose if all did\n");
}

/* --- Explanations */

static void print_bill(const struct plan_view *v, const struct plan_found *p, FILE *out)
{
	fprintf(out, "\nthe bill of a batch, in ms%18s%12s\n", "as written", "planned");
	for (enum plan_term t = 0; t < PLAN_TERMS; t++)
		if (v->written->bill.term_s[t] > 0 || p->bill.term_s[t] > 0)
			fprintf(out, "  %-26s%16.3f%12.3f%s\n", plan_term_name(t), v->written->bill.term_s[t] * MS, p->bill.term_s[t] * MS,
			        t == p->bill.limit ? "  <- limits" : "");
	fprintf(out, "  %-26s%16.3f%12.3f\n", "between two of the job", v->written->bill.period_s * MS, p->bill.period_s * MS);
}

static void print_others(const struct plan_view *v, FILE *out)
{
	for (uint32_t i = 1; i < v->result->count; i++) {
		const struct plan_found *p = &v->result->best[i];
		fprintf(out, i == 1 ? "\nthe next plans\n" : "");
		fprintf(out, "  ");
		print_speed(p, out);
		print_sets(v, p, "    ", out);
	}
}

/* The plan on a changed site: how much faster it would be. */
static void print_help_of(const struct plan_found *p, const struct plan_figures *f, const struct plan_site *site,
                          const struct plan_setting *s, const char *what, FILE *out)
{
	struct plan_bill bill;
	const struct plan_traffic traffic = plan_traffic_of(f, s);
	plan_bill_of(f, site, s, &traffic, true, &bill);
	const double gain = p->bill.cost_s / bill.cost_s - 1;
	if (gain > 0.02)
		fprintf(out, "  %-34s+%.0f %%\n", what, gain * 100);
}

static void print_help(const struct plan_view *v, const struct plan_found *p, FILE *out)
{
	struct plan_site faster = *v->site, nearer = *v->site;
	struct plan_setting more = p->setting;
	struct plan_figures cores = *v->figures, *quick = &cores;
	fprintf(out, "\nwhat would help: %s\n", plan_term_remedy(p->bill.limit));
	faster.rate_bits_per_s *= 10;
	print_help_of(p, v->figures, &faster, &p->setting, "cards ten times as fast", out);
	nearer.latency_s = 0;
	print_help_of(p, v->figures, &nearer, &p->setting, "no latency", out);
	more.of[PLAN_KEY_SERVERS]++;
	print_help_of(p, v->figures, v->site, &more, "one more server", out);
	cores.cores *= 2;
	if (v->site->shared)
		print_help_of(p, quick, v->site, &p->setting, "twice as many cores", out);
}

/* What is hidden by pushing layers while others compute, and what buckets of layers would hide at
 * best. Weir's own are smaller: chunks of the dense table, as soon as they are final. */
static void print_layers(const struct plan_view *v, const struct plan_found *p, FILE *out)
{
	const struct plan_figures *f = v->figures;
	struct plan_layers l = {.count = f->layers_count, .message_s = f->round_trip_s + 2 * v->site->latency_s};
	struct plan_buckets joined;
	if (v->site->rate_bits_per_s <= 0 || f->layers_count < 2 || p->setting.of[PLAN_KEY_MODE] != PLAN_SYNC)
		return;
	l.bytes_per_s = v->site->rate_bits_per_s / 8;
	for (uint32_t i = 0; i < l.count; i++) {
		const double share = f->layers[l.count - 1 - i] / f->dense_elements;
		l.compute_s[i] = share * BACKWARD * p->bill.term_s[PLAN_TERM_COMPUTE];
		l.bytes[i] = share * f->legs[PLAN_DENSE_PUSH][p->setting.of[PLAN_KEY_LEGS + PLAN_DENSE_PUSH]].bytes;
	}
	plan_layers_join(&l, &joined);
	fprintf(out, "  pushes in %u bucket%s of layers, behind backward: %.3g ms exposed instead of %.3g (train.overlap)\n",
	        joined.count, joined.count == 1 ? "" : "s", joined.exposed_s * MS, plan_layers_exposed_s(&l, &l.count, 1) * MS);
}

void plan_explain(const struct plan_view *v, FILE *out)
{
	const struct plan_found *best = v->result->count > 0 ? &v->result->best[0] : v->written;
	print_bill(v, best, out);
	print_others(v, out);
	print_help(v, best, out);
	print_layers(v, best, out);
}
