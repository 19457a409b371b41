/* The systems that docs/dialects/list.md serves by config alone: each with its real library, and with the config of its section
 * of that page. First the library promotes its delayed jobs itself, then also a sidecar, then sidecars only. Each round ends the
 * leader. Every job must come once for each time that it was delayed, not early, and in the bytes that the library wrote.
 *
 * QS_LONG=1: 10,000 jobs instead of 1,000. QS_STORY_JOBS=n: n jobs. QS_SEED=n repeats the delays. */
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <signal.h>

TestSuite(daemon_clients_list, .timeout = 240);

enum {
    JOBS = 1000,
    JOBS_LONG = 10000,
    ROUNDS = 4,      /* each round ends the leader, by SIGKILL or by SIGTERM in turn */
    DELAY_MS = 1500, /* the longest delay of a job */
    WORKERS = 2,
    ALL_MS = 60000,
};

typedef struct {
    const char *client;     /* build/clients/<client> */
    const char *section;    /* the heading in docs/dialects/list.md above its config */
    const char *produce[3]; /* arguments of the producer */
    const char *work[3];    /* arguments of a worker that leaves delayed jobs to the sidecar */
    const char *native[3];  /* arguments of a worker that promotes delayed jobs itself */
    const char *env[3];
    const char *native_env[3];
    bool retries; /* a job that fails comes again, after a delay */
} story_t;

typedef struct {
    double due;      /* of the latest delay, in seconds */
    const char *hex; /* the job's bytes in Redis; borrowed from the lines */
    int delayed, taken, failed, done;
} job_t;

typedef struct {
    const story_t *story;
    cluster_t cluster;
    native_t native;
    child_t *workers[WORKERS], *promoter;
    char *queue; /* the group of the config; kept */
    size_t count;
    uint64_t seed;
} run_t;

static size_t jobs(void) {
    const char *set = getenv("QS_STORY_JOBS"), *stress = getenv("QS_LONG");
    if (set && *set) return strtoul(set, NULL, 10);
    return stress && stress[0] == '1' ? JOBS_LONG : JOBS;
}

/* The config that the page gives in this section. Kept. */
static char *config_of(const char *section) {
    char *page = temp_read("docs/dialects/list.md"), *at = strstr(page, kept_printf("\n%s\n", section));
    char *config = at ? strstr(at, "\n    {") : NULL, *end = config ? strstr(config, "}\n") : NULL;
    char *next = at ? strstr(at + 1, "\n#") : NULL;
    cr_assert(end && (!next || end < next), "docs/dialects/list.md has no config in section %s", section);
    end[1] = '\0';
    return config;
}

/* The name of a Redis key, from the config. Kept. */
static char *key_of(const char *queue, const char *setting) {
    const char *at = strstr(queue, kept_printf(" %s = \"", setting));
    cr_assert(at, "%s has no %s", queue, setting);
    at = strchr(at, '"') + 1;
    return kept_printf("%.*s", (int)strcspn(at, "\""), at);
}

static const char *kind_of(const story_t *story, size_t number) {
    if (story->retries && number % 20 == 3) return "flaky";
    return number % 7 ? "ok" : "slow";
}

/* The input of the producer, lines "DELAY_MS KIND NUMBER TEXT". One job of five is due at once. Kept. */
static char *lines_of(run_t *s, size_t from, size_t to) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(out);
    for (size_t i = from; i < to; i++) {
        unsigned long long delay = i % 5 ? cluster_random(&s->seed, DELAY_MS) : 0;
        fprintf(out, "%llu %s %zu caf\xc3\xa9 \"quoted\" \\ {\"n\": 12345678901234567890}\n", delay, kind_of(s->story, i), i);
    }
    fclose(out);
    return kept(text);
}

static int done(const run_t *s) { return native_count(&s->native, "done", NULL); }

static void stop(child_t *worker) {
    child_signal(worker, SIGTERM);
    cr_expect(child_wait(worker, ALL_MS) && worker->exit_code == 0, "a worker ended badly");
    child_free(worker);
}

