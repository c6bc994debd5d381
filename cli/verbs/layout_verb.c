#include "cli/verbs/layout_verb.h"
#include "cli/run/job_servers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/core/options.h"
#include "cli/core/transport.h"
#include "cli/core/verbs.h"

/* a killed server has lost its lease by then; a third of this time is a margin */
#define LEASE_MS 15000u

/* The words and options of one command line. */
struct words {
	struct job_options options;
	const char *at;
	uint32_t numbers[LAYOUT_NUMBERS_MAX];
	struct job *job; /* NULL: only an address was given */
	struct logger *logger;
};

/* Parses a number. For a partition, the word "ledger" is also valid. */
static weir_status read_number(const char *word, const char *what, uint32_t *out, weir_error *err)
{
	const bool is_partition = strcmp(what, LAYOUT_PARTITION) == 0;
	char *end = NULL;
	errno = 0;
	if (word && is_partition && strcmp(word, "ledger") == 0) {
		*out = LAYOUT_LEDGER;
		return WEIR_OK;
	}
	const unsigned long n = word && *word >= '0' && *word <= '9' ? strtoul(word, &end, 10) : 0;
	if (!end || *end || errno || n >= LAYOUT_LEDGER)
		return weir_fail(err, WEIR_E_INVALID, "%s is a number, from 0 on%s%s%s%s", what, is_partition ? ", or ledger" : "",
		                 word ? ", not '" : ": it is missing", word ? word : "", word ? "'" : "");
	*out = (uint32_t)n;
	return WEIR_OK;
}

static weir_status read_words(struct words *w, const struct layout_verb *v, int count, char **args, weir_error *err)
{
	const struct option options[] = {JOB_OPTIONS(&w->options), AT_OPTION(w->at)};
	const char *words[LAYOUT_NUMBERS_MAX + 1] = {NULL};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, words, v->numbers_count + 1, err);
	for (uint32_t i = 0; i < v->numbers_count && status == WEIR_OK; i++)
		status = read_number(words[i], v->numbers[i], &w->numbers[i], err);
	const char *path = words[v->numbers_count];
	w->options.path = path ? path : w->options.path;
	if (status == WEIR_OK && !w->at && !w->options.path)
		status = weir_fail(err, WEIR_E_INVALID, "needs JOB.yaml or --at ADDRESS, of any server of the job");
	return status == WEIR_OK ? job_options_logger(&w->options, "weir", LOG_ERROR, &w->logger, err) : status;
}

/* --- Carrying out */

/* The number of moves: a partition that moves twice counts twice. */
struct tally {
	uint32_t partitions;
	bool ledger;
};

static void note_reached(void *arg, const struct layout_goal *g, uint32_t left)
{
	struct tally *moved = arg;
	char name[LAYOUT_NAME_BYTES];
	moved->ledger |= g->partition == LAYOUT_LEDGER;
	moved->partitions += g->partition != LAYOUT_LEDGER;
	fprintf(stderr, "%s:", layout_name(g->partition, name));
	if (g->primary != MEMBER_NONE)
		fprintf(stderr, " primary on server %u,", g->primary);
	fprintf(stderr, " replicas on");
	for (uint32_t i = 0; i < g->hosts.count; i++)
		fprintf(stderr, "%s %u", i ? "," : "", g->hosts.ids[i]);
	fprintf(stderr, "; %u left\n", left);
}

static void print_waits(void *arg, uint32_t server)
{
	(void)arg;
	fprintf(stderr, "server %u does not answer: it is waited for, or for the end of its lease\n", server);
}

void layout_print_late(void *arg, const char *why)
{
	(void)arg;
	fprintf(stderr, "waiting, at most %u s: %s\n", LAYOUT_PATIENCE_MS / 1000, why);
}

/* Prints "3 partitions and the ledger". */
static void print_subjects(uint32_t partitions, bool ledger)
{
	if (partitions)
		printf("%u partition%s", partitions, partitions == 1 ? "" : "s");
	printf("%s%s", partitions && ledger ? " and " : "", ledger ? "the ledger" : "");
}

static void print_moved(const struct tally *moved, double took_s)
{
	print_subjects(moved->partitions, moved->ledger);
	printf(" moved in %.1f s\n", took_s);
}

