/* The log is damaged, removed or too large, or the disk fails: no row is lost or duplicated, and missing records are reported. */
#include "audit/audit.h"
#include "auditor_fixture.h"
#include "disk_fault.h"
#include "text.h"
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>

static long long number(setup_t *d, const char *sql) { return audit_log_int(d->path, sql); }

static setup_t d;

/* Removes <path><suffix>. */
static void remove_file(const char *suffix) {
    char *path = kept_printf("%s%s", d.path, suffix);
    unlink(path);
}

static void remove_log(void) {
    remove_file("");
    remove_file("-wal");
    remove_file("-shm");
}

static int count_set_aside(void) {
    char *pattern = kept_printf("%s.corrupt-*Z", d.path);
    glob_t found = {0};
    int count = glob(pattern, 0, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* Expects the whole stream in the log, one gap row of this reason, and one auditor that has acknowledged the whole stream. */
static void expect_rebuilt(int rows, const char *reason, const char *position) {
    char *sql = kept_printf("SELECT count(*) FROM events WHERE kind = 'gap' AND reason = '%s' AND queue = 'email'", reason);
    expect_rows(&d, rows);
    expect_acknowledged(&d, "email", position);
    cr_assert_eq(number(&d, sql), 1, "%lld gap rows of reason %s", number(&d, sql), reason);
    cr_assert_eq(redis_int(d.f.r, "HLEN sidecar:email:auditors"), 1, "the lost log still counts as a copy");
    audit_log_expect(d.path, "email", 0, rows);
    cr_assert_eq(fixture_log_count("audit log was lost; filling a new one"), 1);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_lost), 1);
}

static void damage(const char *path, int64_t from_page) {
    struct stat at;
    char page[4096];
    memset(page, 0xa5, sizeof page);
    int fd = open(path, O_WRONLY);
    cr_assert(fd >= 0 && fstat(fd, &at) == 0);
    for (int64_t i = from_page; i < at.st_size / 4096; i++) cr_assert_eq(pwrite(fd, page, sizeof page, i * 4096), 4096);
    close(fd);
}

SUITE(redis_auditor_writer, , close_auditor(&d));

Test(redis_auditor_writer, a_damaged_log_is_set_aside_and_refilled) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 500, "1");
    expect_rows(&d, 500);
    stop(&d);
    damage(d.path, 5);
    start(&d);
    expect_rebuilt(500, "log_damaged", "1-499 ");
    cr_assert_eq(count_set_aside(), 1);
    restart(&d);
    audit_log_feed(d.f.r, "email", 500, 5, "1");
    expect_rows(&d, 505);
    cr_assert_eq(gaps(&d), 1);
    cr_assert_eq(count_set_aside(), 1);
}

/* SQLite finds the damage when it reads the page, not when it opens the file. */
Test(redis_auditor_writer, damage_while_running_is_repaired) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 3000, "1");
    expect_rows(&d, 3000);
    audit_log_text(d.path);
    sqlite3 *db; /* a checkpoint, so that SQLite reads the file and not the -wal */
    cr_assert_eq(sqlite3_open(d.path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_exec(db, "UPDATE facts SET value = value WHERE name = 'instance'; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    sqlite3_close(db);
    damage(d.path, 1);
    audit_log_feed(d.f.r, "email", 3000, 2000, "1");
    cr_assert(driver_until(&d.instance.driver, count_set_aside() == 1, 20000), "%s", fixture_log());
    expect_rebuilt(5000, "log_damaged", "1-4999 ");
}

/* The auditor notices that the open file is replaced or emptied, although no new record arrives. */
static void expect_replaced_log_rebuilt(bool empty) {
    open_checkpointed(&d, 300);
    char *copy = kept_printf("%s/copy.db", d.dir);
    copy_file(d.path, copy);
    damage(copy, 20);
    if (empty)
        cr_assert_eq(truncate(d.path, 0), 0);
    else
        cr_assert_eq(rename(copy, d.path), 0);
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_lost) == 1, 10000));
    expect_rebuilt(300, empty ? "log_missing" : "log_damaged", "1-299 ");
}

Test(redis_auditor_writer, a_damaged_copy_replaces_the_open_log) { expect_replaced_log_rebuilt(false); }
/* `: > audit.db` and logrotate's copytruncate empty a file. */
Test(redis_auditor_writer, the_open_log_is_emptied) { expect_replaced_log_rebuilt(true); }

