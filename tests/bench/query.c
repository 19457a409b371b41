// Queries of an audit log of a million failures: how long plain SQL takes on a new connection; how long `audit list`, `--grep`
// and `stats` take, including the start of the program, and how much they slow down a sidecar that copies its stream meanwhile.
#include "bench.h"

#include <fcntl.h>
#include <sqlite3.h>

enum { ROWS = 1000000, QUEUES = 5, REASONS = 3, HOURS = 240, PAYLOAD = 200, ERROR_TEXT = 80, RECORDS = 100000, STEP = 10000 };
static const int64_t FIRST_MS = 1763000000000; // November 2025
static const int64_t HOUR_MS = 3600000;

// One row of a thousand has this text in its payload.
#define NEEDLE "needle@example.org"

static const char *const reasons[REASONS] = {"retries_exhausted", "reported", "alive_timeout"};

static void run_sql(sqlite3 *db, const char *sql) {
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) die("%s: %s", sql, message);
}

static void fill(char *text, int len, uint64_t *seed) {
    for (int i = 0; i < len; i++) text[i] = "etaoin shrdlu cmfwyp_0123456789,"[random_bits(seed) >> 59];
    text[len] = '\0';
}

static void put(sqlite3_stmt *of, int64_t row, uint64_t *seed) {
    char ref[13], job[32], payload[PAYLOAD + 1], error[ERROR_TEXT + 1], queue[8];
    for (int i = 0; i < 12; i++) ref[i] = "abcdefghijklmnopqrstuvwxyz234567"[random_bits(seed) >> 59];
    ref[12] = '\0';
    snprintf(job, sizeof job, "job-%016llx", (unsigned long long)random_bits(seed));
    snprintf(queue, sizeof queue, "q%d", (int)(random_bits(seed) % QUEUES));
    fill(payload, PAYLOAD, seed);
    fill(error, ERROR_TEXT, seed);
    if (row % 1000 == 0) memcpy(payload + 100, NEEDLE, sizeof NEEDLE - 1);
    int64_t at = FIRST_MS + row * (HOURS * HOUR_MS / ROWS) + (int64_t)(random_bits(seed) % 1000);
    const char *texts[] = {ref, queue, job, reasons[random_bits(seed) % REASONS], error, payload};
    for (int i = 0; i < 6; i++) sqlite3_bind_text(of, i + 1, texts[i], -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(of, 7, at);
    if (sqlite3_step(of) != SQLITE_DONE) die("cannot write the log");
    sqlite3_reset(of);
}

// Opens the empty log that the program made, and fills it.
static void make_log(const char *path) {
    sqlite3 *db;
    sqlite3_stmt *of;
    uint64_t seed = 88172645463325252U;
    if (sqlite3_open(path, &db) != SQLITE_OK) die("%s: %s", path, sqlite3_errmsg(db));
    run_sql(db, "PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; PRAGMA wal_autocheckpoint = 0; BEGIN");
    if (sqlite3_prepare_v2(
            db,
            "INSERT INTO events (ref, event, kind, dialect, queue, job, type, worker, reason, term, sha256, answers, "
            "answers_ref, attempts, created, started, at, size, error, payload) VALUES (?1, lower(hex(randomblob(32))), "
            "'failed', 'list', ?2, ?3, 'mail', 'worker-7', ?4, '00112233445566778899aabbccddeeff-5000', "
            "lower(hex(randomblob(32))), '', '', 4, ?7 - 60000, ?7 - 1000, ?7, 200, ?5, ?6)",
            -1, &of, NULL) != SQLITE_OK)
        die("%s", sqlite3_errmsg(db));
    for (int64_t row = 0; row < ROWS; row++) put(of, row, &seed);
    sqlite3_finalize(of);
    run_sql(db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(db);
}

// Runs the query on a new connection, and reads all columns. Returns the duration in ms.
static double run_plain_sql(const char *path, const char *sql, int rows) {
    sqlite3 *db;
    sqlite3_stmt *of;
    int64_t began = mono_us();
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, sql, -1, &of, NULL) != SQLITE_OK)
        die("%s: %s", sql, sqlite3_errmsg(db));
    for (; sqlite3_step(of) == SQLITE_ROW; rows--)
        for (int i = 0; i < sqlite3_column_count(of); i++) sqlite3_column_text(of, i);
    if (rows != 0) die("%s: %d rows are missing", sql, rows);
    sqlite3_finalize(of);
    sqlite3_close(db);
    return (double)(mono_us() - began) / 1000;
}

