#include "tests/unit/common/s3_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool start(struct s3_server *s, const char *const *arguments)
{
	int ends[2];
	char line[32] = "";
	if (pipe(ends) != 0)
		return false;
	s->pid = fork();
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		execvp("python3", (char *const *)(uintptr_t)arguments);
		_exit(127);
	}
	close(ends[1]);
	FILE *in = fdopen(ends[0], "r");
	unsigned port = 0;
	bool started = s->pid > 0 && in && fgets(line, sizeof line, in) && sscanf(line, "%u", &port) == 1;
	if (in)
		fclose(in);
	s->port = (uint16_t)port;
	snprintf(s->endpoint, sizeof s->endpoint, "http://127.0.0.1:%u", port);
	if (!started)
		fprintf(stderr, "%s did not start: is python3 installed?\n", arguments[1]);
	return started;
}

bool s3_server_start(struct s3_server *s)
{
	static const char *const arguments[] = {
	    "python3", S3_SERVERS "/server.py", S3_ACCESS, S3_SECRET, S3_REGION, S3_BUCKET, S3_TOKEN, NULL};
	return start(s, arguments);
}

bool web_server_start(struct s3_server *s, const char *folder)
{
	const char *const arguments[] = {"python3", S3_SERVERS "/web.py", folder, NULL};
	return start(s, arguments);
}

void s3_server_stop(struct s3_server *s)
{
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
}

/* Sends one unsigned request to the server's controls; returns the answer's body. */
static void ask(const struct s3_server *s, const char *request, char *answer, size_t bytes)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char text[512], all[1024];
	size_t n = 0;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int length = snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", request);
	assert(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && write(fd, text, (size_t)length) == length);
	for (ssize_t got; n + 1 < sizeof all && (got = read(fd, all + n, sizeof all - 1 - n)) > 0;)
		n += (size_t)got;
	close(fd);
	all[n] = '\0';
	const char *body = strstr(all, "\r\n\r\n");
	assert(strstr(all, " 200 ") && body);
	snprintf(answer, bytes, "%s", body + 4);
}

void s3_server_fail(const struct s3_server *s, const char *what, uint32_t count, uint32_t after)
{
	char request[128], answer[16];
	snprintf(request, sizeof request, "POST /-/fail?what=%s&count=%u&after=%u", what, count, after);
	ask(s, request, answer, sizeof answer);
}

uint32_t s3_server_uploads(const struct s3_server *s)
{
	char answer[64];
	unsigned requests, uploads = UINT32_MAX;
	ask(s, "GET /-/requests", answer, sizeof answer);
	int n = sscanf(answer, "%u %u", &requests, &uploads);
	assert(n == 2);
	return uploads;
}

uint64_t web_server_sent(const struct s3_server *s)
{
	char answer[64];
	ask(s, "GET /-/sent", answer, sizeof answer);
	return strtoull(answer, NULL, 10);
}
