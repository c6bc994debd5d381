/* Activations of one number and their slopes. Formulas as in kernels/cpu/activation.c. GELU in its
 * tanh form (Hendrycks, Gimpel 2016, sec. 2): x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3). */
#ifndef WEIR_ACT_H
#define WEIR_ACT_H

#include "kernels/cuda/launch.h"

#define GELU_A 0.7978845608f
#define GELU_B 0.044715f

static __device__ inline float logistic(float x)
{
	return 1 / (1 + expf(-x));
}

template <int ACT> static __device__ inline float act_value(float x)
{
	switch (ACT) {
	case ACT_RELU:
		return x < 0 ? 0 : x; /* NaN passes */
	case ACT_SIGMOID:
		return logistic(x);
	case ACT_TANH:
		return tanhf(x);
	case ACT_GELU:
		return x * logistic(2 * GELU_A * (x + GELU_B * x * x * x));
	default:
		return x;
	}
}

/* dy act'(.), where y is the activation's output, for GELU its input. NaN if y is NaN. */
template <int ACT> static __device__ inline float act_gradient(float dy, float y)
{
	switch (ACT) {
	case ACT_RELU:
		return y > 0 ? dy : y <= 0 ? 0 : y;
	case ACT_SIGMOID:
		return dy * (y * (1 - y));
	case ACT_TANH:
		return dy * (1 - y * y);
	case ACT_GELU: {
		const float s = logistic(2 * GELU_A * (y + GELU_B * y * y * y));
		return dy * (s + y * s * (1 - s) * (2 * GELU_A * (1 + 3 * GELU_B * y * y)));
	}
	default:
		return dy;
	}
}

#endif
