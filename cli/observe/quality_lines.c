#include "cli/observe/quality_lines.h"

#include <inttypes.h>
#include <math.h>

#include "common/base/utf8_columns.h"

enum { VALUE_COLUMNS = 24 }; /* of the value of a slice; longer ones move the figures to the right */

static void print_ranking(FILE *out, const char *indent, const struct ranking *r)
{
	fprintf(out, "%sGAUC %.4f (%" PRIu64 " of %" PRIu64 " groups have both classes)\n", indent, r->gauc, r->mixed, r->groups);
	for (uint32_t i = 0; i < r->at_count && r->lists > 0; i++)
		fprintf(out, "%sNDCG@%u %.4f   recall@%u %.4f   hit rate@%u %.4f   (%" PRIu64 " groups with a positive row)\n", indent,
		        r->at[i].k, r->at[i].ndcg, r->at[i].k, r->at[i].recall, r->at[i].k, r->at[i].hit_rate, r->lists);
}

/* A row of retrieval has one item to find. */
static void print_retrieval(FILE *out, const char *indent, const struct ranking *r)
{
	for (uint32_t i = 0; i < r->at_count; i++)
		fprintf(out, "%srecall@%u %.4f   NDCG@%u %.4f\n", indent, r->at[i].k, r->at[i].recall, r->at[i].k, r->at[i].ndcg);
}

void quality_print_main(FILE *out, const char *comma, const struct quality *q)
{
	if (q->items > 0)
		fprintf(out, "loss %.4f over %" PRIu64 " items", q->logloss, q->items);
	else
		fprintf(out, "AUC %.4f%slogloss %.4f%scalibration %.3f", q->auc, comma, q->logloss, comma, q->calibration);
}

static void print_task(FILE *out, const char *indent, uint32_t number, const struct task_quality *t)
{
	if (*t->name)
		fprintf(out, "%s'%s': ", indent, t->name);
	else
		fprintf(out, "%slabel %" PRIu32 ": ", indent, number + 1);
	fprintf(out, "AUC %.4f   logloss %.4f   PR-AUC %.4f   calibration %.3f   (%" PRIu64 " rows)\n", t->auc, t->logloss, t->pr_auc,
	        t->calibration, t->rows);
}

void quality_print_more(FILE *out, const char *indent, const struct quality *q)
{
	if (isfinite(q->pr_auc) || isfinite(q->normalized_entropy))
		fprintf(out, "%sPR-AUC %.4f   normalized entropy %.4f   calibration error %.4f\n", indent, q->pr_auc,
		        q->normalized_entropy, q->calibration_error);
	if (q->items > 0)
		print_retrieval(out, indent, &q->ranking);
	else if (q->grouped)
		print_ranking(out, indent, &q->ranking);
	for (uint32_t t = 0; t < q->tasks_count; t++)
		print_task(out, indent, t, &q->tasks[t]);
	if (q->ranked > 0 && q->ranked < q->rows)
		fprintf(out, "%s(figures other than logloss, normalized entropy and calibration are of %" PRIu64 " rows)\n", indent,
		        q->ranked);
}

void quality_print_buckets(FILE *out, const char *indent, const struct quality *q)
{
	if (q->buckets_count > 0)
		fprintf(out, "%s%-17s %12s %10s %10s %9s\n", indent, "scores", "weight", "predicted", "observed", "ratio");
	for (uint32_t i = 0; i < q->buckets_count; i++) {
		const struct calibration_bucket *b = &q->buckets[i];
		fprintf(out, "%s%.5f..%.5f  %12.6g %10.5f %10.5f ", indent, b->low, b->high, b->weight, b->predicted, b->observed);
		if (b->observed > 0)
			fprintf(out, "%9.3f\n", b->predicted / b->observed);
		else
			fprintf(out, "%9s\n", "-");
	}
}

static void print_figure(FILE *out, double x)
{
	if (isfinite(x))
		fprintf(out, " %9.4f", x);
	else
		fprintf(out, " %9s", "-");
}

void quality_print_heading(FILE *out, const char *indent, const struct ranking *lists)
{
	fprintf(out, "%s%-*s %10s %9s %9s %9s %9s %9s %9s", indent, VALUE_COLUMNS, "value", "rows", "AUC", "PR-AUC", "logloss", "NE",
	        "calibr.", "cal.error");
	if (lists)
		fprintf(out, " %9s", "GAUC");
	for (uint32_t i = 0; lists && i < lists->at_count; i++) {
		const uint32_t k = lists->at[i].k;
		fprintf(out, "   NDCG@%-2" PRIu32 " recall@%-2" PRIu32 "    hit@%-2" PRIu32, k, k, k);
	}
	fputc('\n', out);
}

void quality_print_row(FILE *out, const char *indent, const char *value, const struct quality *q, bool lists)
{
	const double figures[] = {q->auc, q->pr_auc, q->logloss, q->normalized_entropy, q->calibration, q->calibration_error};
	const int used = (int)utf8_columns(value);
	fprintf(out, "%s%s%*s %10" PRIu64, indent, value, used < VALUE_COLUMNS ? VALUE_COLUMNS - used : 0, "", q->rows);
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		print_figure(out, figures[i]);
	if (lists)
		print_figure(out, q->ranking.gauc);
	for (uint32_t i = 0; lists && i < q->ranking.at_count; i++) {
		print_figure(out, q->ranking.at[i].ndcg);
		print_figure(out, q->ranking.at[i].recall);
		print_figure(out, q->ranking.at[i].hit_rate);
	}
	fputc('\n', out);
}
