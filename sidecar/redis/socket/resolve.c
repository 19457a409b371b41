#include "redis/socket/resolve.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/buffer.h"
#include "base/wakeup.h"

enum {
    STACK_BYTES = 256 * 1024,
    MAX_LOOKUPS = 64, // that wait for a name server, of the whole process: more than sentinels and nodes in a config
};

// One lookup, owned by its thread and the callers that share it. The last owner frees it; callers may give up early.
struct lookup {
    char *host;
    char port[8];
    int done_fd;      // readable once `done` is true
    atomic_bool done; // `result` and `found` are set
    int result;       // of getaddrinfo
    struct addrinfo *found;
    atomic_int owners;
    lookup_t *next; // in `running`
};

// The lookups that wait for a name server. A name whose server is dead takes one place, however often it is asked for.
static pthread_mutex_t running_mutex = PTHREAD_MUTEX_INITIALIZER;
static lookup_t *running; // guarded by the mutex, like the count
static int running_count;

const struct addrinfo *resolve_addresses(const lookup_t *lookup) { return lookup->found; }

void resolve_free(lookup_t *lookup) {
    if (!lookup || atomic_fetch_sub(&lookup->owners, 1) > 1) return;
    if (lookup->found) freeaddrinfo(lookup->found);
    if (lookup->done_fd >= 0) close(lookup->done_fd);
    free(lookup->host);
    free(lookup);
}

static int lookup_ask(lookup_t *lookup, int flags) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    lookup->result = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
    return lookup->result;
}

static void *lookup_main(void *arg) {
    lookup_t *lookup = arg;
    lookup_ask(lookup, 0);
    pthread_mutex_lock(&running_mutex);
    for (lookup_t **at = &running; *at; at = &(*at)->next) {
        if (*at != lookup) continue;
        *at = lookup->next;
        break;
    }
    running_count--;
    pthread_mutex_unlock(&running_mutex);
    atomic_store(&lookup->done, true);
    wakeup_raise(lookup->done_fd);
    resolve_free(lookup);
    return NULL;
}

// Call it with the mutex held.
static bool lookup_start(lookup_t *lookup) {
    if (running_count >= MAX_LOOKUPS || (lookup->done_fd = wakeup_new()) < 0) return false;
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // signals are for other threads
    atomic_fetch_add(&lookup->owners, 1);
    bool started = pthread_create(&thread, &attr, lookup_main, lookup) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!started) {
        atomic_fetch_sub(&lookup->owners, 1);
        return false;
    }
    lookup->next = running;
    running = lookup;
    running_count++;
    return true;
}

// Returns the lookup of the same name that is under way, with the caller as one more owner. If there is none, starts `fresh`
// and returns it. NULL: there are too many lookups.
static lookup_t *lookup_share(lookup_t *fresh) {
    pthread_mutex_lock(&running_mutex);
    lookup_t *lookup = running;
    while (lookup && (strcmp(lookup->host, fresh->host) != 0 || strcmp(lookup->port, fresh->port) != 0)) lookup = lookup->next;
    if (lookup)
        atomic_fetch_add(&lookup->owners, 1);
    else if (lookup_start(fresh))
        lookup = fresh;
    pthread_mutex_unlock(&running_mutex);
    if (lookup != fresh) resolve_free(fresh);
    return lookup;
}

// Returns NULL, or why there is no result.
static const char *lookup_wait(const lookup_t *lookup, time_limit_t *limit, wait_result_t *waited) {
    *waited = fd_wait(lookup->done_fd, POLLIN, limit);
    switch (*waited) {
    case WAIT_READY:
        // The lookup's thread sets `done` before it raises done_fd. This load lets the thread here see what that thread has
        // written before; C does not promise it of poll().
        if (!atomic_load(&lookup->done)) abort();
        return lookup->result ? gai_strerror(lookup->result) : NULL;
    case WAIT_TIMEOUT: return "the name server does not answer in time";
    case WAIT_STOPPED: return "no answer of the name server before the stop";
    case WAIT_MOVED:
    case WAIT_FAILED: break;
    }
    return wait_text(*waited);
}

lookup_t *resolve_host(const char *host, int port, time_limit_t *limit, redis_error_t *error) {
    lookup_t *lookup = mem_alloc(sizeof *lookup);
    *lookup = (lookup_t){.host = mem_str(host), .done_fd = -1, .owners = 1};
    snprintf(lookup->port, sizeof lookup->port, "%d", port);
    const char *why = NULL;
    wait_result_t waited = WAIT_READY;
    if (lookup_ask(lookup, AI_NUMERICHOST) != EAI_NONAME) {
        why = lookup->result ? gai_strerror(lookup->result) : NULL;
    } else {
        lookup = lookup_share(lookup);
        why = lookup ? lookup_wait(lookup, limit, &waited) : "too many lookups are waiting for the name server";
    }
    if (!why) return lookup;
    redis_error_set_kind(error, OUTCOME_DISCONNECTED, wait_kind(waited), "cannot look up %s: %s", host, why);
    resolve_free(lookup);
    return NULL;
}
