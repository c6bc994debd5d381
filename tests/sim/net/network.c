/* Packets in flight, connections and their keepalive, listeners. This code belongs to machines and
 * wires: it runs in events, or on a thread that hands something over. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/net/internal.h"

enum { NODES_MAX = 64 };
#define PING_NS (500 * SIM_MS)
/* Keepalive time of the real transport. */
#define PATIENCE_NS  ((WEIR_DEAD_PEER_MS - 1000) * SIM_MS)
#define CONNECT_NS   (WEIR_CONNECT_ATTEMPT_MS * SIM_MS)
#define RESEND_NS    (200 * SIM_MS) /* maximum delay of stalled packets once the way is open */
#define TRACE_PACKET 16

struct listener {
	struct listener *next;
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct node *node;
	uint64_t life;
	struct rpc_server *server; /* NULL: nobody listens now */
};

static struct {
	struct network_mood mood;
	struct listener *listeners;
	struct connection *connections;
	struct packet *stalled;
	bool cut[NODES_MAX][NODES_MAX]; /* [from][to] */
	struct network_count count;
} net;

static void on_death(void *arg, struct node *n, enum node_death how);

void network_begin(const struct network_mood *mood)
{
	memset(&net, 0, sizeof net);
	net.mood = *mood;
	node_watch_deaths(on_death, NULL);
}

void network_calm(void)
{
	net.mood.rare = 0;
}

uint32_t network_window(void)
{
	return net.mood.window;
}

struct network_count network_counts(void)
{
	return net.count;
}

static int64_t delay(void)
{
	return world_between(10000, world_chance(net.mood.rare) ? net.mood.rare_delay_ns : net.mood.delay_ns);
}

/* --- Listeners */

static struct listener *listener_find(const char *address)
{
	for (struct listener *l = net.listeners; l; l = l->next)
		if (strcmp(l->address, address) == 0)
			return l;
	return NULL;
}

weir_status listener_add(const char *address, struct rpc_server *server, weir_error *err)
{
	struct listener *l = listener_find(address);
	if (l && l->server)
		return weir_fail(err, WEIR_E_EXISTS, "%s: in use by another server; stop it or choose another address", address);
	if (!l) {
		l = world_alloc(sizeof *l);
		snprintf(l->address, sizeof l->address, "%s", address);
		l->next = net.listeners;
		net.listeners = l;
	}
	l->node = node_current();
	l->life = node_life(l->node);
	l->server = server;
	return WEIR_OK;
}

void listener_remove(const struct rpc_server *server)
{
	for (struct listener *l = net.listeners; l; l = l->next)
		if (l->server == server)
			l->server = NULL;
}

/* --- Ends of flows */

static struct node *node_of(const struct flow *f, enum side side)
{
	return f->connection ? f->connection->node[side] : NULL;
}

struct flow *flow_create(enum rpc_method method, struct rpc_loop *client, void *object,
                         void (*deliver)(void *object, struct packet *p))
{
	struct flow *f = world_alloc(sizeof *f);
	f->method = method;
	f->end[CLIENT] = (struct flow_end){.loop = client, .object = object, .deliver = deliver};
	return f;
}

void flow_start(struct flow *f, struct connection *c)
{
	f->connection = c;
	f->next = c->flows;
	c->flows = f;
}

void flow_end(struct flow *f, enum side side)
{
	f->end[side].loop = NULL;
	f->end[side].object = NULL;
}

/* --- Packets */

static struct packet *packet_create(struct flow *f, enum side to, enum packet_kind kind, weir_status status, const char *text)
{
	struct packet *p = world_alloc(sizeof *p);
	p->flow = f;
	p->to = to;
	p->kind = kind;
	p->status = status;
	if (text && text[0]) {
		p->text = world_alloc(strlen(text) + 1);
		strcpy(p->text, text);
	}
	return p;
}

void packet_free(struct packet *p)
{
	world_free(p->text);
	world_free(p->data);
	world_free(p);
}

const char *packet_text(const struct packet *p)
{
	return p->text ? p->text : "";
}

struct message *packet_message(const struct packet *p)
{
	return message_copy(p->data, p->bytes);
}

static void packet_fill(struct packet *p, const struct message *m)
{
	uint8_t *to = p->data = world_alloc(m->bytes + 1);
	for (uint32_t i = 0; i < m->count; to += m->spans[i++].size)
		if (m->spans[i].size)
			memcpy(to, m->spans[i].data, m->spans[i].size);
	p->bytes = m->bytes;
}

static void run_packet(void *arg)
{
	struct packet *p = arg;
	const struct flow_end *e = &p->flow->end[p->to];
	if (e->object)
		e->deliver(e->object, p);
	else
		packet_free(p);
}

