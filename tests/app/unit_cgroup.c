/* Reads the memory limit of the container in the formats of kernels and container runtimes, and warns if it is too small. */
#include "app/app.h"
#include "base/buffer.h"
#include "base/host.h"
#include "base/log.h"
#include "fixture.h"
#include "tempdir.h"

#include <sys/stat.h>

/* Writes a file below a directory, with the directories above it. */
static void put(const char *root, const char *path, const char *text) {
    char *file = kept_printf("%s%s", root, path);
    for (char *slash = file + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(file, 0755);
    }
    temp_write(file, text);
}

/* The limit that is found if the file `path` (NULL = none) holds `limit`. */
static int64_t limit_of(const char *path, const char *limit) {
    char *root = temp_dir("root");
    if (path) put(root, path, limit);
    return cgroup_memory_limit(root);
}

Test(unit_cgroup, cgroup_v2_limit_is_read) {
    cr_assert_eq(limit_of("/sys/fs/cgroup/memory.max", "67108864\n"), 67108864);
    cr_assert_eq(limit_of("/sys/fs/cgroup/memory.max", "max\n"), INT64_MAX);
}

Test(unit_cgroup, cgroup_v1_limit_is_read) {
    cr_assert_eq(limit_of("/sys/fs/cgroup/memory/memory.limit_in_bytes", "33554432\n"), 33554432);
}

Test(unit_cgroup, unreadable_limit_counts_as_none) {
    cr_assert_eq(limit_of(NULL, NULL), INT64_MAX);
    cr_assert_eq(limit_of("/sys/fs/cgroup/memory.max", ""), INT64_MAX);
    cr_assert_eq(limit_of("/sys/fs/cgroup/memory.max", "-1\n"), INT64_MAX);
    cr_assert_eq(cgroup_memory_limit("/nowhere"), INT64_MAX);
    cr_assert_gt(cgroup_memory_limit(""), 0);
}

static bool says(int64_t limit, const char *expected) {
    queue_config_t queues[] = {
        {.policy.max_payload = 1 << 20}, {.policy.max_payload = 16 << 20}, {.policy.max_payload = 1 << 10}};
    const config_t config = {.queues = queues, .queue_count = 3};
    fixture_capture_log();
    log_setup(LOG_INFO, 1);
    app_log_memory(&config, limit);
    char *log = fixture_log();
    bool found = expected ? strstr(log, expected) != NULL : !*log;
    if (!found) fprintf(stderr, "log: %s\n", log);
    return found;
}

Test(unit_cgroup, warning_names_the_payload_limit) {
    cr_assert(says(INT64_MAX, NULL));
    cr_assert(says(104 << 20, NULL));
    cr_assert(says((104 << 20) - 1, "\"needed\":109051904,\"max_payload\":16777216,\"fits\":16777215"));
}

Test(unit_cgroup, kustomize_limit_fits_jobs_of_8_mib) {
    cr_assert(says(64 << 20, "raise the limit or lower max_payload\",\"role\":\"main\",\"limit\":67108864,\"needed\":109051904,"
                             "\"max_payload\":16777216,\"fits\":8388608}"));
}

Test(unit_cgroup, tiny_limit_can_only_be_raised) {
    cr_assert(says(24 << 20,
                   "too small for max_payload; raise the limit\",\"role\":\"main\",\"limit\":25165824,\"needed\":109051904,"
                   "\"max_payload\":16777216}"));
}
