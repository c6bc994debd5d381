/* Memory that dies with its process. A program that links weir_sim_heap has malloc and its like noted (-Wl,--wrap). */
#ifndef WEIR_SIM_HEAP_H
#define WEIR_SIM_HEAP_H

/* In a world, before any other watcher of deaths: from now on a node that dies takes its memory with it. */
void heap_begin(void);

#endif