// Runs `audit` with these words to its end, without its output. Returns the duration in ms.
static double run_audit(const bench_t *bench, const char *const *words, const char *db) {
    const char *argv[24] = {bench->sidecar, "audit"};
    size_t count = 2;
    while (*words) argv[count++] = *words++;
    argv[count++] = "--db";
    argv[count++] = db;
    int64_t began = mono_us();
    pid_t pid = fork();
    if (pid < 0) die("cannot fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_TIMERSLACK, 0UL);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(126);
        execv(bench->sidecar, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) die("audit %s: status %d", argv[2], status);
    return (double)(mono_us() - began) / 1000;
}

static const struct {
    const char *label;
    double goal; // ms
    const char *words[14];
} questions[] = {
    {"list by queue, reason and hour, ms",
     50,
     {"list", "--queue", "q3", "--reason", "reported", "--since", "2025-11-18T02:00Z", "--until", "2025-11-18T03:00Z"}},
    {"the same, all of the hour as csv, ms",
     50,
     {"list", "--queue", "q3", "--reason", "reported", "--since", "2025-11-18T02:00Z", "--until", "2025-11-18T03:00Z", "-o",
      "csv"}},
    {"list --grep of what one in a thousand holds, ms", 1000, {"list", "--grep", NEEDLE}},
    {"list --grep of what none holds, ms", 1000, {"list", "--grep", "No such text"}},
    {"the same in one queue, ms", 1000, {"list", "--queue", "q3", "--grep", "No such text"}},
    {"list --grep -i of what none holds, ms", 2000, {"list", "--grep", "No such text", "-i"}},
    {"list --state open, ms", 50, {"list", "--state", "open"}},
    {"list of a job that is not there, ms", 50, {"list", "--job", "none"}},
    {"list of a type that is not there, ms", 1000, {"list", "--type", "none"}},
    {"stats, ms", 1000, {"stats"}},
    {"stats --by error, ms", 4000, {"stats", "--by", "error"}},
};

// The inner queries are constants, by which SQLite searches.
static const struct {
    const char *label, *sql;
    int rows;
} plain[] = {
    {"plain SQL: the 50 newest failures, ms", "SELECT * FROM failed_jobs ORDER BY failed_at DESC LIMIT 50", 50},
    {"plain SQL: one ref, ms", "SELECT * FROM failed_jobs WHERE ref = (SELECT ref FROM events WHERE seq = 700001)", 1},
    {"plain SQL: all events of one job, ms",
     "SELECT * FROM job_history WHERE job_id = (SELECT job FROM events WHERE seq = 700001) ORDER BY at", 1},
    {"plain SQL: the 50 newest of a queue and an hour, ms",
     "SELECT * FROM failed_jobs WHERE queue = 'q3' AND failed_at BETWEEN 1763431200000 AND 1763434800000 ORDER BY failed_at DESC "
     "LIMIT 50",
     50},
};

// Adds records like those of final failures.
static void load(redisContext *redis) {
    static const char script[] =
        "local payload = string.rep('p', 192) for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
        "local id = redis.sha1hex(i) .. string.format('%024x', i) "
        "redis.call('XADD', KEYS[1], '1-' .. i, 'event', id, 'kind', 'failed', 'dialect', 'list', 'queue', 'q0', 'job', i, "
        "'reason',"
        "'reported', 'error', string.rep('e', 80), 'attempts', 4, 'created', '1764000000000', 'started', '1764000001000', 'at', "
        "string.format('%.0f', 1764000002000 + i), 'term', '00112233445566778899aabbccddeeff-5000', 'size', 200, "
        "'payload', payload .. string.format('%08d', i)) end return 1";
    for (int i = 1; i <= RECORDS; i += STEP) redis_do(redis, "EVAL %s 1 sidecar:q0:failures %d %d", script, i, i + STEP - 1);
}

// Returns the rows a second of a sidecar that copies a stream into the log. `asking`: another process greps the log meanwhile.
static double ingest(bench_t *bench, redisContext *redis, const char *db, bool asking) {
    static const char *const grep[] = {"list", "--grep", "No such text", NULL};
    redis_do(redis, "FLUSHALL");
    load(redis);
    pid_t asker = -1;
    if (asking && (asker = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) run_audit(bench, grep, db);
    }
    int64_t began = mono_us();
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "query"});
    while (!acknowledged(redis, RECORDS)) {
        sleep_us(2000);
        if (mono_us() - began > 120 * INT64_C(1000000)) die("the stream is not copied");
    }
    double rate = RECORDS * 1e6 / (double)(mono_us() - began);
    sidecar_stop(pid, SIGTERM);
    if (asker > 0) sidecar_stop(asker, SIGKILL);
    return rate;
}