Test(redis_auditor_writer, the_open_log_is_removed) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 100, "1");
    expect_rows(&d, 100);
    expect_acknowledged(&d, "email", "1-99 ");
    remove_log();
    long steps = d.instance.driver.steps; /* no record arrives: the auditor checks on a timer */
    expect_rebuilt(100, "log_missing", "1-99 ");
    cr_assert_leq(d.instance.driver.steps - steps, wait_scaled_ms(2500) / 5, "more than one step in 5 ms: the auditor spins");
}

/* `rm audit.db*` also removes the lock file, which names the log. */
Test(redis_auditor_writer, the_open_log_is_removed_with_its_lock_file) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 100, "1");
    expect_rows(&d, 100);
    expect_acknowledged(&d, "email", "1-99 ");
    remove_file(".lock");
    remove_log();
    expect_rebuilt(100, "log_missing", "1-99 ");
    char *lock = kept_printf("%s.lock", d.path), *text = temp_read(lock),
         *instance = audit_log_word(d.path, "SELECT value FROM facts WHERE name = 'instance'");
    cr_assert(strstr(text, instance) && !strstr(text, "lost"), "%s", text);
}

Test(redis_auditor_writer, the_log_is_removed_just_before_a_commit) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 100, "1");
    expect_rows(&d, 100);
    expect_acknowledged(&d, "email", "1-99 ");
    remove_log();
    audit_log_feed(d.f.r, "email", 100, 1, "1");
    driver_step(&d.instance.driver, 5);
    driver_step(&d.instance.driver, 5);
    char *acknowledged = redis_str(d.f.r, "EVAL %s 1 sidecar:email:auditors", "return redis.call('HVALS', KEYS[1])[1] or ''");
    cr_assert(strncmp(acknowledged, "1-100 ", 6) != 0, "a record in no log was acknowledged");
    expect_rebuilt(101, "log_missing", "1-100 ");
}

/* An older copy has the name of the log, so the acknowledgements of this name are too high. The auditor adds the missing rows. */
Test(redis_auditor_writer, an_older_copy_is_refilled) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    char *copy = kept_printf("%s/copy.db", d.dir);
    audit_log_feed(d.f.r, "email", 0, 50, "1");
    expect_rows(&d, 50);
    stop(&d);
    copy_file(d.path, copy);
    start(&d);
    audit_log_feed(d.f.r, "email", 50, 50, "1");
    expect_rows(&d, 100);
    expect_acknowledged(&d, "email", "1-99 ");
    stop(&d);
    remove_log();
    copy_file(copy, d.path);
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 40"); /* ten records are lost */
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed %s", "1-59");
    start(&d);
    expect_rows(&d, 90);
    expect_acknowledged(&d, "email", "1-99 ");
    cr_assert_eq(fixture_log_count("acknowledgements are ahead of the audit log"), 1);
    cr_assert_eq(number(&d, "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'trimmed' AND job = '1-49..1-59'"), 1);
    cr_assert_eq(gaps(&d), 1);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_lost), 0);
    /* the same while the log is open */
    expect_acknowledged(&d, "email", "1-99 ");
    char *fresh = kept_printf("%s/fresh.db", d.dir);
    copy_file(copy, fresh);
    remove_file("-wal"), remove_file("-shm");
    cr_assert_eq(rename(fresh, d.path), 0);
    expect_rows(&d, 90);
    cr_assert_eq(gaps(&d), 1);
    expect_acknowledged(&d, "email", "1-99 ");
}

