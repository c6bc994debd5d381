/* The program that drives an external search, at the other end of stdin and stdout. Each line is a
 * JSON object.
 *
 * First this side describes the search:
 *
 *     {"passes": 9, "parallel": 2, "metrics": [{"name": "valid.auc", "maximize": true}],
 *      "space": [{"key": "model.dim", "choices": ["4", "8"]},
 *                {"key": "tables.dense.optimizer.lr", "min": 1e-4, "max": 0.1, "log": true,
 *                 "int": false, "when": "model.kind", "when_choices": ["deepfm"]}],
 *      "trials": [...]}           trials of an earlier command, as in results.json
 *
 * The other side asks for training, as often as it likes; the next free slot takes it:
 *
 *     {"trial": 0, "until": 3, "settings": {"model.dim": 8, "tables.dense.optimizer.lr": 0.001}}
 *     {"trial": 0, "until": 9}    goes on from pass 3
 *
 * Each ends with an answer: the trial as in results.json, or {"trial": 0, "refused": "..."}. Where
 * the budget is spent, {"spent": "samples"} comes last. The end of stdin ends the search, after
 * what was asked for. */
#ifndef WEIR_SEARCH_PIPE_H
#define WEIR_SEARCH_PIPE_H

#include "cli/sweep/search_book.h"

#define SEARCH_LINE_BYTES_MAX (64u << 10)

struct search_pipe {
	struct search_book *book;
	int fd; /* stdin; -1: it has ended, or there is no pipe */
	char line[SEARCH_LINE_BYTES_MAX];
	uint32_t bytes; /* of the line so far */
};

weir_status search_pipe_open(struct search_pipe *out, struct search_book *b, weir_error *err) WEIR_MUST_CHECK;
/* Takes what can be read at once, and gives it to the search. */
weir_status search_pipe_read(struct search_pipe *p, weir_error *err) WEIR_MUST_CHECK;
/* Tells of a trial whose segment has ended. */
weir_status search_pipe_tell(struct search_pipe *p, uint32_t trial, weir_error *err) WEIR_MUST_CHECK;
weir_status search_pipe_spent(struct search_pipe *p, const char *budget, weir_error *err) WEIR_MUST_CHECK;

#endif
