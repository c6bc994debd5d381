/* A temporary folder of a test. */
#ifndef FOLDER_H
#define FOLDER_H

#define FOLDER_BYTES 64

void folder_create(char out[FOLDER_BYTES]); /* empty, with a new name */
void folder_remove(const char *folder);     /* with everything in it */

#endif
