/* A temporary folder of a test. */
#ifndef FOLDER_H
#define FOLDER_H

#define FOLDER_BYTES 64

void folder_create(char out[FOLDER_BYTES]); /* empty, of a new name */
void folder_remove(const char *folder);     /* with all that is in it */

#endif
