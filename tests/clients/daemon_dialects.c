/* Foreign workers of each dialect (tests/clients/README.md), with two sidecars. Each round ends the leader, and a job kills its
 * worker. Every job must be done, or end as a failure if its handler always fails; it must keep the bytes of its producer; and
 * the sidecar must not hand it out twice.
 *
 * QS_LONG=1: 10,000 jobs instead of 1,000. QS_STORY_JOBS=n: n jobs. QS_SEED=n repeats the delays. */
#include "audit_log.h"
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <signal.h>

TestSuite(daemon_clients, .timeout = 240);

enum {
    JOBS = 1000,
    JOBS_LONG = 10000,
    ROUNDS = 5, /* each round ends the leader, by SIGKILL or by SIGTERM in turn, and kills one worker */
    TIMEOUT_MS = 2000,
    DELAY_MS = 2000, /* the longest delay; if the system has delays, every fifth job has one */
    WORKERS = 2,
    SIDECARS = 2,
    ALL_MS = 90000,
    MAX_ENV = 8,
    WINDOW = 96, /* the dialect may change only tokens within this number of bytes */
};

/* The story of one client, and its settings. */
typedef struct {
    const char *client;     /* build/clients/<client> */
    const char *produce[4]; /* arguments of the producer */
    const char *work[4];    /* arguments of a worker; NAME becomes a name that no other worker has */
    const char *env[MAX_ENV];
    const char *queue;  /* the queue's group of the config; %d is the timeout */
    int timeout_ms;     /* 0 = TIMEOUT_MS; a slow machine scales it */
    const char *reason; /* reason of the failure of a job whose handler always fails */
    const char *left;   /* Lua script that counts the entries that are left in the queue's keys */
    bool delays;        /* the producer accepts delays */
    bool distinct;      /* each delivery of a job has other bytes, such as an attempt number */
    bool inside;        /* the record contains the job's data, among other fields */
    int spare;          /* for each killed worker, how many jobs that succeed may be delivered again */
} story_t;

/* The history of one job, from the lines of the clients. */
typedef struct {
    const char *id, *hex; /* id in the record, and bytes of the producer; borrowed from the lines */
    int64_t made_ms;      /* the job was produced at this time or later */
    int delay_ms;
    int taken, done;   /* how often */
    const char *first; /* bytes of the first delivery */
} job_history_t;

typedef struct {
    const story_t *story;
    cluster_t cluster;
    native_t native;
    child_t *workers[WORKERS];
    int started, killed; /* number of workers */
    size_t count;        /* number of jobs */
    int *delays;         /* by job; owned */
    uint64_t seed;
    char *queue;        /* owned */
    FILE *out;          /* output of the clients; owned */
    size_t taken, done; /* deliveries and done jobs in the part of `out` that was read */
    bool *is_done;      /* by job; owned */
} run_t;

static size_t jobs(void) {
    const char *set = getenv("QS_STORY_JOBS"), *stress = getenv("QS_LONG");
    if (set && *set) return strtoul(set, NULL, 10);
    return stress && stress[0] == '1' ? JOBS_LONG : JOBS;
}

/* The first job of a round. A job in the middle of the round kills its worker. */
static size_t begins(const run_t *s, int round) { return s->count * (size_t)round / ROUNDS; }

static const char *kind_of(const run_t *s, size_t number) {
    for (int round = 0; round < ROUNDS; round++)
        if (number == begins(s, round) + (begins(s, round + 1) - begins(s, round)) / 2) return "die";
    if (number % 100 == 7) return "poison";
    if (number % 20 == 3) return "flaky";
    return number % 7 ? "ok" : "slow";
}

/* The input of the producer for a round. Kept. */
static char *lines_of(run_t *s, int round) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(out);
    for (size_t i = begins(s, round); i < begins(s, round + 1); i++) {
        s->delays[i] = s->story->delays && i % 5 == 1 ? (int)cluster_random(&s->seed, DELAY_MS) : 0;
        fprintf(out, "%d %s %zu caf\xc3\xa9 \"quoted\" \\ {\"n\": 12345678901234567890, \"attempt\": 1}\n", s->delays[i],
                kind_of(s, i), i);
    }
    fclose(out);
    return kept(text);
}

