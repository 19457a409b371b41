// The auditor: how fast the real program copies a failure stream into committed rows of the audit log: into an empty log, and
// into one of a million rows that is at its limit, so that each new row also removes an old one. And how many bytes a row takes.
// Records of a storm are young. Those of a long outage are older than `stream.retain`: then the same auditor also removes each
// of them from the stream, before it reads on.
//
// The floor writes rows of the same bytes into a table with an index of `at` by a bare loop: one process, no Redis, transactions
// of 3,000 rows, synchronous = FULL.
#include "bench.h"

#include <sqlite3.h>
#include <time.h>

enum { RECORDS = 200000, STEP = 10000, LIMIT = 1000000, POLL_US = 1000, TIMEOUT_US = 240 * 1000000, PAYLOAD = 100, BATCH = 3000 };

// Adds records like those of final failures: fields and sizes as settle.lua writes them, ids and jobs in no order. A job was made
// a minute and started a second before it failed.
static void load(redisContext *redis, int first, int count, bool old) {
    static const char script[] =
        "local payload, sha256 = string.rep('p', 100), 'abd3b172acc3c31e07e73599fee36843f0e3f7c1abe023e3225f9a46161a28d4' "
        "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
        "local hash = redis.sha1hex(i) local id = hash .. string.format('%024x', i) "
        "local at = math.floor(ARGV[3] + i / 100) "
        "redis.call('XADD', KEYS[1], ARGV[4] .. '-' .. i, 'event', id, 'kind', 'failed', 'dialect', 'list', "
        "'queue', 'q0', 'job', string.sub(hash, 1, 16), 'type', 'mail', 'worker', 'worker-' .. i % 50, 'reason', 'reported', "
        "'error', "
        "'no route to host', 'attempts', 4, 'created', "
        "string.format('%.0f', at - 60000), 'started', string.format('%.0f', at - 1000), 'at', string.format('%.0f', at), "
        "'term', '00112233445566778899aabbccddeeff-5000', 'group', 'bench', 'size', "
        "100, "
        "'sha256', sha256, 'answers', '', 'payload', payload) end return 1";
    long long now_ms = (long long)time(NULL) * 1000 - 3600000; // recent, or retention would remove the rows
    for (int i = first; i < first + count; i += STEP)
        redis_do(redis, "EVAL %s 1 sidecar:q0:failures %d %d %lld %lld", script, i, i + STEP - 1, now_ms,
                 old ? 1 : now_ms + 3600000);
}

