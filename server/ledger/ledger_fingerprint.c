/* What determines a job's results, as reported by joining workers (fingerprint.h), and the content
 * of each data unit, as reported by its first reader. Exactly-once rests on both: a batch's
 * identity means the same examples and the same computation, whichever worker executes it. */
#include <stdlib.h>
#include <string.h>

#include "common/base/fingerprint.h"
#include "server/ledger/ledger_state.h"

static bool is_of_data(const char *key)
{
	return strncmp(key, "data.", 5) == 0;
}

static void note_difference(void *arg, const char *key, const char *was, const char *is)
{
	const struct ledger *l = arg;
	LOG_AT(l->options.logger, LOG_WARN, "difference accepted", "key=%s was=\"%.200s\" is=\"%.200s\"", key, was, is);
}

weir_status ledger_fingerprint_check(const struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err)
{
	char what[WEIR_NAME_BYTES_MAX + 32];
	if (!fingerprint_is_valid(q->fingerprint))
		return weir_fail(err, WEIR_E_INVALID, "worker %s: its fingerprint is no list of lines KEY=VALUE", q->name);
	snprintf(what, sizeof what, "worker %s differs from the job", q->name);
	const struct fingerprint_comparison c = {.was = l->fingerprint ? l->fingerprint : "",
	                                         .is = q->fingerprint,
	                                         .what = what,
	                                         .accepted = (const char *const *)q->accept,
	                                         .accepted_count = q->n_accept,
	                                         .differs = note_difference,
	                                         .arg = (void *)(uintptr_t)l};
	return fingerprint_compare(&c, err);
}

bool ledger_fingerprint_accepts_data(const Weir__V1__JoinRequest *q)
{
	for (size_t i = 0; i < q->n_accept; i++)
		if (is_of_data(q->accept[i]))
			return true;
	return false;
}

/* Whether the newcomer's data differ from the job's. It was asked, and has accepted that. */
static void note_data(void *arg, const char *key, const char *was, const char *is)
{
	(void)was;
	(void)is;
	*(bool *)arg |= is_of_data(key);
}

weir_status ledger_fingerprint_take(struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err)
{
	bool other_data = false;
	const struct fingerprint_comparison c = {.was = l->fingerprint ? l->fingerprint : "",
	                                         .is = q->fingerprint,
	                                         .what = "",
	                                         .accepted = (const char *const *)q->accept,
	                                         .accepted_count = q->n_accept,
	                                         .differs = note_data,
	                                         .arg = &other_data};
	if (!q->fingerprint[0] || q->role == WEIR__V1__ROLE__OBSERVER)
		return WEIR_OK;
	weir_status status = fingerprint_compare(&c, err);
	if (status)
		return status;
	char *joined = fingerprint_join(c.was, c.is);
	if (!joined)
		return weir_fail(err, WEIR_E_LIMIT, "worker %s: the job's fingerprint would have more than %u bytes", q->name,
		                 WEIR_FINGERPRINT_BYTES_MAX - 1);
	l->changes.fingerprint |= !l->fingerprint || strcmp(l->fingerprint, joined) != 0;
	free(l->fingerprint);
	l->fingerprint = joined;
	if (other_data && l->contents) {
		memset(l->contents, 0, l->dataset_units * sizeof *l->contents);
		l->changes.contents_anew = true;
	}
	return WEIR_OK;
}

weir_status ledger_fingerprint_merge(struct ledger *l, const ProtobufCBinaryData *in, weir_error *err)
{
	if (!in->len)
		return WEIR_OK;
	char *text = in->len < WEIR_FINGERPRINT_BYTES_MAX ? malloc(in->len + 1) : NULL;
	if (!text)
		return weir_fail(err, WEIR_E_CORRUPT, "ledger state: a fingerprint of %zu bytes", in->len);
	memcpy(text, in->data, in->len);
	text[in->len] = '\0';
	free(l->fingerprint);
	l->fingerprint = text;
	return fingerprint_is_valid(text) ? WEIR_OK : weir_fail(err, WEIR_E_CORRUPT, "ledger state: not a fingerprint");
}

/* --- Contents */

weir_status ledger_contents_reserve(struct ledger *l)
{
	if (!l->contents)
		l->contents = calloc(l->dataset_units, sizeof *l->contents);
	return l->contents ? WEIR_OK : WEIR_E_MEMORY;
}

uint64_t ledger_content(const struct ledger *l, uint32_t data_unit)
{
	return l->contents ? l->contents[data_unit] : 0;
}

weir_status ledger_content_note(struct ledger *l, const struct ledger_worker *w, uint32_t data_unit, uint64_t content,
                                weir_error *err)
{
	const uint64_t known = ledger_content(l, data_unit);
	if (!content || content == known)
		return WEIR_OK;
	if (known)
		return weir_fail(
		    err, WEIR_E_INVALID,
		    "worker %s: unit %u of the dataset has other examples (%016llx) than when it was first read (%016llx): the "
		    "data have changed",
		    w->name, data_unit, (unsigned long long)content, (unsigned long long)known);
	if (ledger_contents_reserve(l))
		return WEIR_OK; /* a later report repeats it */
	l->contents[data_unit] = content;
	ledger_mark_content(l, data_unit);
	return WEIR_OK;
}
