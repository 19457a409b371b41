#include "base/host.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/buffer.h"

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

// Reads the number in a file; "max" means no limit.
static bool cgroup_read_limit(const char *root, const char *mount, const char *path, const char *name, int64_t *limit) {
    char *file = mem_printf("%s%s%s/%s", root, mount, path, name);
    FILE *in = fopen(file, "re");
    free(file);
    if (!in) return false;
    int64_t found;
    *limit = fscanf(in, "%" SCNd64, &found) == 1 && found > 0 ? found : INT64_MAX;
    fclose(in);
    return true;
}

// Without a cgroup namespace the path is the host's, but the container sees its own cgroup mounted at the root.
static bool cgroup_limit_of(const char *root, const char *mount, const char *path, const char *name, int64_t *limit) {
    return cgroup_read_limit(root, mount, path, name, limit) || cgroup_read_limit(root, mount, "", name, limit);
}

// Whether "memory" is among the controllers, which commas separate.
static bool cgroup_names_memory(char *controllers) {
    for (char *name; (name = strsep(&controllers, ",")) != NULL;)
        if (strcmp(name, "memory") == 0) return true;
    return false;
}

int64_t cgroup_memory_limit(const char *root) {
    char *file = mem_printf("%s/proc/self/cgroup", root);
    FILE *in = fopen(file, "re");
    free(file);
    if (!in) return INT64_MAX;
    int64_t limit = INT64_MAX;
    bool found = false;
    // Lines are hierarchy:controllers:path; version 2 has hierarchy 0 (cgroups(7)).
    char line[4352];
    while (!found && fgets(line, sizeof line, in)) {
        char *rest = line;
        rest[strcspn(rest, "\n")] = '\0';
        const char *hierarchy = strsep(&rest, ":");
        char *controllers = strsep(&rest, ":");
        if (!rest) continue;
        if (cgroup_names_memory(controllers))
            found = cgroup_limit_of(root, "/sys/fs/cgroup/memory", rest, "memory.limit_in_bytes", &limit);
        else if (strcmp(hierarchy, "0") == 0)
            found = cgroup_limit_of(root, "/sys/fs/cgroup", rest, "memory.max", &limit);
    }
    fclose(in);
    return limit;
}
