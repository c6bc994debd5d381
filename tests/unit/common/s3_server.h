/* tests/s3/server.py or web.py as a child process of a test. */
#ifndef WEIR_TESTS_S3_SERVER_H
#define WEIR_TESTS_S3_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define S3_ACCESS "AKIDWEIRTEST"
#define S3_SECRET "a/secret+key"
#define S3_REGION "us-west-7"
#define S3_BUCKET "weir-test"
#define S3_TOKEN  "a-session/token=="

struct s3_server {
	pid_t pid;
	uint16_t port;
	char endpoint[64];
};
bool s3_server_start(struct s3_server *s);
bool web_server_start(struct s3_server *s, const char *folder); /* runs web.py */
void s3_server_stop(struct s3_server *s);
/* After `after` more requests, `count` requests fail in the way `what` of server.py. */
void s3_server_fail(const struct s3_server *s, const char *what, uint32_t count, uint32_t after);
uint32_t s3_server_uploads(const struct s3_server *s); /* open multipart uploads */
uint64_t web_server_sent(const struct s3_server *s);   /* bytes since the last call */

#endif