static child_t *worker(run_t *s) {
    const char *args[5] = {0};
    char name[24];
    snprintf(name, sizeof(name), "w%d", s->started++);
    for (size_t i = 0; i < 4 && s->story->work[i]; i++) args[i] = strcmp(s->story->work[i], "NAME") ? s->story->work[i] : name;
    return native_start(&s->native, args, s->story->env, NULL);
}

/* Those that a job has killed are replaced. */
static void replace_workers(run_t *s) {
    for (int i = 0; i < WORKERS; i++) {
        if (child_running(s->workers[i])) continue;
        cr_assert_eq(s->workers[i]->term_signal, SIGKILL, "a worker ended with code %d", s->workers[i]->exit_code);
        child_free(s->workers[i]);
        s->workers[i] = worker(s);
        s->killed++;
    }
}

static run_t begin(const story_t *story) {
    run_t s = {.story = story, .count = jobs(), .seed = cluster_seed(story->client)};
    server_t *server = server_start(&(server_options_t){.tcp = true});
    s.native = native_begin(story->client, server);
    s.cluster = (cluster_t){.server = server, .r = redis_open(server)};
    s.delays = calloc(s.count, sizeof(*s.delays));
    s.is_done = calloc(s.count, sizeof(*s.is_done));
    int timeout_ms = story->timeout_ms ? story->timeout_ms : TIMEOUT_MS;
    cr_assert(s.delays && s.is_done && asprintf(&s.queue, story->queue, wait_scaled_ms(timeout_ms)) > 0);
    for (int i = 0; i < SIDECARS; i++) cluster_sidecar_up(&s.cluster, (sidecar_t){.queues = s.queue, .scan = "100ms"});
    for (int i = 0; i < WORKERS; i++) s.workers[i] = worker(&s);
    if (!wait_for(native_count(&s.native, "ready", NULL) == WORKERS, ALL_MS)) native_fail(&s.native, "the workers do not start");
    char *out = temp_path(s.native.dir, "out");
    cr_assert((s.out = fopen(out, "re")));
    return s;
}

static void end(run_t *s) {
    /* SIGTERM would kill a worker that has not set its handler yet. */
    if (!wait_for(native_count(&s->native, "ready", NULL) == s->started, ALL_MS))
        native_fail(&s->native, "a worker does not start");
    for (int i = 0; i < WORKERS; i++) {
        child_signal(s->workers[i], SIGTERM);
        cr_expect(child_wait(s->workers[i], ALL_MS) && s->workers[i]->exit_code == 0, "a worker ended badly");
        child_free(s->workers[i]);
    }
    native_end(&s->native);
    cluster_end(&s->cluster);
    fclose(s->out);
    free(s->queue);
    free(s->delays);
    free(s->is_done);
}

static size_t number_of(const run_t *s, const char *key) {
    size_t number = strtoul(strchr(key, '-') + 1, NULL, 10);
    cr_assert_lt(number, s->count);
    return number;
}

/* Counts the lines since the last call. To read all lines at each call would take too much CPU from the workers. */
static void read_output(run_t *s) {
    char *line = NULL, word[16], key[32];
    size_t size = 0;
    ssize_t len;
    off_t at = ftello(s->out);
    clearerr(s->out);
    while ((len = getline(&line, &size, s->out)) > 0 && line[len - 1] == '\n') {
        at += len;
        if (sscanf(line, "%15s %31s", word, key) != 2) native_fail(&s->native, "a line is not WORD KEY MS DETAIL");
        s->taken += strcmp(word, "taken") == 0;
        if (strcmp(word, "done") != 0 || s->is_done[number_of(s, key)]) continue;
        s->is_done[number_of(s, key)] = true;
        s->done++;
    }
    cr_assert_eq(fseeko(s->out, at, SEEK_SET), 0); /* back to the begin of an incomplete line */
    free(line);
}

