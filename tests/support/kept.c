#include "kept.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void **all; /* never freed: LeakSanitizer follows it */
static size_t count, room;

void *kept_memory(void *pointer) {
    pthread_mutex_lock(&mutex);
    if (count == room) {
        room = room ? 2 * room : 64;
        all = realloc(all, room * sizeof *all);
        if (!all) abort();
    }
    all[count++] = pointer;
    pthread_mutex_unlock(&mutex);
    return pointer;
}

char *kept_printf(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) abort();
    va_end(args);
    return kept(text);
}
