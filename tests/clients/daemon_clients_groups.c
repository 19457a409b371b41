/* Dialect stream with real workers: those of docs/dialects/stream.md as they are there, and taskiq-redis. */
#include "audit_log.h"
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <signal.h>

TestSuite(daemon_clients_groups, .timeout = 300);

enum { ALL_MS = 120000, MOST_WORKERS = 8 };

typedef struct {
    cluster_t cluster;
    native_t native;
    child_t *workers[MOST_WORKERS];
    size_t count;
} story_t;

#define await(story, cond, ms)                                                                                                   \
    do {                                                                                                                         \
        if (!wait_for(cond, ms)) {                                                                                               \
            fprintf(stderr, "still false: %s\n", #cond);                                                                         \
            native_fail(&(story)->native, "the story does not end");                                                             \
        }                                                                                                                        \
    } while (0)

static story_t begin(const char *client) {
    story_t story = {.cluster = cluster_begin(&(server_options_t){.tcp = true})};
    story.native = native_begin(client, story.cluster.server);
    return story;
}

static void end(story_t *story) {
    for (size_t i = 0; i < story->count; i++) {
        child_signal(story->workers[i], SIGTERM);
        cr_expect(child_wait(story->workers[i], 30000), "a worker does not end at SIGTERM");
        child_free(story->workers[i]);
    }
    native_end(&story->native);
    cluster_end(&story->cluster);
}

static void work(story_t *story, const char *program) { story->workers[story->count++] = native_run(&story->native, program); }

static void kill_worker(story_t *story, size_t number) {
    child_kill(story->workers[number]);
    child_free(story->workers[number]);
    story->workers[number] = story->workers[--story->count];
}

/* Counts the lines of a file of the handler, or those with this job. */
static int lines(const story_t *story, const char *file, const char *job) {
    char *path = temp_path(story->native.dir, file), *text = temp_read(path), *hex = NULL;
    int count = 0;
    if (job) {
        size_t len = strlen(job);
        hex = calloc(1, 2 * len + 1);
        for (size_t i = 0; i < len; i++) snprintf(hex + 2 * i, 3, "%02x", (unsigned char)job[i]);
    }
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) count += *line && (!hex || strcmp(line, hex) == 0);
    free(hex);
    free(path);
    free(text);
    return count;
}

static long long pending(story_t *story, const char *stream, const char *group) {
    return redis_int(story->cluster.r, "EVAL %s 1 %s %s", "return redis.call('XPENDING', KEYS[1], ARGV[1])[1]", stream, group);
}

#define MAIL(more) "{ name = \"mail\"; dialect = \"stream\"; group = \"workers\"; " more " }"