/* Produces the jobs of a round and ends the leader meanwhile. Starts it again when the other sidecar leads. */
static void round_of(run_t *s, int round) {
    daemon_t *leader = cluster_await_leader(&s->cluster, "g", NULL, ALL_MS);
    char *in = lines_of(s, round);
    read_output(s);
    size_t before = s->taken;
    scoped(child_drop) child_t *producer = native_start(&s->native, s->story->produce, s->story->env, in);
    if (!wait_for((replace_workers(s), read_output(s), s->taken > before + s->count / ROUNDS / 5), ALL_MS))
        cluster_fail(&s->cluster, "no job comes");
    if (round % 2)
        cr_expect_eq(daemon_terminate(leader, ALL_MS).code, 0);
    else
        daemon_kill(leader);
    cluster_await_leader(&s->cluster, "g", leader, ALL_MS);
    daemon_restart(leader);
    if (!child_wait(producer, ALL_MS) || producer->exit_code != 0) native_fail(&s->native, "the producer failed");
}

static bool is(const native_line_t *line, const char *word) { return strcmp(line->word, word) == 0; }

/* Reads the history of each job. Owned by the caller. */
static job_history_t *read_jobs(const run_t *s, const native_lines_t *all) {
    job_history_t *found = calloc(s->count, sizeof(*found));
    int64_t before_ms = 0;
    cr_assert(found);
    for (size_t i = 0; i < all->count; i++) {
        const native_line_t *line = &all->lines[i];
        if (strchr(line->key, '-') == NULL || strcmp(line->key, "-") == 0) continue;
        job_history_t *job = &found[number_of(s, line->key)];
        if (is(line, "produced")) {
            char *space = strchr(line->detail, ' '); /* Bull prints its own id before the bytes */
            job->id = space ? line->detail : line->key;
            job->hex = space ? space + 1 : line->detail;
            if (space) *space = '\0';
            job->made_ms = before_ms;
            job->delay_ms = s->delays[number_of(s, line->key)];
            before_ms = line->ms;
        } else if (is(line, "taken")) {
            cr_expect(job->delay_ms == 0 || line->ms + 2 >= job->made_ms + job->delay_ms, "%s came early", line->key);
            if (!job->taken++) job->first = line->detail;
        } else if (is(line, "done")) {
            job->done++;
        }
    }
    return found;
}

static int by_key_and_bytes(const void *left, const void *right) {
    const native_line_t *a = left, *b = right;
    int order = strcmp(a->key, b->key);
    return order ? order : strcmp(a->detail, b->detail);
}

/* No two deliveries of a job have the same bytes, so no delivery was made twice. Sorts the lines. */
static void expect_distinct(native_lines_t *all) {
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        if (is(&all->lines[i], "taken")) all->lines[count++] = all->lines[i];
    all->count = count;
    qsort(all->lines, count, sizeof(*all->lines), by_key_and_bytes);
    for (size_t i = 1; i < count; i++)
        cr_expect(by_key_and_bytes(&all->lines[i - 1], &all->lines[i]) != 0, "%s was delivered twice", all->lines[i].key);
}

/* Number of bytes between the first and the last difference of two texts in hex. */
static int apart(const char *a, const char *b) {
    size_t from = 0, to = 0, most = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    while (from < most && a[from] == b[from]) from++;
    while (to < most - from && a[strlen(a) - 1 - to] == b[strlen(b) - 1 - to]) to++;
    size_t longer = strlen(a) > strlen(b) ? strlen(a) : strlen(b);
    return (int)(longer - from - to) / 2;
}

/* The audit log has one row of the job, with the reason. The payload is the job, except tokens that the dialect changes. */
static void expect_record(const run_t *s, const char *path, const job_history_t *job) {
    char sql[300];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM events WHERE kind = 'failed' AND reason = '%s' AND job = '%s'",
             s->story->reason, job->id);
    cr_expect_eq(audit_log_int(path, sql), 1, "%s", sql);
    snprintf(sql, sizeof(sql), "SELECT lower(hex(CAST(payload AS BLOB))) FROM events WHERE kind = 'failed' AND job = '%s'",
             job->id);
    char *payload = audit_log_word(path, sql);
    if (s->story->inside)
        cr_expect_not_null(strstr(payload, job->hex), "%s: the record does not contain the job's data: %s", job->id, payload);
    else
        cr_expect_leq(apart(payload, job->hex), s->story->distinct ? WINDOW : 0, "%s: %s became %s", job->id, job->hex, payload);
}

