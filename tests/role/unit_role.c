/* Health: when a role counts as hanging, and when not. */
#include <semaphore.h>

#include "auditor/writer.h"
#include "base/log.h"
#include "base/wakeup.h"
#include "fixture.h"
#include "http/health.h"
#include "role/role.h"
#include "tempdir.h"
#include "wait.h"

enum { LOG_MIB = 400, MIB = 1024 * 1024 };

/* A role whose tick opens an audit log, posts `opened`, and waits for `go_on`. */
typedef struct opener {
    audit_writer_t writer;
    sem_t opened, go_on;
} opener_t;

static void open_tick(void *self, role_wait_t *wait) {
    opener_t *opener = self;
    cr_expect(audit_writer_open(&opener->writer));
    sem_post(&opener->opened);
    sem_wait(&opener->go_on);
    (void)wait;
}

static int64_t allowed_s(role_t *role) { return (atomic_load(&role->due_ns) - mono_now().ns) / NS_PER_S; }

Test(unit_role, check_of_a_large_log_does_not_count_as_hanging, .timeout = 60) {
    fixture_capture_log();
    char *dir = temp_dir("role"), *path = temp_path(dir, "audit.db");
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    atomic_bool stop = false;
    opener_t opener = {0};
    audit_limits_t limits = {0};
    role_t role;
    sem_init(&opener.opened, 0, 0);
    sem_init(&opener.go_on, 0, 0);
    audit_writer_init(&opener.writer, path, &limits, metrics, &stop);
    cr_assert(audit_writer_open(&opener.writer), "opening a log outside of a role fails");
    audit_writer_close(&opener.writer);
    cr_assert(truncate(path, (off_t)LOG_MIB * MIB) == 0); /* SQLite ignores the added bytes: the header has the size */
    opener.writer.file.checked = false;

    cr_assert(role_init(&role, "opener", open_tick, NULL, &opener));
    cr_assert(role_start(&role));
    sem_wait(&opener.opened);
    cr_expect_gt(allowed_s(&role), ROLE_TICK_MAX_S + LOG_MIB - 30, "%lld s for a log of %d MiB", (long long)allowed_s(&role),
                 LOG_MIB);
    audit_writer_close(&opener.writer); /* the next opening needs no check */
    wakeup_raise(role.wake_fd);
    sem_post(&opener.go_on);
    sem_wait(&opener.opened);
    cr_expect_leq(allowed_s(&role), ROLE_TICK_MAX_S, "more time although the log was already checked");

    role_stop(&role);
    sem_post(&opener.go_on);
    cr_assert(role_join(&role, 30000));
    role_destroy(&role);
    audit_writer_finish(&opener.writer);
}

Test(unit_role, health_names_the_role_whose_tick_hangs) {
    role_t role = {.name = "auditor"};
    const role_t *const roles[] = {&role};
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    scoped(health_drop) health_t *health = health_new(metrics, "g", true);
    scoped(buffer_free) buffer_t why = {0};
    health_watch_roles(health, roles, 1);
    cr_expect(health_alive(health, &why));
    atomic_store(&role.due_ns, 1);
    cr_expect(!health_alive(health, &why));
    cr_expect_str_eq(buffer_text(&why), "the auditor has not finished its first tick\n");
    buffer_clear(&why);
    atomic_store(&role.beat_ns, mono_add(mono_now(), -7 * NS_PER_S).ns);
    cr_expect(!health_alive(health, &why));
    cr_expect_str_eq(buffer_text(&why), "the auditor has not ticked for 7 s\n");
}

static void storm_tick(void *self, role_wait_t *wait) {
    atomic_int *ticks = self;
    for (int i = 0; i < 3 && *ticks == 0; i++) log_warn("r", NULL, "storm");
    atomic_fetch_add(ticks, 1);
    (void)wait; /* waits for a wake-up */
}

/* No further line follows, so only the flush after a tick can log how many lines were suppressed. */
Test(unit_role, suppressed_log_lines_are_counted_after_the_tick) {
    atomic_int ticks = 0;
    role_t role;
    fixture_capture_log();
    cr_assert(role_init(&role, "storm", storm_tick, NULL, &ticks));
    cr_assert(role_start(&role));
    cr_assert(wait_for(ticks == 1, 10000));
    fixture_step_boottime(11000);
    wakeup_raise(role.wake_fd);
    cr_assert(wait_for(fixture_log_count("\"repeated\":2}") == 1, 10000));
    role_stop(&role);
    cr_assert(role_join(&role, 10000));
    role_destroy(&role);
}