Test(redis_auditor_writer, the_gap_of_a_lost_log_covers_trimmed_records) {
    open_auditor(&d, (fixture_options_t){0}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    audit_log_feed(d.f.r, "email", 0, 100, "1");
    expect_rows(&d, 100);
    stop(&d);
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 40");
    redis_ok(d.f.r, "HSET sidecar:email:meta trimmed %s", "1-59");
    damage(d.path, 3);
    start(&d);
    expect_rows(&d, 40);
    expect_acknowledged(&d, "email", "1-99 ");
    cr_assert_eq(number(&d, "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'log_damaged' AND queue = 'email' AND "
                            "job = '0-0..1-59' AND error LIKE '%audit.db.corrupt-%audit import%'"),
                 1);
    cr_assert_eq(number(&d, "SELECT count(*) FROM events WHERE kind = 'gap' AND reason = 'log_damaged' AND queue = 'sms'"), 1);
    cr_assert_eq(gaps(&d), 2, "trimmed records must be reported once");
}

/* A log with the gap of an earlier loss replaces another: each loss is a row. */
Test(redis_auditor_writer, each_loss_is_a_gap_row) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 300, "1");
    expect_rows(&d, 300);
    stop(&d);
    damage(d.path, 5);
    start(&d);
    expect_rebuilt(300, "log_damaged", "1-299 ");
    for (int n = 2; n <= 3; n++) { /* the second time without a new record */
        stop(&d);
        sqlite3 *db;
        char *sql = kept_printf("UPDATE facts SET value = '%032d' WHERE name = 'instance'", n);
        cr_assert_eq(sqlite3_open(d.path, &db), SQLITE_OK);
        cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        start(&d);
        cr_assert(driver_until(&d.instance.driver, gaps(&d) == n, 10000), "%lld gaps", gaps(&d));
        cr_assert_eq(number(&d, "SELECT count(*) FROM events WHERE reason = 'log_replaced'"), n - 1);
    }
    expect_rows(&d, 300);
    expect_acknowledged(&d, "email", "1-299 ");
    cr_assert_eq(redis_int(d.f.r, "HLEN sidecar:email:auditors"), 1);
}

Test(redis_auditor_writer, a_second_auditor_on_one_path_waits_and_names_the_holder) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 5, "1");
    expect_rows(&d, 5);
    instance_t other;
    instance_start(&other, d.f.keys, 0);
    auditor_t *second = auditor_new(d.f.keys, other.shard, other.leases, other.metrics, &other.driver.role.stop);
    driver_add(&other.driver, auditor_tick, second);
    cr_assert(driver_until(&other.driver, metric_get(&other.metrics->audit_faults) >= 2, 10000));
    cr_assert_eq(fixture_log_count("is written by another sidecar (pid "), 1);
    audit_log_feed(d.f.r, "email", 5, 5, "1");
    expect_rows(&d, 10);
    stop(&d);
    cr_assert(driver_until(&other.driver,
                           metric_get(&other.metrics->audit_faults) && fixture_log_count("audit log is writable again") == 1,
                           30000) ||
              redis_int(d.f.r, "HLEN sidecar:email:auditors") == 1);
    start(&d); /* the first auditor waits now */
    auditor_free(second);
    instance_stop(&other);
    audit_log_feed(d.f.r, "email", 10, 5, "1");
    expect_rows(&d, 15);
    cr_assert_eq(gaps(&d), 0);
}

Test(redis_auditor_writer, retain_rows_holds_under_load) {
    d = (setup_t){.audit = "retain_rows = 1000;"};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 850, "1");
    expect_rows(&d, 850);
    settle(&d);
    cr_assert_eq(fixture_log_count("is nearly full"), 0);
    audit_log_feed(d.f.r, "email", 850, 100, "1");
    expect_rows(&d, 950);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("is nearly full") == 1, 5000));
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_dropped), 0, "dropped before the warning");
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_full_percent), 95);
    audit_log_feed(d.f.r, "email", 950, 5000, "1");
    expect_acknowledged(&d, "email", "1-5949 ");
    cr_assert(driver_until(&d.instance.driver, number(&d, "SELECT count(*) FROM events") <= 1000, 20000));
    settle(&d);
    long long left = number(&d, "SELECT count(*) FROM events");
    cr_assert(left > 900 && left <= 1000, "%lld", left);
    audit_log_expect(d.path, "email", 5950 - (int)left, (int)left);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_dropped), 5950 - left);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_kept_rows), left);
    cr_assert_eq(fixture_log_count("is nearly full"), 1);
    cr_assert_geq(fixture_log_count("removed the oldest rows"), 1);
    redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes"); /* makes the auditor read the whole stream again */
    redis_ok(d.f.r, "DEBUG CHANGE-REPL-ID");
    settle(&d);
    restart(&d);
    settle(&d);
    cr_assert_eq(number(&d, "SELECT count(*) FROM events"), left, "removed rows came back");
    cr_assert_eq(gaps(&d), 0);
}