/* Posts it to the end's loop. The task is in memory of the receiving process. */
static void packet_post(struct packet *p, void (*run)(void *packet))
{
	const struct flow_end *e = &p->flow->end[p->to];
	if (!e->loop) {
		packet_free(p);
		return;
	}
	machine_for(node_of(p->flow, p->to));
	rpc_loop_post(e->loop, run, p);
	machine_for(NULL);
}

void packet_local(struct flow *f, enum side side, enum packet_kind kind, weir_status status, const char *text)
{
	packet_post(packet_create(f, side, kind, status, text), run_packet);
}

/* --- Connections that break */

static void connection_die(struct connection *c, enum side side, bool silent)
{
	if (c->dead[side])
		return;
	c->dead[side] = true;
	world_note("%s has lost the connection of %s to %s%s", side == CLIENT ? "client" : "server", node_name(c->node[CLIENT]),
	           c->address, silent ? ": silence" : "");
	for (struct flow *f = c->flows; f; f = f->next)
		packet_local(f, side, PACKET_BROKEN, silent ? WEIR_E_TIMEOUT : WEIR_OK, NULL);
}

static bool is_cut_to(const struct connection *c, enum side to)
{
	const struct node *a = c->node[!to], *b = c->node[to];
	return a && b && a != b && net.cut[node_index(a)][node_index(b)];
}

struct signal { /* a reset, a ping, or the answer to a ping */
	struct connection *connection;
	enum side to;
};

static void signal_send(struct connection *c, enum side to, void (*arrive)(void *signal))
{
	struct signal *s = world_alloc(sizeof *s);
	*s = (struct signal){c, to};
	world_after(delay(), arrive, s);
}

static void reset_arrives(void *arg)
{
	const struct signal s = *(struct signal *)arg;
	world_free(arg);
	if (is_cut_to(s.connection, s.to) || s.connection->dead[s.to])
		return;
	net.count.resets++;
	connection_die(s.connection, s.to, false);
}

/* Whether the process at that side is still the one of this connection. */
static bool is_there(const struct connection *c, enum side side)
{
	return !c->dead[side] && c->node[side] && node_is_up(c->node[side]) && node_life(c->node[side]) == c->life[side];
}

/* A packet for a side that is dead or not there yet is lost, and the connection breaks. If the
 * machine is on, it tells the peer. */
static void answer_for_nobody(struct connection *c, enum side side)
{
	c->dead[side] = true;
	if (!c->node[side] || node_answers(c->node[side]))
		signal_send(c, !side, reset_arrives);
}

/* --- Keepalive */

static void answer_arrives(void *arg)
{
	const struct signal s = *(struct signal *)arg;
	world_free(arg);
	if (!is_cut_to(s.connection, s.to))
		s.connection->heard_ns[s.to] = world_now();
}

static void ping_arrives(void *arg)
{
	const struct signal s = *(struct signal *)arg;
	struct connection *c = s.connection;
	world_free(arg);
	if (is_cut_to(c, s.to) || (s.to == SERVER && !c->accepted))
		return;
	if (!is_there(c, s.to))
		answer_for_nobody(c, s.to);
	else if (!node_is_paused(c->node[s.to]))
		signal_send(c, !s.to, answer_arrives);
}

static void keep_alive(struct connection *c, enum side side)
{
	if (!is_there(c, side))
		return;
	if (node_is_paused(c->node[side]))
		c->heard_ns[side] = world_now(); /* a stopped process heard nothing, and knows why */
	if (world_now() - c->heard_ns[side] > (c->accepted ? PATIENCE_NS : CONNECT_NS)) {
		net.count.silences++;
		connection_die(c, side, c->accepted);
		signal_send(c, !side, reset_arrives);
		return;
	}
	signal_send(c, !side, ping_arrives);
}

static void look_after(void *arg)
{
	struct connection *c = arg;
	keep_alive(c, CLIENT);
	if (c->accepted)
		keep_alive(c, SERVER);
	if (is_there(c, CLIENT) || (c->accepted && is_there(c, SERVER)))
		world_after(world_between(PING_NS / 2, PING_NS), look_after, c);
}

struct connection *connection_to(struct connection *last, const char *address)
{
	if (last && !last->dead[CLIENT])
		return last;
	const struct listener *l = listener_find(address);
	struct connection *c = world_alloc(sizeof *c);
	snprintf(c->address, sizeof c->address, "%s", address);
	c->node[CLIENT] = node_current();
	c->life[CLIENT] = node_life(c->node[CLIENT]);
	c->node[SERVER] = l ? l->node : NULL;
	c->heard_ns[CLIENT] = c->heard_ns[SERVER] = world_now();
	c->next = net.connections;
	net.connections = c;
	world_after(world_between(PING_NS / 2, PING_NS), look_after, c);
	world_note("connects to %s", address);
	return c;
}

void connection_leave(struct connection *c)
{
	if (!c || c->dead[CLIENT])
		return;
	c->dead[CLIENT] = true;
	signal_send(c, SERVER, reset_arrives);
}

