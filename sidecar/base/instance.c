#include "base/instance.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static char name[INSTANCE_SIZE];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void instance_make_name(void) {
    char host[INSTANCE_SIZE - 24] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) snprintf(host, sizeof host, "unknown");
    for (char *at = host; *at; at++)
        if (*at <= ' ' || *at > '~') *at = '?';
    snprintf(name, sizeof name, "%s/%ld", host, (long)getpid());
}

const char *instance_name(void) {
    pthread_once(&once, instance_make_name);
    return name;
}