/* Number of jobs with the right end for their kind: delivered at least once, in the same bytes, then done or recorded. */
static size_t count_good(run_t *s, int poisons) {
    native_lines_t all = native_lines(&s->native);
    job_history_t *found = read_jobs(s, &all);
    const char *log = daemon_audit_path(cluster_await_leader(&s->cluster, "g", NULL, ALL_MS));
    int again = 0;
    size_t good = 0;
    for (size_t i = 0; i < s->count; i++) {
        const char *kind = kind_of(s, i);
        bool poison = strcmp(kind, "poison") == 0;
        if (!found[i].hex || !found[i].first) cr_assert_fail("%s-%zu is lost", kind, i);
        bool ended = poison ? found[i].done == 0 : found[i].done >= 1;
        /* A worker that was killed before it wrote a line may have had the first delivery. */
        bool same = apart(found[i].first, found[i].hex) <= (s->story->distinct ? WINDOW : 0);
        cr_expect(ended, "%s-%zu was done %d times", kind, i, found[i].done);
        cr_expect(same, "%s-%zu came in other bytes: %s, not %s", kind, i, found[i].first, found[i].hex);
        good += ended && same;
        if (strcmp(kind, "ok") == 0 || strcmp(kind, "slow") == 0) again += found[i].taken - 1;
        if (poison) expect_record(s, log, &found[i]);
    }
    if (!s->story->distinct)
        cr_expect_leq(again, s->story->spare * s->killed, "%d jobs were delivered again, %d workers were killed", again,
                      s->killed);
    if (s->story->distinct) expect_distinct(&all);
    fprintf(stderr, "%s: %zu jobs, %d of them ended, %d workers killed, %d delivered again\n", s->story->client, s->count,
            poisons, s->killed, again);
    free(found);
    native_free_lines(&all);
    return good;
}

static bool all_logs_hold(const run_t *s, int rows) {
    for (size_t i = 0; i < s->cluster.count; i++)
        if (audit_log_rows(daemon_audit_path(s->cluster.sidecars[i])) != rows) return false;
    return true;
}

/* Runs a story. Returns the number of jobs with the right end; must be jobs(). */
static size_t run_story(const story_t *story) {
    scoped(end) run_t s = begin(story);
    int poisons = 0;
    for (size_t i = 0; i < s.count; i++) poisons += strcmp(kind_of(&s, i), "poison") == 0;
    for (int i = 0; i < ROUNDS; i++) round_of(&s, i);
    size_t good = s.count - (size_t)poisons;
    if (!wait_for((replace_workers(&s), read_output(&s), s.done == good), ALL_MS)) {
        fprintf(stderr, "%zu of %zu jobs are done, %zu were delivered\n", s.done, good, s.taken);
        cluster_fail(&s.cluster, "not every job is done");
    }
    if (!wait_for(all_logs_hold(&s, poisons), ALL_MS))
        cluster_fail(&s.cluster, "not every failed job is in each audit log, once");
    if (!wait_for(redis_int(s.cluster.r, "EVAL %s 0", story->left) == 0, ALL_MS))
        cluster_fail(&s.cluster, "something is left in the queue");
    cr_expect_eq(s.killed, ROUNDS);
    return count_good(&s, poisons);
}

/* The lockDuration. Bull renews a lock after half of it, and reports an error if a lock expires while its worker or Redis stalls.
 * The jobs of a killed worker come back after their locks have expired. */
#define BULL_LOCK "QS_LOCK_MS=8000"

static story_t bull(const char *version, const char *native) {
    return (story_t){
        .client = "bull",
        .produce = {"produce", "story"},
        .work = {"work", "story"},
        .env = {version, native, "QS_OPTS={\"attempts\": 2}", "QS_MAX_STALLED=20", "QS_THREADS=4", BULL_LOCK},
        .queue =
            "{ name = \"story\"; dialect = \"bull\"; stalled_interval = \"%dms\"; max_stalled = 20; roles = [\"dispatcher\", "
            "\"monitor\"]; }",
        .reason = "worker_failed",
        .left =
            "local n = 0 for _, k in ipairs({'wait', 'active', 'paused'}) do n = n + redis.call('LLEN', 'bull:story:' .. k) end "
            "return n + redis.call('ZCARD', 'bull:story:delayed')",
        .delays = true,
        .inside = true,
        .spare = 4,
    };
}

