// The auditor: how fast the real program copies a failure stream into committed rows of the audit log: into an empty log, and
// into one of a million rows that is at its limit, so that each new row also removes an old one. And how many bytes a row takes.
//
// The floor writes the same rows into a table without an index by a bare loop: one process, no Redis, transactions of 3,000 rows.
#include "bench.h"

#include <sqlite3.h>
#include <time.h>

enum { RECORDS = 200000, STEP = 10000, LIMIT = 1000000, POLL_US = 1000, TIMEOUT_US = 240 * 1000000, PAYLOAD = 100, BATCH = 3000 };

// Adds records like those of final failures: fields and sizes as settle.lua writes them, ids and jobs in no order.
static void load(redisContext *redis, int first, int count) {
    static const char script[] =
        "local payload, sha256 = string.rep('p', 100), 'abd3b172acc3c31e07e73599fee36843f0e3f7c1abe023e3225f9a46161a28d4' "
        "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
        "local hash = redis.sha1hex(i) local id = hash .. string.format('%024x', i) "
        "redis.call('XADD', KEYS[1], '1-' .. i, 'event', id, 'kind', 'failed', 'dialect', 'list', "
        "'queue', 'q0', 'job', string.sub(hash, 1, 16), 'type', 'mail', 'worker', 'worker-' .. i % 50, 'reason', 'reported', "
        "'error', "
        "'no route to host', 'attempts', 4, 'created', '1700000000000', 'started', '1700000001000', 'at', "
        "string.format('%.0f', ARGV[3] + i / 100), 'term', '00112233445566778899aabbccddeeff-5000', 'group', 'bench', 'size', "
        "100, "
        "'sha256', sha256, 'answers', '', 'payload', payload) end return 1";
    long long now_ms = (long long)time(NULL) * 1000 - 3600000; // recent, or retention would remove the rows
    for (int i = first; i < first + count; i += STEP)
        redis_do(redis, "EVAL %s 1 sidecar:q0:failures %d %d %lld", script, i, i + STEP - 1, now_ms);
}

// The number of the last record that the auditor of q0 has acknowledged.
static int acknowledged_record(redisContext *redis) {
    int record = 0;
    redisReply *reply = redis_ask(redis, "HVALS sidecar:q0:auditors");
    if (reply->elements == 1 && sscanf(reply->element[0]->str, "1-%d ", &record) != 1) record = 0;
    freeReplyObject(reply);
    return record;
}

static int await_record(redisContext *redis, int record) {
    int64_t began = mono_us();
    int reached;
    while ((reached = acknowledged_record(redis)) < record) {
        sleep_us(POLL_US);
        if (mono_us() - began > TIMEOUT_US) die("the stream is not copied");
    }
    return reached;
}

// Rows/s from the first acknowledgement to the last, so without the start of the program and its check of the log.
static double measure(redisContext *redis, int first, int last) {
    int from = await_record(redis, first);
    int64_t began = mono_us();
    await_record(redis, last);
    return (last - from) * 1e6 / (double)(mono_us() - began);
}

// Fills the log up to its limit. The records come while the program runs.
static void fill(redisContext *redis, int first) {
    for (; first <= LIMIT; first += RECORDS) {
        load(redis, first, RECORDS);
        await_record(redis, first + RECORDS - 1);
        redis_do(redis, "XTRIM sidecar:q0:failures MAXLEN 0");
    }
}

static int64_t read_number(sqlite3 *db, const char *sql) {
    sqlite3_stmt *of;
    if (sqlite3_prepare_v2(db, sql, -1, &of, NULL) != SQLITE_OK || sqlite3_step(of) != SQLITE_ROW) die("%s", sqlite3_errmsg(db));
    int64_t number = sqlite3_column_int64(of, 0);
    sqlite3_finalize(of);
    return number;
}

static double bytes_per_row(const char *path) {
    sqlite3 *db;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) die("%s: %s", path, sqlite3_errmsg(db));
    int64_t pages = read_number(db, "PRAGMA page_count") - read_number(db, "PRAGMA freelist_count");
    double bytes = (double)(pages * read_number(db, "PRAGMA page_size"));
    bytes /= (double)read_number(db, "SELECT count(*) FROM events");
    sqlite3_close(db);
    return bytes;
}

static void run_sql(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) die("%s: %s", sql, sqlite3_errmsg(db));
}

