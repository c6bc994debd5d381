/* The simulator's own tests, by folder. */
#ifndef WEIR_SIM_TEST_H
#define WEIR_SIM_TEST_H

int test_world(void); /* returns cmocka's result */
int test_network(void);
int test_disk(void);

#endif