Test(redis_auditor_writer, expired_rows_are_removed_after_a_warning) {
    d = (setup_t){.audit = ""};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 100, "1"); /* of 2023 */
    expect_rows(&d, 100);
    stop(&d);
    d.f.config->audit.retain_ms = 24 * 3600 * 1000;
    start(&d);
    redis_ok(
        d.f.r, "EVAL %s 1 sidecar:email:failures",
        "local id = string.rep('ab', 32) redis.call('XADD', KEYS[1], '*', 'event', id, 'kind', 'failed', 'job', '100', 'at', "
        "redis.call('TIME')[1] .. '000')");
    expect_rows(&d, 1);
    cr_assert_eq(number(&d, "SELECT count(*) FROM events WHERE job = '100'"), 1);
    cr_assert_eq(fixture_log_count("reach audit.retain"), 1);
    cr_assert_eq(metric_get(&metrics_of(&d)->audit_dropped), 100);
}

/* Failures first .. first + count - 1, at Redis's time. */
static void fail_now(int first, int count) {
    redis_ok(d.f.r, "EVAL %s 1 sidecar:email:failures %d %d",
             "local time = redis.call('TIME') local at = time[1] .. string.format('%03d', math.floor(time[2] / 1000)) "
             "for i = tonumber(ARGV[1]), ARGV[1] + ARGV[2] - 1 do redis.call('XADD', KEYS[1], '*', 'event', redis.sha1hex(i) .. "
             "string.format('%024x', i), 'kind', 'failed', 'queue', 'email', 'job', i, 'at', at) end",
             first, count);
}

/* The log is full. A new failure after Redis's clock was set back looks older than the removed rows. */
Test(redis_auditor_writer, a_clock_set_back_hides_no_new_failure) {
    d = (setup_t){.audit = "retain_rows = 128;"};
    open_auditor(&d, (fixture_options_t){.preload = "shim_clock"}, "", "", NULL);
    fail_now(0, 300);
    expect_rows(&d, 126);
    server_step_clock(d.f.server, INT64_C(-3600) * 1000);
    for (int i = 0; i < 3; i++) {
        char *sql = kept_printf("SELECT count(*) FROM events WHERE job = '%d'", 300 + 20 * i + 19);
        fixture_step_boottime(1100);
        fail_now(300 + 20 * i, 20);
        cr_assert(driver_until(&d.instance.driver, number(&d, sql) == 1, 5000), "the newest failure is missing");
        settle(&d);
    }
    cr_assert_eq(number(&d, "SELECT count(*) FROM events WHERE CAST(job AS INTEGER) >= 300"), 60, "%lld of 60",
                 number(&d, "SELECT count(*) FROM events WHERE CAST(job AS INTEGER) >= 300"));
    stop(&d); /* missed records become a gap */
    fail_now(400, 10);
    redis_ok(d.f.r, "XTRIM sidecar:email:failures MAXLEN 5");
    start(&d);
    cr_assert(driver_until(&d.instance.driver, number(&d, "SELECT count(*) FROM events WHERE job = '409'") == 1, 5000));
    cr_assert_eq(gaps(&d), 1);
}

typedef struct {
    const char *name;
    int kinds, times, error;
} fault_row_t;

/* Each operation on the files of the log fails in turn, once or for a while. The log must still get every record once, and
 * the auditor must acknowledge all of them. */