// The number of the last record that the auditor of q0 has acknowledged.
static int acknowledged_record(redisContext *redis) {
    int record = 0;
    scoped_reply *reply = redis_ask(redis, "HVALS sidecar:q0:auditors");
    if (reply->elements == 1 && sscanf(reply->element[0]->str, "%*[0-9]-%d ", &record) != 1) record = 0;
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
        load(redis, first, RECORDS, false);
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

static void bind_row(sqlite3_stmt *of, int row) {
    static const char zeros[32];
    char job[17], payload[PAYLOAD + 1];
    snprintf(job, sizeof job, "%016x", row);
    snprintf(payload, sizeof payload, "%0*d", PAYLOAD, row);
    sqlite3_bind_int64(of, 1, (int64_t)((uint64_t)row * UINT64_C(0x9e3779b97f4a7c15)));
    sqlite3_bind_blob(of, 2, zeros, 24, SQLITE_STATIC);
    sqlite3_bind_text(of, 3, job, -1, SQLITE_TRANSIENT);
    sqlite3_bind_blob(of, 4, zeros, 32, SQLITE_STATIC);
    sqlite3_bind_int64(of, 5, INT64_C(1700000000000) + row);
    sqlite3_bind_text(of, 6, payload, -1, SQLITE_TRANSIENT);
}

static double floor_rate(const bench_t *bench, int round) {
    char path[256];
    sqlite3 *db;
    sqlite3_stmt *of;
    snprintf(path, sizeof path, "%s/floor-%d.db", bench->dir, round);
    if (sqlite3_open(path, &db) != SQLITE_OK) die("%s: %s", path, sqlite3_errmsg(db));
    run_sql(db,
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE rows (seq INTEGER PRIMARY KEY, id_high, id_low, "
            "context, job, worker, sha256, attempts, created, started, at, size, error, payload); "
            "CREATE INDEX rows_at ON rows (at, context)");
    if (sqlite3_prepare_v2(
            db, "INSERT INTO rows VALUES (NULL, ?1, ?2, 1, ?3, 'worker-7', ?4, 4, 60000, 1000, ?5, NULL, 'no route to host', ?6)",
            -1, &of, NULL) != SQLITE_OK)
        die("%s", sqlite3_errmsg(db));
    int64_t began = mono_us();
    for (int i = 0; i < RECORDS; i++) {
        if (i % BATCH == 0) run_sql(db, "BEGIN IMMEDIATE");
        bind_row(of, i);
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
    series_t floor, empty, memory, full, ratio_empty, ratio_full, full_memory, bytes, old;
} figures_t;

// Records older than stream.retain, into an empty log.
static double old_rate(const bench_t *bench, redisContext *redis, int round) {
    char name[32], path[256];
    snprintf(name, sizeof name, "audit-old-%d", round);
    snprintf(path, sizeof path, "%s/%s.db", bench->dir, name);
    load(redis, 1, RECORDS, true);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = name});
    double rate = measure(redis, 1, RECORDS);
    sidecar_stop(pid, SIGTERM);
    unlink(path);
    redis_do(redis, "FLUSHALL");
    return rate;
}

static void run_round(const bench_t *bench, redisContext *redis, int round, figures_t *figures) {
    char name[32], path[256];
    snprintf(name, sizeof name, "audit-%d", round);
    snprintf(path, sizeof path, "%s/%s.db", bench->dir, name);
    const sidecar_options_t options = {.name = name, .audit = "retain_rows = 1000000;"};
    double floor = floor_rate(bench, round);
    load(redis, 1, RECORDS, false);
    pid_t pid = sidecar_start(bench, options);
    double empty = measure(redis, 1, RECORDS);
    series_add(&figures->memory, (double)status_kib(pid, "VmHWM") / 1024);
    redis_do(redis, "XTRIM sidecar:q0:failures MAXLEN 0");
    fill(redis, RECORDS + 1);
    sidecar_stop(pid, SIGTERM);
    load(redis, LIMIT + 1, RECORDS, false);
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
    unlink(path);
    redis_do(redis, "FLUSHALL");
    series_add(&figures->old, old_rate(bench, redis, round));
    fprintf(stderr, "audit: round %d: floor %.0f, empty %.0f, full %.0f, old %.0f rows/s, %.0f bytes a row, %.1f MiB\n",
            round + 1, floor, empty, full, figures->old.values[round], figures->bytes.values[round],
            figures->full_memory.values[round]);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    figures_t figures = {0};
    for (int i = 0; i < bench.rounds; i++) run_round(&bench, redis, i, &figures);
    table_head("Audit log: 200k records with payloads of 100 bytes, from the first acknowledgement to the last");
    table_row(&bench, "rows/s of a bare loop into one table with an index (floor)", &figures.floor, 0, 0, 0);
    table_row(&bench, "rows/s into an empty log", &figures.empty, 0, '>', 100000);
    table_row(&bench, "of these the second / the first", &figures.ratio_empty, 2, 0, 0);
    table_row(&bench, "rows/s into a log of 1M rows, which removes as many", &figures.full, 0, '>', 40000);
    table_row(&bench, "this / the floor", &figures.ratio_full, 2, 0, 0);
    table_row(&bench, "rows/s of records older than stream.retain, empty log", &figures.old, 0, 0, 0);
    table_row(&bench, "bytes of the file for each row, without its payload", &figures.bytes, 0, '<', 200);
    table_row(&bench, "largest resident memory, empty log, MiB", &figures.memory, 1, '<', 24);
    table_row(&bench, "largest resident memory, log of 1M rows, MiB", &figures.full_memory, 1, '<', 24);
    redisFree(redis);
    return bench_end(&bench);
}
