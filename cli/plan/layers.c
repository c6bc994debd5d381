#include "cli/plan/layers.h"

static double send(const struct plan_layers *l, uint32_t from, uint32_t to, double free_s)
{
	double ready = 0, bytes = 0;
	for (uint32_t i = 0; i < to; i++) {
		ready += l->compute_s[i];
		bytes += i >= from ? l->bytes[i] : 0;
	}
	return (ready > free_s ? ready : free_s) + l->message_s + bytes / l->bytes_per_s;
}

static double backward_s(const struct plan_layers *l)
{
	double sum = 0;
	for (uint32_t i = 0; i < l->count; i++)
		sum += l->compute_s[i];
	return sum;
}

double plan_layers_exposed_s(const struct plan_layers *l, const uint32_t *end, uint32_t count)
{
	double done = 0;
	for (uint32_t b = 0; b < count; b++)
		done = send(l, b ? end[b - 1] : 0, end[b], done);
	return done - backward_s(l);
}

void plan_layers_join(const struct plan_layers *l, struct plan_buckets *out)
{
	double done[PLAN_LAYERS_MAX + 1] = {0};
	uint32_t from[PLAN_LAYERS_MAX + 1] = {0}, reversed[PLAN_LAYERS_MAX];
	for (uint32_t j = 1; j <= l->count; j++) {
		done[j] = send(l, 0, j, 0);
		for (uint32_t i = 1; i < j; i++) {
			const double at = send(l, i, j, done[i]);
			if (at < done[j]) {
				done[j] = at;
				from[j] = i;
			}
		}
	}
	*out = (struct plan_buckets){.exposed_s = done[l->count] - backward_s(l)};
	for (uint32_t j = l->count; j > 0; j = from[j])
		reversed[out->count++] = j;
	for (uint32_t b = 0; b < out->count; b++)
		out->end[b] = reversed[out->count - 1 - b];
}
