/* weir checkpoint: makes a running job write a checkpoint, or verifies an existing one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/core/ledger_client.h"
#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/transport.h"
#include "cli/core/verbs.h"
#include "cli/run/checkpoint_find.h"
#include "cli/run/job_servers.h"
#include "common/base/clock.h"
#include "common/web/json.h"
#include "proto/wire/wire.h"
#include "server/service/job_checkpoint.h"

#define POLL_MS   100u
#define MOVES_MAX 5u /* moves of the ledger while waiting for one checkpoint */

struct checkpoint_verb {
	struct job_options options;
	const char *at, *from;
	bool json;
	struct job *job; /* NULL: only an address was given */
	struct logger *logger;
};

/* --- Taking a checkpoint */

struct asker {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct ledger_client *ledger;
};

static void asker_close(struct asker *a)
{
	ledger_client_close(a->ledger);
	if (a->loop)
		rpc_loop_destroy(a->loop);
	if (a->rpc)
		rpc_destroy(a->rpc);
}

/* places: "A,B,C". */
static weir_status asker_open(struct asker *a, const struct checkpoint_verb *v, const char *places, weir_error *err)
{
	const weir_status status = transport_open(&a->rpc, v->job, v->logger, err);
	if (status != WEIR_OK)
		return status;
	a->loop = rpc_loop_create(a->rpc, "checkpoint", err);
	return a->loop ? ledger_client_open(&a->ledger, a->rpc, a->loop, places, err) : err->status;
}

static bool may_move(const struct asker *a)
{
	return ledger_client_count(a->ledger) > 1;
}

/* Repeats the request until the server with the ledger answers. With replicas, another server may
 * first have to take over the ledger. */
static weir_status ask(struct asker *a, bool start, Weir__V1__CheckpointReply **out, weir_error *err)
{
	const struct clock *clock = clock_system();
	const int64_t until_ms = clock_ms(clock) + WEIR_CONTROL_TIMEOUT_MS;
	Weir__V1__CheckpointRequest q = WEIR__V1__CHECKPOINT_REQUEST__INIT;
	q.start = start;
	for (;;) {
		ProtobufCMessage *m;
		const weir_status status = ledger_client_ask(a->ledger, RPC_CHECKPOINT, &q.base, WEIR_CONTROL_TIMEOUT_MS,
		                                             &weir__v1__checkpoint_reply__descriptor, &m, err);
		*out = (Weir__V1__CheckpointReply *)m;
		const bool passes = status == WEIR_E_MOVED || status == WEIR_E_UNAVAILABLE || status == WEIR_E_TIMEOUT;
		if (!passes || !may_move(a) || clock_ms(clock) >= until_ms)
			return status;
		*err = (weir_error){0};
		nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
	}
}

static bool has_ended(const Weir__V1__CheckpointReply *r, uint64_t sequence)
{
	return r->outcome && r->ended_sequence >= sequence;
}

/* Requests a checkpoint, or joins the one in progress, and waits for its end. *last describes that
 * end; free it with wire_destroy. */
static weir_status take(struct asker *a, Weir__V1__CheckpointReply **last, weir_error *err)
{
	weir_status status = ask(a, true, last, err);
	const uint64_t sequence = status == WEIR_OK ? (*last)->sequence : 0;
	const uint32_t at = status == WEIR_OK ? ledger_client_at(a->ledger) : 0;
	while (status == WEIR_OK && !has_ended(*last, sequence)) {
		nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
		wire_destroy(&(*last)->base);
		*last = NULL;
		status = ask(a, false, last, err);
		/* each server counts its own checkpoints, from 0 */
		if (status == WEIR_OK && (ledger_client_at(a->ledger) != at || (*last)->sequence < sequence))
			return weir_fail(err, WEIR_E_MOVED, "the checkpoint was given up: %s meanwhile; ask for another one",
			                 may_move(a) ? "another server has the ledger" : "server 0 was started again");
	}
	if (status == WEIR_OK && (*last)->outcome->code)
		status = weir_fail(err, (weir_status)(*last)->outcome->code, "the checkpoint failed: %s", (*last)->outcome->text);
	return status;
}

/* Requests a checkpoint again if the ledger moves meanwhile. */
static weir_status take_anywhere(struct asker *a, Weir__V1__CheckpointReply **last, weir_error *err)
{
	weir_status status = take(a, last, err);
	for (uint32_t moves = 0; may_move(a) && status == WEIR_E_MOVED && moves < MOVES_MAX; moves++) {
		if (*last)
			wire_destroy(&(*last)->base);
		*last = NULL;
		*err = (weir_error){0};
		status = take(a, last, err);
	}
	return status;
}

static weir_status print_taken(const struct checkpoint_verb *v, const Weir__V1__CheckpointReply *r, weir_error *err)
{
	char size[32];
	if (!v->json) {
		format_bytes(size, sizeof size, (double)r->bytes);
		printf("%s: %s of rows in %.1f s\n", r->name, size, (double)r->wall_ms / 1e3);
		return WEIR_OK;
	}
	struct json *j = json_create();
	json_set_text(j, "name", r->name);
	json_set_count(j, "bytes", r->bytes);
	json_set_real(j, "wall_s", (double)r->wall_ms / 1e3);
	weir_status status = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory to print");
	json_destroy(j);
	return status;
}

