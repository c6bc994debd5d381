#include "tests/unit/proto/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/system/program.h"
#include "tests/cmocka_check.h"

void free_ports(uint16_t *ports, size_t count)
{
	int fds[FREE_PORTS_MAX];
	assert_true(count <= FREE_PORTS_MAX);
	for (size_t i = 0; i < count; i++) {
		struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		socklen_t n = sizeof a;
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_true(fds[i] >= 0 && bind(fds[i], (struct sockaddr *)&a, n) == 0 &&
		            getsockname(fds[i], (struct sockaddr *)&a, &n) == 0);
		ports[i] = ntohs(a.sin_port);
	}
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

uint16_t free_port(void)
{
	uint16_t port;
	free_ports(&port, 1);
	return port;
}

void etcd_process_prepare(struct etcd_process *p)
{
	weir_error err = {0};
	uint16_t ports[3];
	free_ports(ports, 3);
	*p = (struct etcd_process){.client_port = ports[0],
	                           .spare_port = ports[1],
	                           .peer_port = ports[2],
	                           .on_client_port = true,
	                           .folder = "/tmp/weir-etcd-XXXXXX"};
	CHECK_OK(program_find(p->program, sizeof p->program, "etcd", "etcd-server", getenv("PATH"), &err), err);
	assert_non_null(mkdtemp(p->folder));
	snprintf(p->address, sizeof p->address, "127.0.0.1:%u", p->client_port);
	snprintf(p->spare_address, sizeof p->spare_address, "127.0.0.1:%u", p->spare_port);
}

void etcd_process_start(struct etcd_process *p)
{
	char client[2 * WEIR_ADDRESS_BYTES_MAX + 16] = "", peer[64], cluster[80], data[80], log[80];
	if (p->on_client_port)
		snprintf(client, sizeof client, "http://%s", p->address);
	if (p->on_spare_port)
		snprintf(client + strlen(client), sizeof client - strlen(client), "%shttp://%s", *client ? "," : "", p->spare_address);
	snprintf(peer, sizeof peer, "http://127.0.0.1:%u", p->peer_port);
	snprintf(cluster, sizeof cluster, "weir=%s", peer);
	snprintf(data, sizeof data, "%s/data", p->folder);
	snprintf(log, sizeof log, "%s/log", p->folder);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (p->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	/* Leases of one second and a quick election, which is safe with a single member. */
	execl(p->program, "etcd", "--name", "weir", "--data-dir", data, "--listen-client-urls", client, "--advertise-client-urls",
	      client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
	      "--heartbeat-interval", "50", "--election-timeout", "250", "--logger", "zap", "--log-outputs", "stderr", (char *)NULL);
	_exit(127);
}

void etcd_process_kill(struct etcd_process *p)
{
	if (!p->pid)
		return;
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

void etcd_process_stop(struct etcd_process *p, bool stop)
{
	assert_int_equal(kill(p->pid, stop ? SIGSTOP : SIGCONT), 0);
	if (stop)
		/* waits until every thread has stopped */
		assert_int_equal(waitpid(p->pid, NULL, WUNTRACED), p->pid);
}

void etcd_process_post(const struct etcd_process *p, const char *path, const char *body)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(p->client_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char text[512], answer[1024] = "";
	size_t n = 0;
	int length = snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
	                      path, strlen(body), body);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && write(fd, text, (size_t)length) == length);
	for (ssize_t got; n + 1 < sizeof answer && (got = read(fd, answer + n, sizeof answer - 1 - n)) > 0;)
		n += (size_t)got;
	close(fd);
	CHECK_CONTAINS(answer, " 200 ");
}

void etcd_process_print_log(const struct etcd_process *p)
{
	char command[128];
	snprintf(command, sizeof command, "tail -n 20 %s/log >&2", p->folder);
	if (system(command))
		print_error("no log of etcd\n");
}

void etcd_process_end(struct etcd_process *p)
{
	char command[128];
	etcd_process_kill(p);
	snprintf(command, sizeof command, "rm -r %s", p->folder);
	assert_int_equal(system(command), 0);
}
