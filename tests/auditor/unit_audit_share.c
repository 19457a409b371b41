/* The audit log that the auditors of all shards share. */
#include "audit_case.h"
#include "auditor/auditor.h"
#include "auditor/internal.h"
#include "fixture.h"
#include "role/role.h"
#include "wait.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

typedef struct {
    char *path;
    config_t *config;
    metrics_t *metrics;
    atomic_bool stop;
    audit_share_t *share;
} setup_t;

static void setup(setup_t *s) {
    *s = (setup_t){.path = audit_case_path()};
    s->config = fixture_config("audit = { path = \"%s\"; retain = \"2d\"; retain_rows = 7; retain_bytes = \"32MiB\"; };\n"
                               "queues = ( { name = \"q\"; } );\n",
                               s->path);
    s->metrics = metrics_new(1);
    s->share = audit_share_new(s->config, s->metrics, &s->stop);
}

static void teardown(setup_t *s) {
    audit_share_free(s->share);
    metrics_free(s->metrics);
    config_free(s->config);
    free(s->path);
}

static bool is_member(const audit_share_t *share, const auditor_t *auditor) {
    int count = 0;
    for (size_t i = 0; i < share->auditor_count; i++) count += share->auditors[i] == auditor;
    cr_assert_leq(count, 1);
    return count == 1;
}

static setup_t s;
SUITE(unit_audit_share, setup(&s), teardown(&s));

/* The roles of a configuration are made while another one still has the log. */
Test(unit_audit_share, a_new_share_opens_no_file_and_has_the_limits_of_the_config) {
    cr_assert_neq(access(s.path, F_OK), 0);
    cr_assert_null(s.share->writer.audit);
    cr_assert_str_eq(s.share->writer.path, s.path);
    cr_assert_eq(s.share->writer.stop, &s.stop);
    cr_assert_eq(s.share->writer.metrics, s.metrics);
    const audit_limits_t *limits = &s.share->writer.retention.limits;
    cr_assert_eq(limits->retain_ms, 2 * 24 * 3600 * 1000LL);
    cr_assert_eq(limits->rows, 7);
    cr_assert_eq(limits->bytes, 32 << 20);
    audit_share_free(NULL);
}

/* A reload hands the log to the share of the next configuration. */
Test(unit_audit_share, a_finished_share_leaves_the_log_to_another) {
    fixture_capture_log();
    audit_share_t *next = audit_share_new(s.config, s.metrics, &s.stop);
    cr_assert(audit_writer_open(&s.share->writer));
    cr_assert_not(audit_writer_open(&next->writer), "two writers have the log");
    audit_share_finish(s.share);
    cr_assert_null(s.share->writer.audit);
    next->writer.backoff.retry_at = (mono_t){0};
    cr_assert(audit_writer_open(&next->writer), "the lock is still held");
    audit_share_finish(s.share);
    cr_assert_not_null(next->writer.audit);
    audit_share_free(next);
}

/* Shards come and go in any order. */
Test(unit_audit_share, each_order_of_removals_leaves_the_others) {
    enum { COUNT = 4, ORDERS = 24 };
    char places[COUNT + 1];
    auditor_t *auditors[COUNT + 1];
    for (size_t i = 0; i <= COUNT; i++) auditors[i] = (auditor_t *)&places[i]; /* the share reads nothing of them */
    for (int order = 0; order < ORDERS; order++) {
        bool removed[COUNT] = {false};
        for (size_t i = 0; i < COUNT; i++) audit_share_add(s.share, auditors[i]);
        audit_share_remove(s.share, auditors[COUNT]);
        cr_assert_eq(s.share->auditor_count, COUNT, "an auditor that was never added");
        int rest = order;
        for (int left = COUNT; left > 0; left--) {
            int skip = rest % left;
            size_t which = 0;
            rest /= left;
            while (removed[which] || skip-- > 0) which++;
            audit_share_remove(s.share, auditors[which]);
            removed[which] = true;
            cr_assert_eq(s.share->auditor_count, left - 1);
            for (size_t i = 0; i < COUNT; i++) cr_assert_eq(is_member(s.share, auditors[i]), !removed[i], "order %d", order);
        }
    }
}

Test(unit_audit_share, more_auditors_than_there_is_room_for_are_left_out) {
    static char places[AUDIT_SHARE_MAX + 1];
    for (size_t i = 0; i <= AUDIT_SHARE_MAX; i++) audit_share_add(s.share, (auditor_t *)&places[i]);
    cr_assert_eq(s.share->auditor_count, AUDIT_SHARE_MAX);
    cr_assert_not(is_member(s.share, (auditor_t *)&places[AUDIT_SHARE_MAX]));
    audit_share_remove(s.share, (auditor_t *)&places[AUDIT_SHARE_MAX]);
    cr_assert_eq(s.share->auditor_count, AUDIT_SHARE_MAX);
    for (size_t i = 0; i < AUDIT_SHARE_MAX; i++) audit_share_remove(s.share, (auditor_t *)&places[i]);
    cr_assert_eq(s.share->auditor_count, 0);
}