static weir_status take_one(struct checkpoint_verb *v, weir_error *err)
{
	struct asker a = {0};
	Weir__V1__CheckpointReply *last = NULL;
	char address[JOB_PLACES_BYTES];
	weir_status status = job_servers_find_ledger(v->job, v->at, address, err);
	if (status == WEIR_OK)
		status = asker_open(&a, v, address, err);
	if (status == WEIR_OK)
		status = take_anywhere(&a, &last, err);
	if (status == WEIR_OK)
		status = print_taken(v, last, err);
	if (last)
		wire_destroy(&last->base);
	asker_close(&a);
	return status;
}

/* --- Verifying a checkpoint */

static uint64_t rows_of(const struct checkpoint_manifest *m)
{
	uint64_t rows = 0;
	for (uint32_t p = 0; p < m->partitions_count; p++)
		for (uint32_t i = 0; i < m->partitions[p].rows_count; i++)
			rows += m->partitions[p].rows[i].info.rows;
	return rows;
}

static weir_status print_verified(const struct checkpoint_verb *v, const struct checkpoint_manifest *m, uint64_t bytes,
                                  weir_error *err)
{
	char size[32];
	if (!v->json) {
		format_bytes(size, sizeof size, (double)bytes);
		printf("%s is whole: job %s, generation %" PRIu64 ", after %" PRIu64 " batches; %u tables, %u partitions, %" PRIu64
		       " rows (values %s, slots %s), %s\n",
		       m->name, m->job, m->generation, m->step, m->tables_count, m->partitions_count, rows_of(m),
		       row_precision_name(m->values), row_precision_name(m->slots), size);
		return WEIR_OK;
	}
	struct json *j = json_create();
	json_set_text(j, "name", m->name);
	json_set_text(j, "job", m->job);
	json_set_count(j, "generation", m->generation);
	json_set_count(j, "step", m->step);
	json_set_count(j, "tables", m->tables_count);
	json_set_count(j, "partitions", m->partitions_count);
	json_set_count(j, "rows", rows_of(m));
	json_set_count(j, "bytes", bytes);
	json_set_text(j, "values", row_precision_name(m->values));
	json_set_text(j, "slots", row_precision_name(m->slots));
	weir_status status = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory to print");
	json_destroy(j);
	return status;
}

static weir_status verify(struct checkpoint_verb *v, weir_error *err)
{
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	uint64_t bytes = 0;
	weir_status status = checkpoint_find(v->job, v->from, &store, &m, err);
	if (status == WEIR_OK)
		status = checkpoint_verify(store, &m, &bytes, err);
	if (status == WEIR_OK)
		status = print_verified(v, &m, bytes, err);
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	return status;
}

/* --- The verb */

static weir_status prepare(struct checkpoint_verb *v, bool verifying, weir_error *err)
{
	if (verifying && v->at)
		return weir_fail(err, WEIR_E_INVALID, "verify reads the files: it needs --job FILE and no --at");
	if (!verifying && v->from)
		return weir_fail(err, WEIR_E_INVALID, "--from goes with verify");
	if (!v->at && !v->options.path)
		return weir_fail(err, WEIR_E_INVALID, verifying ? "needs --job FILE" : "needs --job FILE or --at ADDRESS");
	return job_options_logger(&v->options, "weir", LOG_ERROR, &v->logger, err);
}

int verb_checkpoint(int count, char **args)
{
	struct checkpoint_verb v = {0};
	const struct option options[] = {JOB_OPTIONS(&v.options),
	                                 AT_OPTION(v.at),
	                                 {"--from", OPTION_TEXT, &v.from, "NAME", "which checkpoint to verify: its name, or latest"},
	                                 {"--json", OPTION_FLAG, &v.json, NULL, "what was done, as JSON"}};
	const char *words[2] = {NULL, NULL};
	weir_error err = {0};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, words, 2, &err);
	bool verifying = words[0] && strcmp(words[0], "verify") == 0;
	const char *path = verifying ? words[1] : words[0];
	if (status == WEIR_OK && !verifying && words[1])
		status =
		    weir_fail(&err, WEIR_E_INVALID, "unexpected '%s'; there is `weir checkpoint` and `weir checkpoint verify`", words[1]);
	v.options.path = path ? path : v.options.path;
	if (status == WEIR_OK)
		status = prepare(&v, verifying, &err);
	if (status != WEIR_OK)
		return verb_usage("checkpoint", &err);
	if (v.options.path)
		status = job_options_load(&v.options, &v.job, &err);
	if (status == WEIR_OK)
		status = verifying ? verify(&v, &err) : take_one(&v, &err);
	job_destroy(v.job);
	logger_destroy(v.logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("checkpoint", &err);
}
