#include "cli/observe/quality_lines.h"

#include <inttypes.h>
#include <math.h>

static void print_ranking(FILE *out, const char *indent, const struct ranking *r)
{
	fprintf(out, "%sGAUC %.4f (%" PRIu64 " of %" PRIu64 " groups have both classes)\n", indent, r->gauc, r->mixed, r->groups);
	for (uint32_t i = 0; i < r->at_count && r->lists > 0; i++)
		fprintf(out, "%sNDCG@%u %.4f   recall@%u %.4f   hit rate@%u %.4f   (%" PRIu64 " groups with a positive row)\n", indent,
		        r->at[i].k, r->at[i].ndcg, r->at[i].k, r->at[i].recall, r->at[i].k, r->at[i].hit_rate, r->lists);
}

void quality_print_more(FILE *out, const char *indent, const struct quality *q)
{
	if (isfinite(q->pr_auc) || isfinite(q->normalized_entropy))
		fprintf(out, "%sPR-AUC %.4f   normalized entropy %.4f   calibration error %.4f\n", indent, q->pr_auc,
		        q->normalized_entropy, q->calibration_error);
	if (q->grouped)
		print_ranking(out, indent, &q->ranking);
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