// Makes a new file, because a process may still read the old one. Syncs the file, or the first fsync of the sidecar would wait
// for all of it.
static void copy_file(const char *from, const char *to) {
    char command[2400];
    snprintf(command, sizeof command, "rm -f '%s' '%s-wal' '%s-shm' && cp '%s' '%s' && sync '%s'", to, to, to, from, to, to);
    if (system(command) != 0) die("%s", command);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    char db[256], log[256];
    snprintf(db, sizeof db, "%s/million.db", bench.dir);
    snprintf(log, sizeof log, "%s/query.db", bench.dir);
    run_audit(&bench, (const char *const[]){"import", "/dev/null", NULL}, db); // makes an empty log
    int64_t began = mono_us();
    make_log(db);
    fprintf(stderr, "query: a log of %d rows took %.0f s to make\n", ROWS, (double)(mono_us() - began) / 1e6);
    table_head("Questions to an audit log of 1M failures (payloads 200, errors 80 bytes)");
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        series_t took = {0};
        run_audit(&bench, questions[i].words, db); // reads the file into the page cache
        for (int round = 0; round < bench.rounds; round++) series_add(&took, run_audit(&bench, questions[i].words, db));
        table_row(&bench, questions[i].label, &took, 1, questions[i].goal > 0 ? '<' : 0, questions[i].goal);
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        series_t took = {0};
        for (int round = 0; round < bench.rounds; round++) series_add(&took, run_plain_sql(db, plain[i].sql, plain[i].rows));
        table_row(&bench, plain[i].label, &took, 1, '<', 20);
    }
    series_t alone = {0}, shared = {0}, ratio = {0};
    redisContext *redis = redis_open(&bench);
    for (int round = 0; round < bench.rounds; round++) {
        copy_file(db, log);
        series_add(&alone, ingest(&bench, redis, log, false));
        copy_file(db, log);
        series_add(&shared, ingest(&bench, redis, log, true));
        series_add(&ratio, shared.values[round] / alone.values[round]);
        fprintf(stderr, "query: round %d: %.0f rows/s, %.0f while somebody asks\n", round + 1, alone.values[round],
                shared.values[round]);
    }
    redisFree(redis);
    table_row(&bench, "stream to rows/s of that log", &alone, 0, 0, 0);
    table_row(&bench, "stream to rows/s while one --grep follows the other", &shared, 0, 0, 0);
    table_row(&bench, "of these the second / the first", &ratio, 2, '>', 0.5);
    return bench_end(&bench);
}