/* Workers fail, die and hang; sidecars die. Each job ends, and each final failure has a record. */
static void tell_mail(const char *client, bool has_die) {
    enum { OK = 120, FLAKY = 5, POISON = 3, HOPELESS = 3, HANG = 2 };
    story_t story = begin(client);
    cluster_t *s = &story.cluster;
    const sidecar_t spec = {.queues = MAIL("protected_timeout = \"2s\"; retry_times = 2;"), .scan = "100ms", .all_roles = true};
    daemon_t *leader = cluster_sidecar_up(s, spec);
    cluster_sidecar(s, spec);
    for (int i = 0; i < 3; i++) work(&story, "worker");
    await(&story, redis_int(s->r, "EXISTS mail") == 1, ALL_MS);
    for (int i = 0; i < OK; i++)
        if (i % 2)
            redis_ok(s->r, "XADD mail * data %s", kept_printf("ok %d caf\xc3\xa9", i));
        else
            redis_ok(s->r, "ZADD mail:delayed %lld %s", redis_ms(s->r) + 10 * i, kept_printf("ok %d caf\xc3\xa9", i));
    static const struct {
        const char *kind;
        int count;
    } kinds[] = {{"flaky", FLAKY}, {"poison", POISON}, {"hopeless", HOPELESS}, {"hang", HANG}, {"die", 1}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; i < kinds[k].count && (has_die || strcmp(kinds[k].kind, "die") != 0); i++)
            redis_ok(s->r, "XADD mail * data %s", kept_printf("%s %s%d x", kinds[k].kind, kinds[k].kind, i));
    await(&story, lines(&story, "done", NULL) >= 20, ALL_MS);
    daemon_kill(leader);
    cluster_sidecar(s, spec);
    work(&story, "worker"); /* in place of those that hang */
    work(&story, "worker");
    await(&story, lines(&story, "hangs", NULL) == HANG, ALL_MS);
    int ended = OK + FLAKY + HANG + has_die;
    await(&story, lines(&story, "done", NULL) >= ended, ALL_MS);
    await(&story, redis_int(s->r, "XLEN mail") == 0 && redis_int(s->r, "EXISTS mail:errors mail:delayed") == 0, ALL_MS);
    for (int i = 0; i < OK; i++) cr_expect_geq(lines(&story, "done", kept_printf("ok %d caf\xc3\xa9", i)), 1, "ok %d is lost", i);
    for (int i = 0; i < POISON; i++)
        cr_expect_eq(lines(&story, "runs", kept_printf("poison poison%d x", i)), 3, "a job runs 1 + retry_times times");
    for (int i = 0; i < HOPELESS; i++)
        cr_expect_eq(lines(&story, "runs", kept_printf("hopeless hopeless%d x", i)), 1, "! forbids retries");
    await(&story, audit_log_rows(daemon_audit_path(cluster_leader(s, "g"))) == POISON + HOPELESS, ALL_MS);
    while (story.count > 0) kill_worker(&story, 0); /* some of them hang */
    end(&story);
}

Test(daemon_clients_groups, python_worker_of_the_page) { tell_mail("stream_python", true); }
Test(daemon_clients_groups, go_worker_of_the_page) { tell_mail("stream_go", false); }

/* A worker is killed; a second group appears; the stream is trimmed and deleted. A worker of the page goes on after each. */
Test(daemon_clients_groups, python_worker_survives_changes_of_the_stream) {
    story_t story = begin("stream_python");
    cluster_t *s = &story.cluster;
    cluster_sidecar_up(
        s, (sidecar_t){.queues = MAIL("protected_timeout = \"1s\"; retry_times = 9;"), .scan = "100ms", .all_roles = true});
    work(&story, "worker");
    await(&story, redis_int(s->r, "EXISTS mail") == 1, ALL_MS);
    redis_ok(s->r, "XADD mail * data %s", "wait 1 x");
    await(&story, lines(&story, "runs", NULL) == 1, ALL_MS);
    kill_worker(&story, 0);
    redis_ok(s->r, "XGROUP CREATE mail audit $");
    cr_expect(cluster_stays(pending(&story, "mail", "workers") == 1, 2500), "a copy would reach the other group");
    redis_ok(s->r, "XGROUP DESTROY mail audit");
    work(&story, "worker");
    await(&story, lines(&story, "runs", NULL) == 2, ALL_MS); /* the copy */
    char *go = temp_path(story.native.dir, "go");
    temp_write(go, "");
    await(&story, redis_int(s->r, "XLEN mail") == 0, ALL_MS);
    unlink(go);
    redis_ok(s->r, "XADD mail * data %s", "wait 2 x");
    await(&story, pending(&story, "mail", "workers") == 1, ALL_MS);
    redis_ok(s->r, "XTRIM mail MAXLEN 0"); /* the entry of a living worker */
    await(&story, pending(&story, "mail", "workers") == 0, ALL_MS);
    redis_ok(s->r, "DEL mail");
    redis_ok(s->r, "ZADD mail:delayed 1 %s", "ok 3 x");
    temp_write(go, "");
    await(&story, lines(&story, "done", "ok 3 x") == 1, ALL_MS); /* the worker has made the group again */
    free(go);
    end(&story);
}