/* Prints what stays because of a server that is gone. */
static void print_left_of(const struct layout_plan *plan, uint16_t server, bool is_lost)
{
	uint32_t partitions = 0;
	bool ledger = false;
	for (uint32_t i = 0; i < plan->left_count; i++) {
		const struct layout_left *l = &plan->left[i];
		if (l->is_lost != is_lost || !member_set_has(&l->servers, server))
			continue;
		ledger |= l->partition == LAYOUT_LEDGER;
		partitions += l->partition != LAYOUT_LEDGER;
	}
	if (!partitions && !ledger)
		return;
	print_subjects(partitions, ledger);
	const char *ending = partitions + ledger == 1 ? "s" : "";
	if (is_lost)
		printf(" stay%s: server %u, which is gone, was in sync, and no server that lives is. Start it again or, where it is gone "
		       "for good, `weir rewind`\n",
		       ending, server);
	else
		printf(
		    " keep%s a place on server %u, which is gone: every server that lives has a replica already. Start it again, or add "
		    "another one and `weir rebalance`\n",
		    ending, server);
}

static void print_left(const struct layout_plan *plan, const struct layout *l)
{
	for (uint16_t i = 0; i < WEIR_SERVERS_MAX; i++) {
		print_left_of(plan, i, false);
		print_left_of(plan, i, true);
		if (l->silent[i])
			printf("server %u has a lease with the coordinator, and does not answer at %s: nothing was moved to it, and "
			       "`weir drain %u` moves away what it has\n",
			       i, l->addresses[i], i);
	}
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static weir_status move_all(const struct layout_verb *v, const struct words *w, struct rpc *rpc, const char *addresses,
                            weir_error *err)
{
	struct layout_asker *asker = NULL;
	struct layout *layout = calloc(1, sizeof *layout);
	struct layout_plan *plan = calloc(1, sizeof *plan);
	struct tally moved = {0};
	const double begun = seconds();
	weir_status status = layout && plan ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a plan");
	if (status == WEIR_OK)
		status = layout_open(&asker, rpc, addresses, err);
	if (status == WEIR_OK) {
		layout_when_late(asker, layout_print_late, NULL);
		status = layout_ask_all(asker, layout, LEASE_MS, print_waits, NULL, err);
	}
	if (status == WEIR_OK && !v->plan)
		status = layout_drain(asker, layout, w->numbers[0], LAYOUT_PATIENCE_MS, note_reached, &moved, err);
	else if (status == WEIR_OK)
		status = v->plan(plan, layout, w->numbers, err);
	if (status == WEIR_OK && v->plan)
		status = layout_carry_out(asker, plan, LAYOUT_PATIENCE_MS, note_reached, &moved, err);
	if (status == WEIR_OK && (moved.partitions || moved.ledger))
		print_moved(&moved, seconds() - begun);
	else if (status == WEIR_OK)
		printf("nothing to do%s\n", plan->left_count ? "" : ": it is so already");
	if (status == WEIR_OK)
		print_left(plan, layout);
	layout_close(asker);
	free(layout);
	free(plan);
	return status;
}

static weir_status run(const struct layout_verb *v, const struct words *w, weir_error *err)
{
	char addresses[JOB_PLACES_BYTES];
	weir_status status = job_servers_find_ledger(w->job, w->at, addresses, err);
	struct rpc *rpc = NULL;
	if (status == WEIR_OK)
		status = transport_open(&rpc, w->job, w->logger, err);
	if (status == WEIR_OK)
		status = move_all(v, w, rpc, addresses, err);
	if (rpc)
		rpc_destroy(rpc);
	return status;
}

int layout_verb_run(const struct layout_verb *v, int count, char **args)
{
	struct words w = {0};
	weir_error err = {0};
	weir_status status = read_words(&w, v, count, args, &err);
	if (status != WEIR_OK)
		return verb_usage(v->name, &err);
	if (w.options.path)
		status = job_options_load(&w.options, &w.job, &err);
	if (status == WEIR_OK)
		status = run(v, &w, &err);
	job_destroy(w.job);
	logger_destroy(w.logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail(v->name, &err);
}
