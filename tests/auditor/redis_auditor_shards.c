/* The auditors of two shards share one log. Here both shards are on one server. */
#include "audit/audit.h"
#include "auditor_fixture.h"

enum { SHARDS = 2, ROWS = 5 };
static const char *const QUEUES[SHARDS] = {"email", "sms"};

typedef struct {
    keyspace_t *keys;
    leases_t *leases;
    auditor_t *auditor;
    driver_t driver;
} part_t;

static setup_t d;
static audit_share_t *share;
static part_t parts[SHARDS];

static void start_shards(void) {
    share = audit_share_new(d.f.config, d.instance.metrics, &d.instance.driver.role.stop);
    for (size_t i = 0; i < SHARDS; i++) {
        part_t *part = &parts[i];
        part->keys = keyspace_new_part(d.f.config, (const bool[SHARDS]){i == 0, i == 1});
        part->leases = leases_new(part->keys->lock_count, part->keys->queue_count);
        part->auditor = auditor_new_shared(share, part->keys, d.instance.shard, part->leases, &d.instance.driver.role.stop);
        driver_open(&part->driver);
        driver_add(&part->driver, auditor_tick, part->auditor);
    }
}

static void stop_shards(void) {
    for (size_t i = 0; i < SHARDS; i++) {
        auditor_free(parts[i].auditor);
        driver_close(&parts[i].driver);
        leases_free(parts[i].leases);
        keyspace_free(parts[i].keys);
    }
    audit_share_free(share);
}

static void open_shards(void) {
    open_auditor(&d, (fixture_options_t){0}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    auditor_free(d.auditor); /* it is of both queues */
    d.auditor = NULL;
    start_shards();
}

static void close_shards(void) {
    stop_shards();
    close_auditor(&d);
}

/* Rows of this kind in the log. */
static long long rows_of(const char *queue, const char *kind) {
    return audit_log_int(d.path, kept_printf("SELECT count(*) FROM events WHERE queue = '%s' AND kind = '%s'", queue, kind));
}

static void expect_shard_rows(size_t shard, const char *kind, long long rows) {
    cr_assert(driver_until(&parts[shard].driver, rows_of(QUEUES[shard], kind) == rows, 15000), "%s has %lld rows of %s:\n%s",
              QUEUES[shard], rows_of(QUEUES[shard], kind), kind, fixture_log());
}

SUITE(redis_auditor_shards, open_shards(), close_shards());

/* Each auditor adds the gaps of its queues. The process ends after the first one has. */
Test(redis_auditor_shards, a_lost_log_is_noted_by_each_shard) {
    for (size_t i = 0; i < SHARDS; i++) {
        audit_log_feed(d.f.r, QUEUES[i], 0, ROWS, "1");
        expect_shard_rows(i, "failed", ROWS);
    }
    stop_shards();
    for (size_t i = 0; i < 3; i++) unlink(kept_printf("%s%s", d.path, (const char *const[]){"", "-wal", "-shm"}[i]));
    start_shards();
    expect_shard_rows(0, "gap", 1);
    expect_shard_rows(0, "failed", ROWS);
    stop_shards();
    start_shards();
    expect_shard_rows(1, "gap", 1);
    expect_shard_rows(1, "failed", ROWS);
    cr_assert_not_null(audit_loss(share->writer.audit), "the first auditor of this process has not looked yet");
    driver_settle(&parts[0].driver, d.f.r);
    cr_assert_null(audit_loss(share->writer.audit));
}