/* Adds `ok` and `die` jobs by the client's own producer. Each second job of kind ok is delayed, if the client can. */
static void produce(story_t *story, int ok, int die, int delay_ms) {
    char *in = NULL;
    size_t size;
    FILE *out = open_memstream(&in, &size);
    cr_assert(out);
    for (int i = 0; i < ok; i++) fprintf(out, "%d ok %d caf\xc3\xa9\n", i % 2 ? delay_ms : 0, i);
    for (int i = 0; i < die; i++) fprintf(out, "0 die %d x\n", i);
    fclose(out);
    native_finish(&story->native, (const char *const[]){"produce", NULL}, NULL, in);
    free(in);
}

static void forget_dead_workers(story_t *story) {
    for (size_t i = 0; i < story->count;) {
        if (child_wait(story->workers[i], 0))
            kill_worker(story, i);
        else
            i++;
    }
}

/* taskiq acknowledges and never deletes. Its own recovery would come after an hour. */
Test(daemon_clients_groups, taskiq_redis) {
    enum { OK = 100, DIE = 3 };
    story_t story = begin("taskiq");
    cluster_t *s = &story.cluster;
    cluster_sidecar_up(
        s, (sidecar_t){.queues = "{ name = \"taskiq\"; dialect = \"stream\"; group = \"taskiq\"; protected_timeout = \"2s\"; }",
                       .scan = "100ms",
                       .all_roles = true});
    for (int i = 0; i <= DIE; i++) work(&story, "work"); /* one more than deaths */
    produce(&story, OK, DIE, 0);
    await(&story, native_count(&story.native, "done", NULL) >= OK + DIE, ALL_MS);
    for (int i = 0; i < DIE; i++) cr_expect_geq(native_count(&story.native, "done", kept_printf("die-%d", i)), 1);
    await(&story, pending(&story, "taskiq", "taskiq") == 0, ALL_MS);
    cr_expect_eq(redis_int(s->r, "XLEN sidecar:taskiq:failures"), DIE, "each job of a dead worker must be retried once");
    cr_expect_eq(redis_int(s->r, "XLEN taskiq"), OK + DIE);
    forget_dead_workers(&story);
    end(&story);
}

/* Symfony's workers and the sidecar both promote. A worker that is late gets an error, and the copy runs, too. */
static void tell_symfony(const char *client) {
    enum { OK = 60, DIE = 2 };
    story_t story = begin(client);
    cluster_t *s = &story.cluster;
    cluster_sidecar_up(
        s, (sidecar_t){.queues = "{ name = \"messages\"; dialect = \"stream\"; group = \"symfony\"; field = \"message\"; "
                                 "delayed = \"messages__queue\"; protected_timeout = \"2s\"; }",
                       .scan = "100ms",
                       .all_roles = true});
    for (int i = 0; i <= DIE; i++) work(&story, "work");
    produce(&story, OK, DIE, 300);
    await(&story, native_count(&story.native, "done", NULL) >= OK + DIE, ALL_MS);
    for (int i = 0; i < OK; i++)
        cr_expect_geq(native_count(&story.native, "done", kept_printf("ok-%d", i)), 1, "ok-%d is lost", i);
    for (int i = 0; i < DIE; i++) cr_expect_geq(native_count(&story.native, "done", kept_printf("die-%d", i)), 1);
    await(&story, redis_int(s->r, "XLEN messages") == 0 && redis_int(s->r, "EXISTS messages__queue") == 0, ALL_MS);
    cr_expect_eq(redis_int(s->r, "XLEN sidecar:messages:failures"), DIE);
    native_finish(&story.native, (const char *const[]){"produce", NULL}, NULL, "0 wait 1 x\n");
    await(&story, native_count(&story.native, "taken", "wait-1") >= 2 || redis_int(s->r, "XLEN sidecar:messages:failures") > DIE,
          ALL_MS);
    char *go = temp_path(story.native.dir, "go");
    temp_write(go, "");
    await(&story, native_count(&story.native, "late", "wait-1") >= 1, ALL_MS);
    await(&story, redis_int(s->r, "XLEN messages") == 0, ALL_MS);
    free(go);
    forget_dead_workers(&story);
    end(&story);
}

Test(daemon_clients_groups, symfony_messenger_5) { tell_symfony("symfony"); }
Test(daemon_clients_groups, symfony_messenger_6) { tell_symfony("symfony6"); }
