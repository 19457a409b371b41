#include "redis/socket/resolve.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/buffer.h"
#include "base/wakeup.h"

enum {
    STACK_BYTES = 256 * 1024,
    MAX_LOOKUPS = 16, // that are still waiting for a name server, of the whole process
};

static atomic_int lookups_running;

// One lookup, owned by its thread and by the asker together: who lets go last frees it. The asker may give up first.
typedef struct lookup {
    char *host;
    char port[8];
    int done_fd;      // readable once `done` is true
    atomic_bool done; // `result` and `found` are set
    int result;       // of getaddrinfo
    struct addrinfo *found;
    atomic_int owners;
} lookup_t;

static void lookup_release(lookup_t *lookup) {
    if (atomic_fetch_sub(&lookup->owners, 1) > 1) return;
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
    atomic_store(&lookup->done, true);
    wakeup_raise(lookup->done_fd);
    lookup_release(lookup);
    atomic_fetch_sub(&lookups_running, 1);
    return NULL;
}

static bool lookup_start(lookup_t *lookup) {
    if (atomic_fetch_add(&lookups_running, 1) >= MAX_LOOKUPS || (lookup->done_fd = wakeup_new()) < 0) {
        atomic_fetch_sub(&lookups_running, 1);
        return false;
    }
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
    int failed = pthread_create(&thread, &attr, lookup_main, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (failed) {
        atomic_fetch_sub(&lookup->owners, 1);
        atomic_fetch_sub(&lookups_running, 1);
    }
    return !failed;
}

// Returns NULL, or why there is no result.
static const char *lookup_wait(lookup_t *lookup, time_limit_t *limit) {
    if (lookup_ask(lookup, AI_NUMERICHOST) != EAI_NONAME) return lookup->result ? gai_strerror(lookup->result) : NULL;
    if (!lookup_start(lookup)) return "too many lookups are waiting for the name server";
    wait_result_t waited = fd_wait(lookup->done_fd, POLLIN, limit);
    if (waited == WAIT_READY && !atomic_load(&lookup->done))
        waited = WAIT_FAILED; // poll() alone orders no memory for other threads
    switch (waited) {
    case WAIT_READY: return lookup->result ? gai_strerror(lookup->result) : NULL;
    case WAIT_TIMEOUT: return "the name server does not answer in time";
    case WAIT_STOPPED: return "no answer of the name server before the stop";
    case WAIT_MOVED:
    case WAIT_FAILED: break;
    }
    return wait_text(waited);
}

struct addrinfo *resolve_host(const char *host, int port, time_limit_t *limit, redis_error_t *error) {
    lookup_t *lookup = mem_alloc(sizeof *lookup);
    *lookup = (lookup_t){.host = mem_str(host), .done_fd = -1, .owners = 1};
    snprintf(lookup->port, sizeof lookup->port, "%d", port);
    const char *why = lookup_wait(lookup, limit);
    struct addrinfo *found = NULL;
    if (why) {
        redis_error_set(error, OUTCOME_DISCONNECTED, "cannot look up %s: %s", host, why);
    } else {
        found = lookup->found;
        lookup->found = NULL;
    }
    lookup_release(lookup);
    return found;
}