/* Starts the workers. The library promotes the first part of the jobs without a sidecar. */
static run_t begin(const story_t *story) {
    run_t s = {.story = story, .count = jobs(), .queue = config_of(story->section), .seed = cluster_seed(story->client)};
    s.cluster = cluster_begin(&(server_options_t){.tcp = true});
    s.native = native_begin(story->client, s.cluster.server);
    for (int i = 0; i < WORKERS; i++) s.workers[i] = native_start(&s.native, story->work, story->env, NULL);
    s.promoter = native_start(&s.native, story->native, story->native_env, NULL);
    if (!wait_for(native_count(&s.native, "ready", NULL) == WORKERS + 1, ALL_MS))
        native_fail(&s.native, "the workers do not start");
    size_t first = s.count / (ROUNDS + 1);
    native_finish(&s.native, story->produce, story->env, lines_of(&s, 0, first));
    if (!wait_for(done(&s) == (int)first, ALL_MS)) native_fail(&s.native, "the library does not promote its jobs");
    for (int i = 0; i < 2; i++) cluster_sidecar(&s.cluster, (sidecar_t){.queues = s.queue});
    return s;
}

static void end(run_t *s) {
    for (int i = 0; i < WORKERS; i++) stop(s->workers[i]);
    native_end(&s->native);
    cluster_end(&s->cluster);
}

/* Produces another part of the jobs, and ends the leader meanwhile. The standby takes over; a new sidecar stands by. */
static void round_of(run_t *s, int round) {
    size_t from = s->count * (size_t)(round + 1) / (ROUNDS + 1), to = s->count * (size_t)(round + 2) / (ROUNDS + 1);
    daemon_t *leader = cluster_await_leader(&s->cluster, "g", NULL, ALL_MS);
    if (round == ROUNDS / 2) { /* bee-queue leaves a job in its active list if it stops while it takes one */
        if (!wait_for(done(s) == (int)from, ALL_MS)) cluster_fail(&s->cluster, "not every job came");
        stop(s->promoter);
    }
    int before = done(s);
    scoped(child_drop) child_t *producer = native_start(&s->native, s->story->produce, s->story->env, lines_of(s, from, to));
    if (!wait_for(done(s) >= before + (int)(to - from) / 5, ALL_MS)) cluster_fail(&s->cluster, "no job comes");
    if (round % 2)
        cr_expect_eq(daemon_terminate(leader, ALL_MS).code, 0);
    else
        daemon_kill(leader);
    cluster_sidecar(&s->cluster, (sidecar_t){.queues = s->queue});
    cr_assert(child_wait(producer, ALL_MS) && producer->exit_code == 0);
}

static bool is(const native_line_t *line, const char *word) { return strcmp(line->word, word) == 0; }

static void read_delay(job_t *job, const native_line_t *line) {
    char *rest;
    job->due = strtod(line->detail, &rest);
    job->hex = rest + 1;
}

static void read_line(job_t *job, const native_line_t *line) {
    job->failed += is(line, "failed");
    job->done += is(line, "done");
    if (is(line, "delayed")) {
        job->delayed++;
        read_delay(job, line);
    }
    if (!is(line, "taken")) return;
    job->taken++;
    cr_expect(job->hex && strcmp(line->detail, job->hex) == 0, "%s came in other bytes", line->key);
    cr_expect((double)(line->ms + 1) / 1e3 > job->due, "%s came at %lld ms, due at %f s", line->key, (long long)line->ms,
              job->due);
}

/* Each job came once, and once more if it failed. A library that gets a job early delays it again: none may have done that. */
static void expect_each_once(const run_t *s) {
    native_lines_t all = native_lines(&s->native);
    job_t *found = calloc(s->count, sizeof(*found));
    int delayed = 0, promoted = native_count(&s->native, "promoted", NULL);
    cr_assert(found);
    for (int pass = 0; pass < 2; pass++) /* a line `produced` may follow the first delivery */
        for (size_t i = 0; i < all.count; i++) {
            const char *dash = strchr(all.lines[i].key, '-');
            size_t number = dash ? strtoul(dash + 1, NULL, 10) : 0;
            if (!dash || !dash[1]) continue;
            cr_assert_lt(number, s->count);
            if (pass)
                read_line(&found[number], &all.lines[i]);
            else if (is(&all.lines[i], "produced"))
                read_delay(&found[number], &all.lines[i]);
        }
    for (size_t i = 0; i < s->count; i++) {
        int fails = strcmp(kind_of(s->story, i), "flaky") == 0;
        cr_expect(found[i].done == 1 && found[i].failed == fails && found[i].taken == 1 + fails,
                  "job %zu: taken %d times, failed %d, done %d", i, found[i].taken, found[i].failed, found[i].done);
        cr_expect_leq(found[i].delayed, (i % 5 > 0) + fails, "job %zu came early: delayed %d times", i, found[i].delayed);
        delayed += found[i].delayed;
    }
    if (promoted) cr_expect_lt(promoted, delayed, "the library promoted everything");
    fprintf(stderr, "%s: %zu jobs\n", s->story->client, s->count);
    free(found);
    native_free_lines(&all);
}

