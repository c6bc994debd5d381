/* weir checkpoint: has a running job write one, or looks at those that are there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint_find.h"
#include "clock.h"
#include "job_checkpoint.h"
#include "json.h"
#include "live.h"
#include "options.h"
#include "rpc.h"
#include "train.h"
#include "verbs.h"
#include "wire.h"

#define POLL_MS   100u
#define MOVES_MAX 5u /* of the ledger, while one checkpoint is waited for */

struct checkpoint_verb {
	struct job_options options;
	const char *at, *from;
	bool json;
	struct job *job; /* NULL: only an address was given */
	struct logger *logger;
};

/* --- Taking one */

/* Where the ledger may be: with replicas on one of several servers. */
struct asker {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct rpc_channel *doors[WEIR_COPIES_MAX]; /* (count) */
	uint32_t count, door;                       /* door: where it was last */
};

static void asker_close(struct asker *a)
{
	for (uint32_t i = 0; i < a->count; i++)
		rpc_channel_close(a->doors[i]);
	if (a->loop)
		rpc_loop_destroy(a->loop);
	if (a->rpc)
		rpc_destroy(a->rpc);
}

/* places: "A,B,C". */
static weir_status asker_open(struct asker *a, const char *places, struct logger *logger, weir_error *err)
{
	a->rpc = rpc_grpc_create(logger);
	if (!a->rpc)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a transport");
	a->loop = rpc_loop_create(a->rpc, "checkpoint", err);
	weir_status s = a->loop ? WEIR_OK : err->status;
	for (const char *at = places; *at && s == WEIR_OK && a->count < WEIR_COPIES_MAX; at += strspn(at, ",")) {
		char address[WEIR_ADDRESS_BYTES_MAX];
		const int bytes = (int)strcspn(at, ",");
		snprintf(address, sizeof address, "%.*s", bytes, at);
		s = rpc_channel_open(&a->doors[a->count], a->rpc, a->loop, address, err);
		a->count += s == WEIR_OK;
		at += bytes;
	}
	return s;
}

static weir_status ask_door(const struct asker *a, bool start, Weir__V1__CheckpointReply **out, weir_error *err)
{
	Weir__V1__CheckpointRequest q = WEIR__V1__CHECKPOINT_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	struct message *reply = NULL;
	q.start = start;
	struct message *request = wire_pack(&q.base);
	if (!request)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a request");
	weir_status s = rpc_call_wait(a->doors[a->door], RPC_CHECKPOINT, request, WEIR_CONTROL_TIMEOUT_MS / a->count, &reply, err);
	if (s == WEIR_OK)
		s = wire_unpack(&weir__v1__checkpoint_reply__descriptor, reply, &m, err);
	message_release(reply);
	*out = (Weir__V1__CheckpointReply *)m;
	return s;
}

/* Whether the ledger may be asked elsewhere, or later. */
static bool may_be_elsewhere(const struct asker *a, weir_status s)
{
	return a->count > 1 && (s == WEIR_E_MOVED || s == WEIR_E_UNAVAILABLE || s == WEIR_E_TIMEOUT);
}

/* Until a server answers that has the ledger: where there are replicas, that may take until another one has taken it over. */
static weir_status ask(struct asker *a, bool start, Weir__V1__CheckpointReply **out, weir_error *err)
{
	const struct clock *clock = clock_system();
	const int64_t until_ms = clock_ms(clock) + WEIR_CONTROL_TIMEOUT_MS;
	weir_status s = ask_door(a, start, out, err);
	while (may_be_elsewhere(a, s) && clock_ms(clock) < until_ms) {
		a->door = (a->door + 1) % a->count;
		if (a->door == 0)
			nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
		*err = (weir_error){0};
		s = ask_door(a, start, out, err);
	}
	return s;
}

static bool has_ended(const Weir__V1__CheckpointReply *r, uint64_t sequence)
{
	return r->outcome && r->ended_sequence >= sequence;
}

/* Asks for one, or for the one being written, and waits for its end. *last is that end; free it with wire_free. */
static weir_status take(struct asker *a, Weir__V1__CheckpointReply **last, weir_error *err)
{
	weir_status s = ask(a, true, last, err);
	const uint64_t sequence = s == WEIR_OK ? (*last)->sequence : 0;
	const uint32_t door = a->door;
	while (s == WEIR_OK && !has_ended(*last, sequence)) {
		nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
		wire_free(&(*last)->base);
		*last = NULL;
		s = ask(a, false, last, err);
		if (s == WEIR_OK && (a->door != door || (*last)->sequence < sequence)) /* each server counts its own, from 0 */
			return weir_fail(err, WEIR_E_MOVED, "the checkpoint was given up: %s meanwhile; ask for another one",
			                 a->count > 1 ? "another server has the ledger" : "server 0 was started again");
	}
	if (s == WEIR_OK && (*last)->outcome->code)
		s = weir_fail(err, (weir_status)(*last)->outcome->code, "the checkpoint failed: %s", (*last)->outcome->text);
	return s;
}

