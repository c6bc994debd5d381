/* Memory that dies with its process. A program that links weir_sim_heap gets its malloc calls
 * recorded (-Wl,--wrap). */
#ifndef WEIR_SIM_HEAP_H
#define WEIR_SIM_HEAP_H

/* Call in a world before adding any other watcher of deaths. From then on, a dying node loses its
 * memory. */
void heap_begin(void);

#endif
