#include "base/host.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/buffer.h"
#include "base/clock.h"

enum { REPEAT_S = 1 }; // a signal that comes again so soon is the same one

static char instance[INSTANCE_SIZE];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void instance_make_name(void) {
    char host[INSTANCE_SIZE - 24] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) snprintf(host, sizeof host, "unknown");
    for (char *at = host; *at; at++)
        if (*at <= ' ' || *at > '~') *at = '?';
    snprintf(instance, sizeof instance, "%s/%ld", host, (long)getpid());
}

const char *instance_name(void) {
    pthread_once(&once, instance_make_name);
    return instance;
}

void host_raise_file_limit(uint64_t wanted) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static mono_t repeats_end; // of the first signal

static void host_on_repeated_signal(int number) {
    if (!mono_reached(repeats_end, mono_now())) return;
    signal(number, SIG_DFL);
    raise(number);
}

void host_end_at_repeated_signal(const sigset_t *signals) {
    const struct sigaction action = {.sa_handler = host_on_repeated_signal, .sa_flags = SA_RESTART};
    repeats_end = mono_add(mono_now(), REPEAT_S * NS_PER_S);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(signals, number) == 1) sigaction(number, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

// A container sees its own cgroup mounted at the root. "max" means no limit.
int64_t cgroup_memory_limit(const char *root) {
    static const char *const names[] = {"memory.max", "memory/memory.limit_in_bytes"}; // versions 2 and 1
    int64_t limit = INT64_MAX;
    for (size_t i = 0; i < sizeof names / sizeof *names && limit == INT64_MAX; i++) {
        char *file = mem_printf("%s/sys/fs/cgroup/%s", root, names[i]);
        FILE *in = fopen(file, "re");
        free(file);
        if (!in) continue;
        if (fscanf(in, "%" SCNd64, &limit) != 1 || limit <= 0) limit = INT64_MAX;
        fclose(in);
    }
    return limit;
}
