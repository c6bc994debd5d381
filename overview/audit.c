/* Compares the ledger's totals with the partitions'. */
#include "overview/audit.h"

#include <inttypes.h>
#include <stdio.h>

static void disagree(struct audit *a, uint32_t partition, const struct overview_partition *p)
{
	if (a->ok)
		snprintf(a->text, sizeof a->text,
		         "partition %u: the commits say %" PRIu64 " parts and %" PRIu64 " of skipped units (sum %016" PRIx64
		         "), it has %" PRIu64 " applied and %" PRIu64 " dropped (sum %016" PRIx64 "), %" PRIu64 " met twice%s",
		         partition, p->expected.count, p->skipped.count, p->expected.fingerprint + p->skipped.fingerprint,
		         p->applied.count, p->dropped.count, p->applied.fingerprint + p->dropped.fingerprint, p->twice,
		         p->reported ? "" : "; its server did not answer");
	a->ok = false;
}

struct audit audit_run(const struct overview *s)
{
	struct audit a = {.ok = true};
	if (s->partitions_count == 0) {
		snprintf(a.text, sizeof a.text, "no partitions were reported");
		a.ok = false;
	}
	for (uint32_t i = 0; i < s->partitions_count; i++) {
		const struct overview_partition *p = &s->partitions[i];
		uint64_t have = p->applied.count + p->dropped.count, want = p->expected.count + p->skipped.count;
		a.parts_expected += p->expected.count;
		a.skipped += p->skipped.count;
		a.applied += p->applied.count;
		a.dropped += p->dropped.count;
		uint64_t missing = have < want ? want - have : 0;
		uint64_t extra = have > want ? have - want : 0;
		bool same = p->applied.fingerprint + p->dropped.fingerprint == p->expected.fingerprint + p->skipped.fingerprint;
		/* equal counts, but different parts: at least one of each */
		if (missing == 0 && extra == 0 && !same)
			missing = extra = 1;
		a.missing += missing;
		a.doubled += extra > p->twice ? extra : p->twice;
		if (missing || extra || p->twice || !same || !p->reported)
			disagree(&a, i, p);
	}
	return a;
}

void audit_add_replicas(struct audit *a, const struct overview_replicas *r)
{
	a->replicas_compared = r->compared;
	a->replicas_differ = r->differ;
	if (r->differ && a->ok)
		snprintf(a->text, sizeof a->text, "replicas differ: %.*s", (int)sizeof a->text - 32, r->text);
	a->ok &= r->differ == 0;
}
