// The preflight of delayedQueue: each script of its own, through each branch with a command of its own, on scratch keys.
#include <stdlib.h>

#include "base/buffer.h"
#include "dialects/delayed_queue/config.h"
#include "dialects/delayed_queue/internal.h"
#include "dialects/delayed_queue/scripts.h"
#include "dialects/requeue.h"
#include "queue/quarantine.h"
#include "queue/scripts.h"

enum { SCRATCH_TTL_MS = 60000, SCRATCH_BATCH = 3 };

#define CLASS      "scratch"
#define ENVELOPE_1 "{\"payload\":{},\"type\":\"" CLASS "\",\"attempt\":1,\"logContext\":{}}"
#define ENVELOPE_2 "{\"payload\":{},\"type\":\"" CLASS "\",\"attempt\":2,\"logContext\":{}}"

// A queue of this dialect on the scratch keys.
typedef struct scene {
    const dryrun_room_t *room;
    char *events, *list, *class; // owned
    delay_step_t step;
    delayed_config_t own;  // borrows
    queue_config_t config; // borrows
    queue_keys_t queue;
    keyspace_t keys;
} scene_t;

static void scene_init(scene_t *scene, const dryrun_room_t *room) {
    *scene = (scene_t){.room = room,
                       .events = mem_printf("%sevents", room->prefix),
                       .list = mem_printf("%slist", room->prefix),
                       .class = mem_str(CLASS),
                       .step = {.below = INT64_MAX, .delay_ms = SCRATCH_TTL_MS},
                       .config = *room->keys->queues[0].config,
                       .queue = room->keys->queues[0],
                       .keys = *room->keys};
    scene->own = (delayed_config_t){.events = scene->events,
                                    .retry_attempts = 2,
                                    .lists = {.items = &scene->list, .count = 1},
                                    .classes = {.items = &scene->class, .count = 1},
                                    .delays = {.items = &scene->step, .count = 1}};
    scene->config.own = &scene->own;
    scene->queue.config = &scene->config;
    scene->keys.queues = &scene->queue;
}

static void scene_clear(scene_t *scene) {
    free(scene->events);
    free(scene->list);
    free(scene->class);
}

// One command, then a TTL for its key. What is refused here is found again by the scripts; only a lost connection counts.
static bool lay(scene_t *scene, const char *command, const char *key, const char *one, const char *two) {
    conn_t *conn = scene->room->conn;
    request_begin(conn, command);
    request_text(conn, key);
    request_text(conn, one);
    request_text(conn, two);
    request_end(conn);
    request_begin(conn, "PEXPIRE");
    request_text(conn, key);
    request_int(conn, SCRATCH_TTL_MS);
    request_end(conn);
    for (int i = 0; i < 2; i++) {
        struct redisReply *reply;
        redis_error_t error;
        outcome_t outcome = conn_read(conn, 0, &reply, &error);
        conn_reply_free(reply);
        if (outcome == OUTCOME_DISCONNECTED) {
            *scene->room->error = error;
            return scene->room->passed(scene->room, &script_delayed_promote, outcome);
        }
    }
    return true;
}

// Three that are due: one is sent, one has no envelope, one is put aside.
static bool try_promote(scene_t *scene) {
    const dryrun_room_t *room = scene->room;
    const char *delayed = scene->config.delayed;
    promote_reply_t reply;
    bool laid = lay(scene, "ZADD", delayed, "1", CLASS "###1") && lay(scene, "ZADD", delayed, "2", CLASS "###2") &&
                lay(scene, "ZADD", delayed, "3", CLASS "###3") && lay(scene, "HSET", scene->events, CLASS "###1", ENVELOPE_1) &&
                lay(scene, "HSET", scene->events, CLASS "###2", "odd");
    if (!laid) return false;
    delayed_promote.append(room->conn, &scene->keys,
                           &(promote_ask_t){.token = room->token, .batch = SCRATCH_BATCH, .first = SCRATCH_BATCH});
    return room->passed(room, &script_delayed_promote, delayed_promote.read(room->conn, &reply, room->error)) &&
           lay(scene, "ZADD", scene->queue.aside, "1", "scratch") && lay(scene, "LPUSH", scene->list, "scratch", "scratch");
}

// Each verdict on a member of its own, whose score and envelope are known.
static bool try_aside(scene_t *scene) {
    static const aside_verdict_t verdicts[] = {ASIDE_FORGET, ASIDE_PUSH, ASIDE_END};
    const dryrun_room_t *room = scene->room;
    const event_t event = {.kind = slice_text("scratch")};
    aside_page_t page;
    const call_t call = {room->conn, &scene->keys, 0, room->token, room->error};
    outcome_t outcome = aside_read(&call, scene->events, 0, false, &page);
    aside_page_free(&page);
    if (!room->passed(room, &script_aside, outcome)) return false;
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
        aside_job_t job = {.member = slice_text(CLASS "###4"), .score = "4", .envelope = slice_text(ENVELOPE_1)};
        settled_t settled;
        if (!lay(scene, "ZADD", scene->config.delayed, job.score, CLASS "###4") ||
            !lay(scene, "HSET", scene->events, CLASS "###4", ENVELOPE_1) ||
            !lay(scene, "ZADD", scene->queue.aside, "1", CLASS "###4"))
            return false;
        aside_settle_append(&call, &(aside_ask_t){.job = &job,
                                                  .verdict = verdicts[i],
                                                  .events = scene->events,
                                                  .ready = scene->list,
                                                  .next = slice_text(ENVELOPE_2),
                                                  .delay_ms = SCRATCH_TTL_MS,
                                                  .event = &event});
        if (!room->passed(room, &script_aside_settle, settle_read(room->conn, &settled, room->error))) return false;
    }
    return true;
}

// A full Redis refuses it, which is no fault of these rights.
static bool try_requeue(scene_t *scene) {
    const dryrun_room_t *room = scene->room;
    const digest_t digest = digest_of("delayed_queue", 13);
    const requeue_where_t where = {.mark_id = slice_text(CLASS "###5"), .job = slice_text(ENVELOPE_1)};
    requeue_reply_t reply;
    char id[DIGEST_HEX_SIZE];
    digest_hex(&digest, id);
    const event_t event = {.kind = slice_text("scratch"), .answers = slice_text(id)};
    delayed_requeue.append(room->conn, &scene->keys, &(requeue_ask_t){.by = "preflight", .record = &event}, &where);
    outcome_t outcome = requeue_read(room->conn, &reply, room->error);
    if (outcome == OUTCOME_RETRY && strncmp(room->error->text, "OOM", 3) == 0) outcome = OUTCOME_OK;
    if (outcome == OUTCOME_OK && reply.kind == REQUEUE_FAILED)
        outcome = redis_error_set(room->error, OUTCOME_REFUSED, "%s", reply.why);
    return room->passed(room, &script_delayed_requeue, outcome);
}

bool delayed_dry_run(const dryrun_room_t *room) {
    scene_t scene;
    scene_init(&scene, room);
    bool goes_on = try_promote(&scene) && try_aside(&scene) && try_requeue(&scene);
    scene_clear(&scene);
    return goes_on;
}
