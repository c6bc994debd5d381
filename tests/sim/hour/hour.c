#include "tests/sim/hour/hour.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/coord/coord_sim.h"
#include "tests/sim/world/heap.h"

#define LOOK_NS  (50 * SIM_MS)
#define LIMIT_NS (8 * 3600 * SIM_S) /* a job that takes longer never ends */
#define CHECK_NS (60 * SIM_S)

void hour_fail(struct hour *h, const char *format, ...)
{
	va_list args;
	if (h->failure[0])
		return;
	va_start(args, format);
	vsnprintf(h->failure, sizeof h->failure, format, args);
	va_end(args);
	world_note("FAILURE: %s", h->failure);
}

/* --- Failures: the seed and the machine alone decide when a machine fails, whatever the job
 * does. */

static void fail(void *machine);

static void start(struct machine *m)
{
	node_start(m->node, m->is_server ? server_main : worker_main, m);
	if (m->hour->failures.per_s > 0)
		world_after((int64_t)(-log(1 - prng_unit(&m->failures)) / m->hour->failures.per_s * 1e9), fail, m);
}

static void replace(void *machine)
{
	struct machine *m = machine;
	m->life++;
	start(m);
}

static void fail(void *machine)
{
	struct machine *m = machine;
	if (m->finished || m->hour->failures.per_s <= 0)
		return;
	world_note("%s fails", m->name);
	*(m->is_server ? &m->hour->servers_failed : &m->hour->workers_failed) += 1;
	node_kill(m->node, DEATH_MACHINE);
	world_after(m->hour->failures.replaced_ns, replace, m);
}

/* --- The job */

static void add_machine(struct hour *h, uint32_t i)
{
	const struct disk_mood disk = {.sync_ns = h->costs.sync_ns};
	struct machine *m = &h->of[i];
	*m = (struct machine){.hour = h, .is_server = i < SERVERS, .index = i < SERVERS ? i : i - SERVERS};
	snprintf(m->name, sizeof m->name, "%s-%u", m->is_server ? "server" : "worker", m->index);
	snprintf(m->address, sizeof m->address, "sim:%s", m->name);
	m->node = node_create(m->name);
	prng_seed(&m->failures, prng_mix(world_seed(), 1, i));
	if (!m->is_server)
		return;
	m->disk = disk_sim_create(m->node, &disk);
	h->addresses[i] = m->address;
	if (i < REPLICAS)
		snprintf(h->ledger + strlen(h->ledger), sizeof h->ledger - strlen(h->ledger), "%s%s", i ? "," : "", m->address);
}

static bool all_finished(const struct hour *h)
{
	for (uint32_t i = SERVERS; i < MACHINES; i++)
		if (!h->of[i].finished)
			return false;
	return true;
}

static void check(struct hour *h)
{
	const int64_t limit_ns = world_now() + CHECK_NS;
	node_start(node_create("check"), check_main, h);
	while (!h->checked && !h->failure[0] && world_now() < limit_ns)
		thread_sleep(LOOK_NS);
	if (!h->checked)
		hour_fail(h, "the weights could not be read");
}

struct plan {
	struct result *result;
	uint32_t units;
	struct costs costs;
	struct failures failures;
};

static void run(void *arg)
{
	const struct plan *p = arg;
	struct hour *h = world_alloc(sizeof *h);
	h->units = p->units;
	h->costs = p->costs;
	h->failures = p->failures;
	heap_begin();
	network_begin(&(struct network_mood){.delay_ns = h->costs.delay_ns, .window = 8});
	coord_sim_begin(node_create("coord"), &(struct coord_mood){.delay_ns = h->costs.coordinator_ns});
	for (uint32_t i = 0; i < MACHINES; i++)
		add_machine(h, i);
	for (uint32_t i = 0; i < MACHINES; i++)
		start(&h->of[i]);
	while (!all_finished(h) && !h->failure[0] && world_now() < LIMIT_NS)
		thread_sleep(LOOK_NS);
	*p->result =
	    (struct result){.took_ns = world_now(), .servers_failed = h->servers_failed, .workers_failed = h->workers_failed};
	h->failures.per_s = 0; /* machines that are down return; no new failures */
	if (!all_finished(h))
		hour_fail(h, "the job does not end");
	if (!h->failure[0])
		check(h);
	memcpy(p->result->failure, h->failure, sizeof h->failure);
	for (uint32_t i = 0; i < MACHINES; i++)
		node_kill(h->of[i].node, DEATH_PROCESS);
	for (uint32_t i = 0; i < SERVERS; i++)
		disk_sim_destroy(h->of[i].disk);
}

void hour_run(struct result *out, uint64_t seed, uint32_t units, const struct costs *costs, const struct failures *failures,
              bool verbose)
{
	struct plan p = {.result = out, .units = units, .costs = *costs, .failures = *failures};
	world_run(&(struct world_options){.seed = seed, .verbose = verbose}, run, &p);
}
