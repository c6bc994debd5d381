#include "worker/data/format/line_split.h"

#include "worker/data/format/text.h"

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b != 0) {
		uint32_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

struct split split_of(uint32_t train, uint32_t valid, uint32_t test)
{
	uint32_t divisor = gcd(train, gcd(valid, test));
	if (divisor == 0)
		return (struct split){0};
	return (struct split){.on = true,
	                      .modulus = (train + valid + test) / divisor,
	                      .valid_from = train / divisor,
	                      .test_from = (train + valid) / divisor};
}

enum split_part split_line(const struct split *s, const char *line, size_t n)
{
	if (!s->on)
		return SPLIT_TRAIN;
	uint32_t place = text_crc32(line, n) % s->modulus;
	return place < s->valid_from ? SPLIT_TRAIN : place < s->test_from ? SPLIT_VALID : SPLIT_TEST;
}

enum split_part split_time(const struct split *s, int64_t ms)
{
	return ms >= s->test_ms ? SPLIT_TEST : ms >= s->valid_ms ? SPLIT_VALID : SPLIT_TRAIN;
}