static void *add(void *share) {
    audit_share_add(share, (auditor_t *)share);
    return NULL;
}

static void *remove_it(void *share) {
    audit_share_remove(share, (auditor_t *)share);
    return NULL;
}

/* An auditor that works reads the list, with the mutex held, while the thread of another shard changes it. */
Test(unit_audit_share, the_list_changes_only_with_the_mutex) {
    static void *(*const steps[])(void *) = {add, remove_it};
    for (size_t i = 0; i < 2; i++) {
        pthread_t thread;
        struct timespec soon;
        pthread_mutex_lock(&s.share->mutex);
        cr_assert_eq(pthread_create(&thread, NULL, steps[i], s.share), 0);
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_sec++;
        cr_assert_eq(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT, "step %zu does not wait", i);
        cr_assert_eq(s.share->auditor_count, i);
        pthread_mutex_unlock(&s.share->mutex);
        pthread_join(thread, NULL);
        cr_assert_eq(s.share->auditor_count, 1 - i);
    }
}

/* Only the auditor of a single server closes the log when it ends: in a Cluster the others still write. */
Test(unit_audit_share, an_auditor_that_ends_leaves_the_shared_log_open) {
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(s.config);
    scoped(topology_drop) topology_t *topology = topology_new(&s.config->redis);
    shard_t *shard = topology_shard(topology, 0);
    scoped(leases_drop) leases_t *leases = leases_new(keys->lock_count, keys->queue_count);
    auditor_t *one = auditor_new_shared(s.share, keys, shard, leases, &s.stop);
    auditor_t *other = auditor_new_shared(s.share, keys, shard, leases, &s.stop);
    cr_assert(is_member(s.share, one) && is_member(s.share, other));
    cr_assert(audit_writer_open(&s.share->writer));
    auditor_finish(one);
    auditor_free(one);
    cr_assert_not_null(s.share->writer.audit);
    cr_assert(s.share->auditor_count == 1 && is_member(s.share, other));
    auditor_free(other);
    cr_assert_eq(s.share->auditor_count, 0);
    auditor_t *alone = auditor_new(keys, shard, leases, s.metrics, &s.stop);
    audit_share_finish(s.share);
    cr_assert(audit_writer_open(alone->writer));
    auditor_finish(alone);
    cr_assert_null(alone->writer->audit);
    auditor_free(alone);
}

/* The log lacks what any of its streams lacks, so the oldest age counts. */
Test(unit_audit_share, the_log_is_as_late_as_its_latest_auditor) {
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(s.config);
    scoped(topology_drop) topology_t *topology = topology_new(&s.config->redis);
    scoped(leases_drop) leases_t *leases = leases_new(keys->lock_count, keys->queue_count);
    auditor_t *auditors[3];
    for (int i = 0; i < 3; i++) auditors[i] = auditor_new_shared(s.share, keys, topology_shard(topology, 0), leases, &s.stop);
    atomic_store(&auditors[1]->missing_since_ns, 1000);
    atomic_store(&auditors[2]->missing_since_ns, 2000);
    auditor_note_lag(auditors[0]); /* its own log is closed, so it may lack a record since now */
    cr_assert(auditor_is_behind(auditors[0]));
    cr_assert_eq(metric_get(&s.metrics->audit_lacks_ns), 1000);
    auditor_free(auditors[1]);
    atomic_store(&auditors[0]->missing_since_ns, 0);
    auditor_note_lag(auditors[0]);
    cr_assert_eq(metric_get(&s.metrics->audit_lacks_ns), 2000, "an auditor that has ended does not count");
    auditor_free(auditors[2]);
    auditor_free(auditors[0]);
}

static void lock_tick(void *self, role_wait_t *wait) {
    audit_share_t *share = self;
    audit_share_lock(share);
    pthread_mutex_unlock(&share->mutex);
    (void)wait;
}

/* Another auditor rewrites the log for longer than a tick may last. */
Test(unit_audit_share, an_auditor_that_waits_for_another_does_not_count_as_hanging) {
    role_t role;
    pthread_mutex_lock(&s.share->mutex);
    cr_assert(role_init(&role, "auditor", lock_tick, NULL, s.share) && role_start(&role));
    for (int i = 0; i < 2; i++) {
        cr_assert(wait_for(atomic_load(&role.due_ns) > mono_now().ns, 30000));
        atomic_store(&role.due_ns, 1);
    }
    pthread_mutex_unlock(&s.share->mutex);
    role_stop(&role);
    cr_assert(role_join(&role, 30000));
    role_destroy(&role);
}
