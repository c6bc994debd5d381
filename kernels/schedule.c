/* Learning rate schedules as pure functions of the step. i is the step after warm-up, and f(i) the
 * factor on lr:
 *   warm-up      step / warmup, for step < warmup (before any kind)
 *   linear       1 + (min - 1) x,    x = i / (total - warmup), at most 1
 *   cosine       min + (1 - min) (1 + cos(pi x)) / 2
 *                (Loshchilov, Hutter 2017, eq. 5, one period)
 *   wsd          1, then linear to min over the last `decay` of `total` steps
 *                (Hu et al. 2024, arXiv 2404.06395, eq. 1)
 *   step         gamma ^ floor(i / period)
 *   triangular   min + (1 - min) max(0, 1 - |i / period - 2 cycle + 1|),
 *                cycle = floor(1 + i / (2 period)) (Smith 2017, 3.2)
 *   triangular2  the same, its height times 1 / 2^(cycle - 1)
 *   exp_range    the same, its height times gamma^i
 * `total` counts from step 0 and includes the warm-up. */
#include <math.h>

#include "kernels/optimizer.h"

static double clamp_unit(double x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double cyclical_factor(const weir_schedule *s, double i)
{
	double period = (double)s->period;
	double cycle = floor(1 + i / (2 * period));
	double x = fabs(i / period - 2 * cycle + 1);
	double height = fmax(0, 1 - x);
	if (s->kind == WEIR_SCHEDULE_TRIANGULAR2)
		height *= exp2(1 - cycle);
	if (s->kind == WEIR_SCHEDULE_EXP_RANGE)
		height *= pow(s->gamma, i);
	return s->min + (1 - (double)s->min) * height;
}

static double schedule_factor(const weir_schedule *s, uint64_t step)
{
	if (step < s->warmup)
		return (double)step / (double)s->warmup;
	const double i = (double)(step - s->warmup), min = s->min;
	switch (s->kind) {
	case WEIR_SCHEDULE_CONSTANT:
		return 1;
	case WEIR_SCHEDULE_LINEAR:
		return 1 + (min - 1) * clamp_unit(i / (double)(s->total - s->warmup));
	case WEIR_SCHEDULE_COSINE:
		return min + (1 - min) * (1 + cos(M_PI * clamp_unit(i / (double)(s->total - s->warmup)))) / 2;
	case WEIR_SCHEDULE_WSD:
		return 1 + (min - 1) * clamp_unit(((double)step - (double)(s->total - s->decay)) / (double)s->decay);
	case WEIR_SCHEDULE_STEP:
		return pow(s->gamma, floor(i / (double)s->period));
	case WEIR_SCHEDULE_TRIANGULAR:
	case WEIR_SCHEDULE_TRIANGULAR2:
	case WEIR_SCHEDULE_EXP_RANGE:
		return cyclical_factor(s, i);
	}
	return 1;
}

double schedule_lr(const weir_optimizer *o, uint64_t step)
{
	return (double)o->lr * schedule_factor(&o->schedule, step);
}

static weir_status check_total(const weir_schedule *s, weir_error *err)
{
	if (s->total <= s->warmup)
		return weir_fail(err, WEIR_E_INVALID, "schedule: total is %llu steps; it must be more than the %llu of warm-up",
		                 (unsigned long long)s->total, (unsigned long long)s->warmup);
	return WEIR_OK;
}

static weir_status check_period(const weir_schedule *s, weir_error *err)
{
	if (s->period == 0)
		return weir_fail(err, WEIR_E_INVALID, "schedule: this kind needs a period of at least 1 step");
	return WEIR_OK;
}

static weir_status check_gamma(const weir_schedule *s, weir_error *err)
{
	if (!(s->gamma > 0 && s->gamma <= 1))
		return weir_fail(err, WEIR_E_INVALID, "schedule: gamma is %g; it must be above 0 and at most 1", (double)s->gamma);
	return WEIR_OK;
}

weir_status schedule_check(const weir_schedule *s, weir_error *err)
{
	weir_status status = WEIR_OK;
	if (!(s->min >= 0 && s->min <= 1))
		return weir_fail(err, WEIR_E_INVALID, "schedule: min is %g; it is a fraction of lr, from 0 to 1", (double)s->min);
	switch (s->kind) {
	case WEIR_SCHEDULE_CONSTANT:
		return WEIR_OK;
	case WEIR_SCHEDULE_LINEAR:
	case WEIR_SCHEDULE_COSINE:
		return check_total(s, err);
	case WEIR_SCHEDULE_WSD:
		if ((status = check_total(s, err)) != WEIR_OK)
			return status;
		if (s->decay == 0 || s->decay > s->total - s->warmup)
			return weir_fail(err, WEIR_E_INVALID, "schedule: wsd needs a decay from 1 to the %llu steps after warm-up",
			                 (unsigned long long)(s->total - s->warmup));
		return WEIR_OK;
	case WEIR_SCHEDULE_STEP:
		if ((status = check_period(s, err)) != WEIR_OK)
			return status;
		return check_gamma(s, err);
	case WEIR_SCHEDULE_EXP_RANGE:
		if ((status = check_gamma(s, err)) != WEIR_OK)
			return status;
		return check_period(s, err);
	case WEIR_SCHEDULE_TRIANGULAR:
	case WEIR_SCHEDULE_TRIANGULAR2:
		return check_period(s, err);
	}
	return weir_fail(err, WEIR_E_INVALID, "schedule: there is no kind %d", (int)s->kind);
}