Test(redis_auditor_writer, failed_writes_and_fsyncs_lose_and_duplicate_no_row, .timeout = 300) {
    static const fault_row_t faults[] = {{"a write", DISK_WRITE, 1, EIO},
                                         {"a write, the disk being full", DISK_WRITE, 12, ENOSPC},
                                         {"a sync", DISK_SYNC, 1, EIO},
                                         {"syncs", DISK_SYNC, 4, EIO},
                                         {"a truncation", DISK_CUT, 1, EIO}};
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    audit_log_feed(d.f.r, "email", 0, 60, "1"); /* 16 in the first reply, the rest in the second */
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        int nth = 1;
        for (bool hit = true; hit; nth++) {
            stop(&d);
            remove_log();
            remove_file(".lock");
            redis_ok(d.f.r, "DEL sidecar:email:auditors");
            disk_fault_on("/audit.db", faults[i].kinds, nth, faults[i].times, faults[i].error);
            start(&d);
            char *acknowledged = NULL;
            bool done = driver_until(&d.instance.driver,
                                     (disk_fault_hits() ? fixture_step_boottime(500) : (void)0, free(acknowledged),
                                      acknowledged = redis_str(d.f.r, "EVAL %s 1 sidecar:email:auditors",
                                                               "return redis.call('HVALS', KEYS[1])[1] or ''"),
                                      strncmp(acknowledged, "1-59 ", 5) == 0),
                                     20000);
            hit = disk_fault_hits() > 0;
            disk_fault_off();
            cr_assert(done, "%s, the %d. one: acknowledged is \"%s\"\n%s", faults[i].name, nth, acknowledged, fixture_log());
            cr_assert_eq(audit_log_rows(d.path), 60, "%s, the %d. one: %lld rows", faults[i].name, nth, audit_log_rows(d.path));
            audit_log_expect(d.path, "email", 0, 60);
            cr_assert_eq(gaps(&d), 0, "%s, the %d. one", faults[i].name, nth);
            cr_assert_eq(count_set_aside(), 0, "%s, the %d. one", faults[i].name, nth);
            cr_assert_eq(number(&d, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
            free(acknowledged);
        }
        cr_assert_gt(nth, faults[i].kinds == DISK_CUT ? 2 : 10, "%s: it tried %d operations", faults[i].name, nth - 2);
    }
}

/* Mounts a small file system for this process alone; false if that is not permitted. */
static bool mount_small(const char *dir, unsigned long flags) {
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", dir, "tmpfs", flags, "size=2m") == 0;
}

/* Starts an auditor with its log in this directory. */
static void open_auditor_in(const char *dir) {
    open_auditor(&d, (fixture_options_t){0}, "", "", NULL);
    stop(&d);
    free(d.f.config->audit.path);
    free(d.path);
    d.f.config->audit.path = mem_printf("%s/audit.db", dir);
    d.path = mem_str(d.f.config->audit.path);
    start(&d);
}

static void note_check(void *self, audit_severity_t finding, const char *text) {
    if (finding == AUDIT_ERROR) buffer_str(self, text);
}

Test(redis_auditor_writer, a_read_only_directory_is_retried, .timeout = 60) {
    char *dir = temp_dir("small");
    if (!mount_small(dir, MS_RDONLY)) cr_skip_test("a file system cannot be mounted here: %s", strerror(errno));
    open_auditor_in(dir);
    audit_log_feed(d.f.r, "email", 0, 20, "1");
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_faults) >= 3, 30000));
    cr_assert_eq(fixture_log_count("the file system is read-only"), 1, "%s", fixture_log());
    buffer_t checked = {0}; /* as `check --redis` does */
    audit_check_path(d.path, 0, note_check, &checked);
    cr_assert(has(buffer_text(&checked), "the file system is read-only"), "%s", buffer_text(&checked));
    buffer_free(&checked);
    cr_assert_eq(redis_int(d.f.r, "HLEN sidecar:email:auditors"), 0);
    cr_assert_eq(mount(NULL, dir, NULL, MS_REMOUNT, "size=2m"), 0);
    expect_acknowledged(&d, "email", "1-19 ");
    audit_log_expect(d.path, "email", 0, 20);
    cr_assert_eq(fixture_log_count("audit log is writable again"), 1);
    cr_assert_eq(gaps(&d), 0);
}

/* On a full disk of 2 MiB the auditor stops, reports that once, keeps its position, and continues when there is room. */
Test(redis_auditor_writer, a_full_disk_is_retried, .timeout = 120) {
    char *dir = temp_dir("small");
    if (!mount_small(dir, 0)) cr_skip_test("a file system cannot be mounted here: %s", strerror(errno));
    open_auditor_in(dir);
    audit_log_feed(d.f.r, "email", 0, 16000, "1"); /* several MiB of rows and -wal */
    cr_assert(driver_until(&d.instance.driver, metric_get(&metrics_of(&d)->audit_faults) >= 3, 30000));
    cr_assert_eq(fixture_log_count("the disk is full: make room"), 1, "%s", fixture_log());
    char *acknowledged = redis_str(d.f.r, "EVAL %s 1 sidecar:email:auditors", "return redis.call('HVALS', KEYS[1])[1] or ''");
    cr_assert(strncmp(acknowledged, "1-15999 ", 8) != 0);
    cr_assert_eq(mount(NULL, dir, NULL, MS_REMOUNT, "size=64m"), 0);
    expect_acknowledged(&d, "email", "1-15999 ");
    expect_rows(&d, 16000);
    audit_log_expect(d.path, "email", 0, 16000);
    cr_assert_eq(fixture_log_count("audit log is writable again"), 1);
    cr_assert_eq(gaps(&d), 0);
}
