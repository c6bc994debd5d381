/* OUT/journal.jsonl: what a search asked for and was told, a JSON object a line, each on disk
 * before the search goes on. The first line defines the search. Replaying the lines rebuilds the
 * books, as a search is a function of its calls (cli/search/search.h).
 *
 *     {"search": "...", "version": 1}
 *     {"ask": {"trial": 0, "from": 0, "until": 1}}
 *     {"tell": {"trial": 0, "measures": [{"value": 0.81}], "seconds": 1.5, "samples": 16000,
 *               "bytes": 3e6, "checkpoints": [{"name": "ck-..."}]}}
 *     {"fail": {"trial": 1, "why": "..."}}
 *
 * The `ask` of an external search has the trial's point, too.
 *
 * A line without its end was cut off by a kill, and does not count. */
#ifndef WEIR_SEARCH_JOURNAL_H
#define WEIR_SEARCH_JOURNAL_H

#include "cli/sweep/search_book.h"

struct search_journal {
	int fd; /* -1: closed */
	char path[WEIR_PATH_BYTES_MAX];
};

/* Opens the journal and replays it into the books. definition: all that determines the search, as
 * a text. running (options.trials): the segments that were asked for and are not told; their number
 * goes to *count. E_EXISTS: the journal is of another definition. */
weir_status search_journal_open(struct search_journal *out, struct search_book *b, const char *definition,
                                struct search_segment *running, uint32_t *count, weir_error *err) WEIR_MUST_CHECK;
void search_journal_close(struct search_journal *j);
weir_status search_journal_ask(struct search_journal *j, const struct search_options *options, const struct search_segment *g,
                               weir_error *err) WEIR_MUST_CHECK;
weir_status search_journal_tell(struct search_journal *j, const struct search_book *b, uint32_t trial,
                                const struct segment_outcome *o, weir_error *err) WEIR_MUST_CHECK;
weir_status search_journal_fail(struct search_journal *j, uint32_t trial, const char *why, weir_error *err) WEIR_MUST_CHECK;

#endif