/* One that moves with the ledger is asked for anew. */
static weir_status take_anywhere(struct asker *a, Weir__V1__CheckpointReply **last, weir_error *err)
{
	weir_status s = take(a, last, err);
	for (uint32_t moves = 0; a->count > 1 && s == WEIR_E_MOVED && moves < MOVES_MAX; moves++) {
		if (*last)
			wire_free(&(*last)->base);
		*last = NULL;
		*err = (weir_error){0};
		s = take(a, last, err);
	}
	return s;
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
	weir_status s = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory to print");
	json_destroy(j);
	return s;
}

static weir_status take_one(struct checkpoint_verb *v, weir_error *err)
{
	struct asker a = {0};
	Weir__V1__CheckpointReply *last = NULL;
	char address[LEDGER_PLACES_BYTES];
	weir_status s = launch_find_ledger(v->job, v->at, address, err);
	if (s == WEIR_OK)
		s = asker_open(&a, address, v->logger, err);
	if (s == WEIR_OK)
		s = take_anywhere(&a, &last, err);
	if (s == WEIR_OK)
		s = print_taken(v, last, err);
	if (last)
		wire_free(&last->base);
	asker_close(&a);
	return s;
}

/* --- Looking at one */

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
	weir_status s = j ? json_print(j, stdout, err) : weir_fail(err, WEIR_E_MEMORY, "no memory to print");
	json_destroy(j);
	return s;
}

static weir_status open_store(const struct job *job, struct blob_store **store, weir_error *err)
{
	char place[WEIR_PATH_BYTES_MAX + 32];
	struct checkpoint_options o;
	job_checkpoint_options(job, place, &o);
	return checkpoint_options_open(&o, store, err);
}

weir_status checkpoint_find_latest(const struct job *job, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], weir_error *err)
{
	struct blob_store *store = NULL;
	weir_status s = open_store(job, &store, err);
	if (s == WEIR_OK)
		s = checkpoint_latest(store, job->name, name, err);
	blob_close(store);
	return s;
}

weir_status checkpoint_find(const struct job *job, const char *from, struct blob_store **store, struct checkpoint_manifest *out,
                            weir_error *err)
{
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_status s = open_store(job, store, err);
	if (s == WEIR_OK && (!from || strcmp(from, "latest") == 0)) {
		s = checkpoint_latest(*store, job->name, name, err);
		from = name;
	}
	if (s == WEIR_OK)
		s = checkpoint_manifest_read(*store, from, out, err);
	return s;
}

static weir_status verify(struct checkpoint_verb *v, weir_error *err)
{
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	uint64_t bytes = 0;
	weir_status s = checkpoint_find(v->job, v->from, &store, &m, err);
	if (s == WEIR_OK)
		s = checkpoint_verify(store, &m, &bytes, err);
	if (s == WEIR_OK)
		s = print_verified(v, &m, bytes, err);
	checkpoint_manifest_free(&m);
	blob_close(store);
	return s;
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
	                                 {"--at", OPTION_TEXT, &v.at},
	                                 {"--from", OPTION_TEXT, &v.from},
	                                 {"--json", OPTION_FLAG, &v.json}};
	const char *words[2] = {NULL, NULL};
	weir_error err = {0};
	weir_status s = options_parse(count, args, options, sizeof options / sizeof *options, words, 2, &err);
	bool verifying = words[0] && strcmp(words[0], "verify") == 0;
	const char *path = verifying ? words[1] : words[0];
	if (s == WEIR_OK && !verifying && words[1])
		s = weir_fail(&err, WEIR_E_INVALID, "unexpected '%s'; there is `weir checkpoint` and `weir checkpoint verify`", words[1]);
	v.options.path = path ? path : v.options.path;
	if (s == WEIR_OK)
		s = prepare(&v, verifying, &err);
	if (s != WEIR_OK)
		return verb_usage("checkpoint", &err);
	if (!v.at)
		s = job_options_load(&v.options, &v.job, &err);
	if (s == WEIR_OK)
		s = verifying ? verify(&v, &err) : take_one(&v, &err);
	job_free(v.job);
	logger_destroy(v.logger);
	return s == WEIR_OK ? EXIT_SUCCESS : verb_fail("checkpoint", &err);
}
