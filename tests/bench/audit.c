// The auditor: how fast the real program copies a failure stream into committed rows of the audit log: into an empty log, into
// one of a million rows, and into one that is at its limit, so that each new row also removes an old one. And how many bytes a
// row takes. Records of a storm are young. Those of a long outage are older than `stream.retain`: then the same auditor also
// removes each of them from the stream, before it reads on.
//
// The floor writes the same rows into a file with the same tables and indexes by SQLite alone: one process, no Redis, and the
// program's journal mode, cache and size of transactions.
#include "bench.h"

#include <sqlite3.h>
#include <time.h>

enum {
    RECORDS = 200000,
    STEP = 10000,
    MILLION = 1000000,
    LIMIT = MILLION + RECORDS,
    POLL_US = 1000,
    TIMEOUT_US = 240 * 1000000,
    PAYLOAD = 100,
    BATCH = 8192
};

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

// Fills the log up to a million rows. The records come while the program runs.
static void fill(redisContext *redis, int first) {
    for (; first <= MILLION; first += RECORDS) {
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

// As in the program: sidecar/audit/open.c.
#define CACHE_KIB "8192"
#define WAL_PAGES "16384"

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

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
    sqlite3_stmt *of;
    if (sqlite3_prepare_v2(db, sql, -1, &of, NULL) != SQLITE_OK) die("%s: %s", sql, sqlite3_errmsg(db));
    return of;
}

#define COLUMNS                                                                                                                  \
    "ref, event, kind, dialect, queue, job, type, worker, reason, term, sha256, answers, answers_ref, attempts, created, "       \
    "started, at, size, error, payload, \"group\""
enum { COLUMN_COUNT = 21, SEQ = COLUMN_COUNT };

// Writes RECORDS rows of the log `from` into the log `into`, which has all rows before them. Returns the rows/s of the
// transactions alone, without the reads.
static double floor_rate(const char *into, const char *from) {
    static sqlite3_value *rows[BATCH][COLUMN_COUNT];
    sqlite3 *db;
    int64_t took = 0;
    if (sqlite3_open(into, &db) != SQLITE_OK) die("%s: %s", into, sqlite3_errmsg(db));
    run_sql(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -" CACHE_KIB
                "; PRAGMA wal_autocheckpoint = " WAL_PAGES);
    char sql[512];
    snprintf(sql, sizeof sql, "ATTACH '%s' AS other", from);
    run_sql(db, sql);
    int64_t after =
        read_number(db, "SELECT coalesce(max(seq), 0) FROM main.events"); // some rows are gaps, so not a number of records
    sqlite3_stmt *read = prepare(db, "SELECT " COLUMNS ", seq FROM other.events WHERE seq > ? ORDER BY seq LIMIT ?");
    sqlite3_stmt *write =
        prepare(db, "INSERT OR IGNORE INTO main.events (" COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (int done = 0; done < RECORDS;) {
        int count = 0;
        sqlite3_bind_int64(read, 1, after);
        sqlite3_bind_int(read, 2, RECORDS - done < BATCH ? RECORDS - done : BATCH);
        for (; sqlite3_step(read) == SQLITE_ROW; count++) {
            for (int i = 0; i < COLUMN_COUNT; i++) rows[count][i] = sqlite3_value_dup(sqlite3_column_value(read, i));
            after = sqlite3_column_int64(read, SEQ);
        }
        sqlite3_reset(read);
        if (count == 0) die("%s has too few rows", from);
        int64_t began = mono_us();
        run_sql(db, "BEGIN IMMEDIATE");
        for (int row = 0; row < count; row++) {
            for (int i = 0; i < COLUMN_COUNT; i++) sqlite3_bind_value(write, i + 1, rows[row][i]);
            if (sqlite3_step(write) != SQLITE_DONE || sqlite3_changes(db) != 1) die("%s", sqlite3_errmsg(db));
            sqlite3_reset(write);
        }
        run_sql(db, "COMMIT");
        took += mono_us() - began;
        done += count;
        for (int row = 0; row < count; row++)
            for (int i = 0; i < COLUMN_COUNT; i++) sqlite3_value_free(rows[row][i]);
    }
    sqlite3_finalize(read);
    sqlite3_finalize(write);
    sqlite3_close(db);
    return RECORDS * 1e6 / (double)took;
}

static void shell(const char *format, const char *a, const char *b) {
    char command[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof command, format, a, b);
#pragma GCC diagnostic pop
    if (system(command) != 0) die("%s", command);
}

typedef struct figures {
    series_t floor, empty, memory, floor_million, million, full, ratio_empty, ratio_million, full_memory, bytes, old;
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

// One sidecar copies the records first .. last, which are loaded before it starts.
static double copy(const bench_t *bench, redisContext *redis, sidecar_options_t options, int first, int last, double *memory) {
    load(redis, first, last - first + 1, false);
    pid_t pid = sidecar_start(bench, options);
    double rate = measure(redis, first, last);
    if (last == RECORDS) {
        redis_do(redis, "XTRIM sidecar:q0:failures MAXLEN 0");
        fill(redis, RECORDS + 1);
    }
    *memory = (double)status_kib(pid, "VmHWM") / 1024;
    sidecar_stop(pid, SIGTERM);
    redis_do(redis, "XTRIM sidecar:q0:failures MAXLEN 0");
    return rate;
}

static void run_round(const bench_t *bench, redisContext *redis, int round, figures_t *figures) {
    char name[32], path[256], alone[300], million[300];
    double memory, full_memory;
    snprintf(name, sizeof name, "audit-%d", round);
    snprintf(path, sizeof path, "%s/%s.db", bench->dir, name);
    snprintf(alone, sizeof alone, "%s.alone", path);
    snprintf(million, sizeof million, "%s.million", path);
    sidecar_options_t options = {.name = name};
    double empty = copy(bench, redis, options, 1, RECORDS, &memory);
    shell("cp '%s' '%s'", path, million);
    double rate_million = copy(bench, redis, options, MILLION + 1, MILLION + RECORDS, &full_memory);
    shell("'%s' audit import /dev/null --db '%s' >/dev/null 2>&1", bench->sidecar, alone); // makes an empty log
    double floor = floor_rate(alone, path), floor_million = floor_rate(million, path);
    shell("rm -f '%s'* '%s'*", alone, million);
    options.audit = "retain_rows = 1200000;";
    double full = copy(bench, redis, options, LIMIT + 1, LIMIT + RECORDS, &full_memory);
    series_add(&figures->memory, memory);
    series_add(&figures->full_memory, full_memory);
    series_add(&figures->bytes, bytes_per_row(path) - PAYLOAD);
    series_add(&figures->floor, floor);
    series_add(&figures->empty, empty);
    series_add(&figures->floor_million, floor_million);
    series_add(&figures->million, rate_million);
    series_add(&figures->full, full);
    series_add(&figures->ratio_empty, empty / floor);
    series_add(&figures->ratio_million, rate_million / floor_million);
    unlink(path);
    redis_do(redis, "FLUSHALL");
    series_add(&figures->old, old_rate(bench, redis, round));
    fprintf(stderr,
            "audit: round %d: floor %.0f, empty %.0f, floor at a million %.0f, a million %.0f, full %.0f, old %.0f rows/s, %.0f "
            "bytes a row, %.1f and %.1f MiB\n",
            round + 1, floor, empty, floor_million, rate_million, full, figures->old.values[round], figures->bytes.values[round],
            memory, full_memory);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    figures_t figures = {0};
    for (int i = 0; i < bench.rounds; i++) run_round(&bench, redis, i, &figures);
    table_head("Audit log: 200k records with payloads of 100 bytes, from the first acknowledgement to the last");
    table_row(&bench, "rows/s of the same rows by SQLite alone, empty log (floor)", &figures.floor, 0, 0, 0);
    table_row(&bench, "rows/s into an empty log", &figures.empty, 0, 0, 0);
    table_row(&bench, "of these the second / the first", &figures.ratio_empty, 2, '>', 0.5);
    table_row(&bench, "rows/s of the same rows by SQLite alone, log of 1M rows (floor)", &figures.floor_million, 0, 0, 0);
    table_row(&bench, "rows/s into a log of 1M rows", &figures.million, 0, 0, 0);
    table_row(&bench, "of these the second / the first", &figures.ratio_million, 2, '>', 0.5);
    table_row(&bench, "rows/s into a log at its limit, which removes as many", &figures.full, 0, 0, 0);
    table_row(&bench, "rows/s of records older than stream.retain, empty log", &figures.old, 0, 0, 0);
    table_row(&bench, "bytes of the file for each row, without its payload", &figures.bytes, 0, 0, 0);
    table_row(&bench, "largest resident memory, up to 1M rows, MiB", &figures.memory, 1, '<', 32);
    table_row(&bench, "largest resident memory, log at its limit, MiB", &figures.full_memory, 1, '<', 32);
    redisFree(redis);
    return bench_end(&bench);
}
