/* Figures of an evaluation as messages. */
#ifndef WEIR_WIRE_FIGURES_H
#define WEIR_WIRE_FIGURES_H

#include "common/base/figures.h"
#include "weir.pb-c.h"
#include "weir/status.h"

/* Reads figures that a peer sent. E_LIMIT: more than WEIR_FIGURES_MAX; E_INVALID: a name is empty,
 * too long or no plain word, or comes twice; a value is not finite. */
weir_status wire_figures_read(struct figures *out, Weir__V1__Figure *const *in, size_t count, weir_error *err) WEIR_MUST_CHECK;

/* Messages of figures, which they borrow. */
struct wire_figures {
	Weir__V1__Figure items[WEIR_FIGURES_MAX];
	Weir__V1__Figure *list[WEIR_FIGURES_MAX];
};
void wire_figures_fill(struct wire_figures *out, const struct figures *in);

#endif
