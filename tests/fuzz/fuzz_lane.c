/* A lane's bytes from a stranger: taken alike however they are cut, and no message exceeds its
 * limit.
 *
 * Input: u8 the cut, u8 flags (1: the end is a server's; 2: bytes as they are, else frames), then
 * bytes, or frames: u8 kind, u16 bytes, u8 value, and the payload. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/little_endian.h"
#include "proto/lane/lane_end.h"
#include "proto/lane/lane_wire.h"

enum { STREAM_BYTES = 60000, FRAME_BYTES = 4, IS_SERVER = 1, IS_RAW = 2 };

struct heard {
	struct lane_end *end;
	uint64_t messages, hash, half_closes;
	bool closed;
	weir_status status;
};

static void sent(void *arg)
{
	(void)arg;
	assert(!"nothing was sent");
}

static void message(void *arg, struct message *m)
{
	struct heard *h = arg;
	assert(m->bytes <= WEIR_MESSAGE_BYTES_MAX && !h->closed);
	h->messages++;
	for (uint32_t i = 0; i < m->count; i++)
		h->hash = hash_bytes(m->spans[i].data, m->spans[i].size, h->hash + m->bytes);
	lane_end_read(h->end);
}

static void half_closed(void *arg)
{
	((struct heard *)arg)->half_closes++;
}

static void closed(void *arg, weir_status status, const char *text)
{
	struct heard *h = arg;
	assert(!h->closed && strlen(text) < WEIR_ERROR_TEXT_BYTES);
	h->closed = true;
	h->status = status;
}

static void hear(struct heard *h, bool is_server, const uint8_t *data, size_t size, size_t cut)
{
	static const struct lane_events events = {sent, message, half_closed, closed};
	int fds[2];
	struct lane_poll *poll = lane_poll_create(NULL);
	assert(poll && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
	*h = (struct heard){0};
	h->end = lane_end_create(poll, fds[0], is_server, &events, h, NULL);
	assert(h->end);
	for (size_t at = 0, n; at < size && !h->closed; at += n) {
		n = cut < size - at ? cut : size - at;
		assert(send(fds[1], data + at, n, MSG_NOSIGNAL) == (ssize_t)n);
		lane_poll_wait(poll, 0);
	}
	close(fds[1]);
	for (int i = 0; i < 4000 && !h->closed; i++) /* 64 messages a turn */
		lane_poll_wait(poll, 0);
	assert(h->closed);
	lane_poll_destroy(poll);
}

/* Writes the frames that the input describes. Returns their bytes. */
static size_t write_frames(const uint8_t *data, size_t size, uint8_t out[STREAM_BYTES])
{
	size_t at = 0;
	while (size >= FRAME_BYTES && at + LANE_HEADER_BYTES <= STREAM_BYTES) {
		lane_put_header(out + at, &(struct lane_header){.kind = data[0], .bytes = get16(data + 1), .value = data[3]});
		const size_t left = size - FRAME_BYTES, room = STREAM_BYTES - at - LANE_HEADER_BYTES, wanted = get16(data + 1);
		size_t n = wanted < left ? wanted : left;
		n = n < room ? n : room;
		memcpy(out + at + LANE_HEADER_BYTES, data + FRAME_BYTES, n);
		at += LANE_HEADER_BYTES + n;
		data += FRAME_BYTES + n;
		size -= FRAME_BYTES + n;
	}
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[STREAM_BYTES];
	struct heard whole, parts;
	if (size < 2)
		return 0;
	const bool is_server = data[1] & IS_SERVER;
	size_t n = size - 2 < STREAM_BYTES ? size - 2 : STREAM_BYTES;
	if (data[1] & IS_RAW)
		memcpy(stream, data + 2, n);
	else
		n = write_frames(data + 2, size - 2, stream);
	hear(&whole, is_server, stream, n, STREAM_BYTES);
	hear(&parts, is_server, stream, n, data[0] + 1u);
	assert(whole.messages == parts.messages && whole.hash == parts.hash && whole.half_closes == parts.half_closes &&
	       whole.status == parts.status);
	return 0;
}

/* Messages, beats, an end and a status, for either end. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	enum { FRAMES = 8, PAYLOAD = 30 };
	if (i >= 4)
		return NULL;
	*size = 2 + FRAMES * (FRAME_BYTES + PAYLOAD);
	uint8_t *b = calloc(1, *size), *at = b + 2;
	if (!b)
		return NULL;
	b[0] = (uint8_t)(11 * i);
	b[1] = (uint8_t)(i & IS_SERVER);
	for (uint32_t f = 0; f < FRAMES; f++) {
		at[0] = (uint8_t)(f % 3 == 2 ? LANE_BEAT : f == FRAMES - 1 ? (i & IS_SERVER ? LANE_END : LANE_STATUS) : LANE_DATA);
		const uint16_t bytes = at[0] == LANE_DATA || at[0] == LANE_STATUS ? PAYLOAD : 0;
		put16(at + 1, bytes);
		at += FRAME_BYTES + bytes;
	}
	*size = (size_t)(at - b);
	return b;
}