static size_t run_bull(const char *version, const char *native) {
    story_t story = bull(version, native);
    return run_story(&story);
}

Test(daemon_clients, bull_oldest) { cr_assert_eq(run_bull("QS_BULL=4.10.4", "QS_NATIVE=off"), jobs()); }
Test(daemon_clients, bull_oldest_with_its_own_timers) { cr_assert_eq(run_bull("QS_BULL=4.10.4", "QS_NATIVE=on"), jobs()); }
Test(daemon_clients, bull_newest) { cr_assert_eq(run_bull("QS_BULL=4.16.5", "QS_NATIVE=off"), jobs()); }
Test(daemon_clients, bull_newest_with_its_own_timers) { cr_assert_eq(run_bull("QS_BULL=4.16.5", "QS_NATIVE=on"), jobs()); }

/* One thread for each worker: KMQueue loses a task that another thread of a killed worker has between BRPOP and LPUSH. */
Test(daemon_clients, kmqueue) {
    story_t story = {
        .client = "kmqueue",
        .produce = {"produce", "story:safe"},
        .work = {"work", "story:safe"},
        .env = {"QS_THREADS=1", "QS_UNIQUE=1", "QS_BEAT_MS=500"},
        .queue = "{ name = \"tasks\"; dialect = \"kmqueue\"; queues = [\"story:safe\"]; protected_timeout = \"%dms\"; "
                 "retry_times = 3; "
                 "roles = [\"monitor\"]; }",
        .reason = "retries_exhausted",
        .left =
            "local b = redis.call('KEYS', 'back_up_queue_*')[1] return redis.call('LLEN', 'story') + redis.call('LLEN', b) - 1 + "
            "redis.call('SCARD', 'story_unique')",
        .distinct = true,
    };
    cr_assert_eq(run_story(&story), jobs());
}

/* An event that waits in its list is sent again after each delay, as by the library, and uses up its attempts. So the delay is
 * long enough for the workers to take all events. One thread for each worker: another thread of a killed worker could have taken
 * an event without a line, and the test would first see the bytes of the second attempt. */
Test(daemon_clients, delayed_queue) {
    story_t story = {
        .client = "delayed_queue",
        .produce = {"produce", "example.PaymentCheck"},
        .work = {"work", "example.PaymentCheck"},
        .env = {"QS_THREADS=1"},
        .queue = "{ name = \"events\"; dialect = \"delayed_queue\"; types = [\"example.PaymentCheck\"]; retry_attempts = 5; "
                 "delays = [\"*: "
                 "%dms\"]; roles = [\"dispatcher\", \"monitor\"]; }",
        .reason = "retries_exhausted",
        .left = "return redis.call('ZCARD', 'de_delayed_events') + redis.call('HLEN', 'de_events') + redis.call('LLEN', "
                "'de_paymentcheck') "
                "+ redis.call('ZCARD', 'sidecar:events:aside')",
        .timeout_ms = jobs() > JOBS ? JOBS_LONG / JOBS * TIMEOUT_MS : TIMEOUT_MS,
        .delays = true,
        .distinct = true,
    };
    cr_assert_eq(run_story(&story), jobs());
}

/* A worker tries a failed job again itself, and at last pushes it to the dead letter list, which the sidecar reads. */
Test(daemon_clients, private_queues) {
    story_t story = {
        .client = "private_queues",
        .produce = {"produce"},
        .work = {"work", "NAME"},
        .env = {"QS_BEAT_MS=200"},
        .queue = "{ name = \"fights\"; dialect = \"private_queues\"; main = \"fight-requests\"; private = \"queue-*\"; dedup = "
                 "\"fights-done\"; dlq = \"fights-dlq\"; heartbeat = \"fights:*_alive\"; id_path = \"/id\"; protected_timeout = "
                 "\"%dms\"; roles = "
                 "[\"monitor\"]; }",
        .reason = "dead_letter",
        .left = "local n = redis.call('LLEN', 'fight-requests') for _, k in ipairs(redis.call('KEYS', 'queue-*')) do n = n + "
                "redis.call('LLEN', k) end return n",
    };
    cr_assert_eq(run_story(&story), jobs());
}