static double floor_rate(const bench_t *bench, int round) {
    static const char *const texts[] = {"failed",
                                        "list",
                                        "q0",
                                        "0123456789abcdef",
                                        "mail",
                                        "worker-7",
                                        "reported",
                                        "no route to host",
                                        "00112233445566778899aabbccddeeff-5000",
                                        "bench"};
    char path[256], id[65], payload[PAYLOAD + 1];
    sqlite3 *db;
    sqlite3_stmt *of;
    snprintf(path, sizeof path, "%s/floor-%d.db", bench->dir, round);
    if (sqlite3_open(path, &db) != SQLITE_OK) die("%s: %s", path, sqlite3_errmsg(db));
    run_sql(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE rows (seq INTEGER PRIMARY KEY, event, kind, "
                "dialect, queue, job, type, worker, reason, error, term, \"group\", sha256, attempts, created, started, at, "
                "size, payload)");
    if (sqlite3_prepare_v2(
            db, "INSERT INTO rows VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?1, 4, ?12, ?12, ?12, 100, ?13)",
            -1, &of, NULL) != SQLITE_OK)
        die("%s", sqlite3_errmsg(db));
    int64_t began = mono_us();
    for (int i = 0; i < RECORDS; i++) {
        if (i % BATCH == 0) run_sql(db, "BEGIN IMMEDIATE");
        snprintf(id, sizeof id, "%064x", i);
        snprintf(payload, sizeof payload, "%0*d", PAYLOAD, i);
        sqlite3_bind_text(of, 1, id, -1, SQLITE_STATIC);
        for (int text = 0; text < 10; text++) sqlite3_bind_text(of, 2 + text, texts[text], -1, SQLITE_STATIC);
        sqlite3_bind_int64(of, 12, INT64_C(1700000000000) + i);
        sqlite3_bind_text(of, 13, payload, -1, SQLITE_STATIC);
        if (sqlite3_step(of) != SQLITE_DONE) die("%s", sqlite3_errmsg(db));
        sqlite3_reset(of);
        if (i % BATCH == BATCH - 1 || i == RECORDS - 1) run_sql(db, "COMMIT");
    }
    double rate = RECORDS * 1e6 / (double)(mono_us() - began);
    sqlite3_finalize(of);
    sqlite3_close(db);
    unlink(path);
    return rate;
}

typedef struct figures {
    series_t floor, empty, memory, full, ratio_empty, ratio_full, full_memory, bytes;
} figures_t;

static void run_round(const bench_t *bench, redisContext *redis, int round, figures_t *figures) {
    char name[32], path[256];
    snprintf(name, sizeof name, "audit-%d", round);
    snprintf(path, sizeof path, "%s/%s.db", bench->dir, name);
    const sidecar_options_t options = {.name = name, .audit = "retain_rows = 1000000;"};
    double floor = floor_rate(bench, round);
    load(redis, 1, RECORDS);
    pid_t pid = sidecar_start(bench, options);
    double empty = measure(redis, 1, RECORDS);
    series_add(&figures->memory, (double)status_kib(pid, "VmHWM") / 1024);
    redis_do(redis, "XTRIM sidecar:q0:failures MAXLEN 0");
    fill(redis, RECORDS + 1);
    sidecar_stop(pid, SIGTERM);
    load(redis, LIMIT + 1, RECORDS);
    pid = sidecar_start(bench, options);
    double full = measure(redis, LIMIT + 1, LIMIT + RECORDS);
    series_add(&figures->full_memory, (double)status_kib(pid, "VmHWM") / 1024);
    sidecar_stop(pid, SIGTERM);
    series_add(&figures->bytes, bytes_per_row(path) - PAYLOAD);
    series_add(&figures->floor, floor);
    series_add(&figures->empty, empty);
    series_add(&figures->full, full);
    series_add(&figures->ratio_empty, empty / floor);
    series_add(&figures->ratio_full, full / floor);
    fprintf(stderr, "audit: round %d: floor %.0f, empty %.0f, full %.0f rows/s, %.0f bytes a row, %.1f MiB\n", round + 1, floor,
            empty, full, figures->bytes.values[round], figures->full_memory.values[round]);
    unlink(path);
    redis_do(redis, "FLUSHALL");
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    figures_t figures = {0};
    for (int i = 0; i < bench.rounds; i++) run_round(&bench, redis, i, &figures);
    table_head("Audit log: 200k records with payloads of 100 bytes, from the first acknowledgement to the last");
    table_row(&bench, "rows/s of a bare loop into one table (floor)", &figures.floor, 0, 0, 0);
    table_row(&bench, "rows/s into an empty log", &figures.empty, 0, '>', 100000);
    table_row(&bench, "of these the second / the first", &figures.ratio_empty, 2, 0, 0);
    table_row(&bench, "rows/s into a log of 1M rows, which removes as many", &figures.full, 0, '>', 40000);
    table_row(&bench, "this / the floor", &figures.ratio_full, 2, 0, 0);
    table_row(&bench, "bytes of the file for each row, without its payload", &figures.bytes, 0, '<', 200);
    table_row(&bench, "largest resident memory, empty log, MiB", &figures.memory, 1, '<', 24);
    table_row(&bench, "largest resident memory, log of 1M rows, MiB", &figures.full_memory, 1, '<', 24);
    redisFree(redis);
    return bench_end(&bench);
}