/* Runs a story. Returns the number of jobs that are done; must be jobs(). */
static size_t run_story(const story_t *story) {
    scoped(end) run_t s = begin(story);
    for (int i = 0; i < ROUNDS; i++) round_of(&s, i);
    char *delayed = key_of(s.queue, "delayed"), *ready = key_of(s.queue, "ready");
    if (!wait_for(done(&s) >= (int)s.count && redis_int(s.cluster.r, "ZCARD %s", delayed) == 0 &&
                      redis_int(s.cluster.r, "LLEN %s", ready) == 0,
                  ALL_MS))
        cluster_fail(&s.cluster, "not every job came");
    expect_each_once(&s);
    return (size_t)done(&s);
}

Test(daemon_clients_list, a_polling_loop) {
    story_t story = {
        .client = "delay_loop",
        .section = "## A zset of messages in seconds",
        .produce = {"produce", "delay-queue"},
        .work = {"work", "delay-queue:ready"},
        .native = {"poll", "delay-queue"},
    };
    cr_assert_eq(run_story(&story), jobs());
}

Test(daemon_clients_list, huey) {
    story_t story = {
        .client = "huey",
        .section = "### huey",
        .produce = {"produce", "app"},
        .work = {"work", "app"},
        .native = {"work", "app"},
        .env = {"TZ=UTC"},
        .native_env = {"TZ=UTC", "QS_NATIVE=on"},
        .retries = true,
    };
    cr_assert_eq(run_story(&story), jobs());
}

Test(daemon_clients_list, bee_queue) {
    story_t story = {
        .client = "bee_queue",
        .section = "### bee-queue",
        .produce = {"produce", "app"},
        .work = {"work", "app"},
        .native = {"work", "app"},
        .native_env = {"QS_NATIVE=on"},
        .retries = true,
    };
    cr_assert_eq(run_story(&story), jobs());
}

/* Delays a task of huey by an hour, in this time zone. Returns the worker, and the seconds until the score by Redis's clock. */
static child_t *delay_an_hour(const cluster_t *cluster, const native_t *native, const char *zone, long long *seconds) {
    const char *const env[] = {zone, NULL};
    redis_int(cluster->r, "DEL huey.schedule.app");
    child_t *worker = native_start(native, (const char *const[]){"work", "app", NULL}, env, NULL);
    native_finish(native, (const char *const[]){"produce", "app", NULL}, env, "3600000 ok 1 text\n");
    if (!wait_for(redis_int(cluster->r, "ZCARD huey.schedule.app") == 1, ALL_MS)) native_fail(native, "huey delays nothing");
    *seconds = redis_int(cluster->r, "EVAL %s 0",
                         "local score = redis.call('ZRANGE', 'huey.schedule.app', 0, 0, 'WITHSCORES')[2] "
                         "return math.floor(score - redis.call('TIME')[1])");
    return worker;
}

/* The trap that the page names. The zone needs no tzdata: nine hours east. */
Test(daemon_clients_list, huey_outside_of_utc_has_the_task_handed_to_and_fro) {
    enum { HOUR = 3600, SOME = 600 };
    long long seconds;
    scoped(cluster_end) cluster_t cluster = cluster_begin(&(server_options_t){.tcp = true});
    scoped(native_end) native_t native = native_begin("huey", cluster.server);
    stop(delay_an_hour(&cluster, &native, "TZ=UTC", &seconds));
    cr_expect(llabs(seconds - HOUR) < SOME, "the score is in %lld s", seconds);
    child_t *worker = delay_an_hour(&cluster, &native, "TZ=JST-9", &seconds);
    cr_expect(llabs(seconds + 8 * HOUR) < SOME, "the score is in %lld s", seconds);
    int before = native_count(&native, "delayed", NULL);
    cluster_sidecar_up(&cluster, (sidecar_t){.queues = config_of("### huey")});
    if (!wait_for(native_count(&native, "delayed", NULL) >= before + 10, ALL_MS))
        cluster_fail(&cluster, "worker and sidecar do not hand the task to and fro");
    cr_expect_eq(native_count(&native, "taken", NULL), 0);
    stop(worker);
}