/* --- Packets that arrive */

/* Admits the first packet of a flow at a server, or tells the client that nobody listens. */
static void admit(struct packet *p)
{
	struct connection *c = p->flow->connection;
	const struct listener *l = listener_find(c->address);
	if (!l || !l->server || (c->accepted && l->life != c->life[SERVER])) {
		net.count.refusals++;
		answer_for_nobody(c, SERVER);
		packet_free(p);
		return;
	}
	if (!c->accepted) {
		c->accepted = true;
		c->life[SERVER] = l->life;
		c->heard_ns[SERVER] = world_now();
	}
	struct flow *f = p->flow;
	const enum packet_kind kind = p->kind;
	char text[WEIR_ERROR_TEXT_BYTES];
	if (server_admit(l->server, p))
		return;
	failure_text(text, sizeof text, f, "the server is stopping, or has too many connections");
	packet_send(f, SERVER, kind == PACKET_OPEN ? PACKET_CLOSED : PACKET_REPLY, WEIR_E_UNAVAILABLE, text, NULL);
}

static void deliver(struct packet *p)
{
	world_trace(TRACE_PACKET + p->kind, p->sequence, p->bytes);
	if (p->kind == PACKET_OPEN || p->kind == PACKET_REQUEST)
		admit(p);
	else
		packet_post(p, run_packet);
}

/* Queues packets that arrive out of turn and delivers those in turn. */
static void in_order(struct packet *p)
{
	struct flow_end *e = &p->flow->end[p->to];
	struct packet **at = &e->early;
	while (*at && (*at)->sequence < p->sequence)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	net.count.early += e->early->sequence != e->received;
	while (e->early && e->early->sequence == e->received) {
		struct packet *next = e->early;
		e->early = next->next;
		e->received++;
		deliver(next);
	}
}

static void arrive(void *arg)
{
	struct packet *p = arg;
	struct connection *c = p->flow->connection;
	if (is_cut_to(c, p->to)) {
		net.count.stalled++;
		p->next = net.stalled;
		net.stalled = p;
		return;
	}
	const bool first = p->to == SERVER && !c->accepted && !c->dead[SERVER];
	if (first ? c->node[SERVER] && node_is_up(c->node[SERVER]) : is_there(c, p->to)) {
		in_order(p);
		return;
	}
	answer_for_nobody(c, p->to);
	packet_free(p);
}

void packet_send(struct flow *f, enum side from, enum packet_kind kind, weir_status status, const char *text,
                 const struct message *m)
{
	if (!f->connection || f->connection->dead[from])
		return;
	struct packet *p = packet_create(f, !from, kind, status, text);
	p->sequence = f->end[from].sent++;
	if (m)
		packet_fill(p, m);
	net.count.packets++;
	world_after(delay(), arrive, p);
}

/* --- Faults */

void network_cut(const struct node *from, const struct node *to)
{
	world_note("cut: %s to %s", node_name(from), node_name(to));
	net.cut[node_index(from)][node_index(to)] = true;
}

bool network_is_cut(const struct node *from, const struct node *to)
{
	return net.cut[node_index(from)][node_index(to)];
}

void network_heal(const struct node *from, const struct node *to)
{
	if (!network_is_cut(from, to))
		return;
	world_note("healed: %s to %s", node_name(from), node_name(to));
	net.cut[node_index(from)][node_index(to)] = false;
	for (struct packet **at = &net.stalled, *p; (p = *at);) {
		if (is_cut_to(p->flow->connection, p->to)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		world_after(world_between(0, RESEND_NS), arrive, p);
	}
}

void network_reset(const struct node *a, const struct node *b)
{
	world_note("reset: connections between %s and %s", node_name(a), node_name(b));
	for (struct connection *c = net.connections; c; c = c->next)
		if ((c->node[CLIENT] == a && c->node[SERVER] == b) || (c->node[CLIENT] == b && c->node[SERVER] == a)) {
			signal_send(c, CLIENT, reset_arrives);
			signal_send(c, SERVER, reset_arrives);
		}
}

static void side_dies(struct connection *c, enum side side, enum node_death how)
{
	c->dead[side] = true;
	for (struct flow *f = c->flows; f; f = f->next)
		flow_end(f, side);
	if (how == DEATH_PROCESS)
		signal_send(c, !side, reset_arrives);
}

static void on_death(void *arg, struct node *n, enum node_death how)
{
	(void)arg;
	for (struct listener *l = net.listeners; l; l = l->next)
		if (l->node == n)
			l->server = NULL;
	for (struct connection *c = net.connections; c; c = c->next) {
		if (c->node[CLIENT] == n && !c->dead[CLIENT])
			side_dies(c, CLIENT, how);
		if (c->node[SERVER] == n && c->accepted && !c->dead[SERVER])
			side_dies(c, SERVER, how);
	}
}
