#include "base/buffer.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "config/literal.h"
#include "dialects/kmqueue/internal.h"
#include "dialects/kmqueue/task.h"
#include "redis/reply.h"

enum {
    MAX_OTHERS = 64, // backup lists of other names
    MAX_MS = 500,    // of the walk through all keys
    HEAD = 8,        // entries that are read of each of these lists
};

// A manager makes the name of its backup list from the names of its queues, in its order. If `queues` differs, the sidecar
// watches a list that nobody fills, and the tasks of dead workers stay in another list.
typedef struct survey {
    const call_t *call;
    survey_report_fn *report;
    void *self;
    strings_t others; // backup lists that no queue of the config has
    bool *explained;  // of each queue: a result names the list that its workers use
} survey_t;

static const queue_config_t *survey_queue(const survey_t *survey, size_t i) {
    const queue_config_t *queue = survey->call->keys->queues[i].config;
    return queue->dialect == &kmqueue_settings ? queue : NULL;
}

__attribute__((format(printf, 4, 5))) static void survey_say(const survey_t *survey, bool lost, size_t queue, const char *format,
                                                             ...) {
    buffer_t text = {0};
    va_list args;
    va_start(args, format);
    buffer_vprintf(&text, format, args);
    va_end(args);
    survey->report(survey->self, lost, queue, buffer_text(&text));
    buffer_free(&text);
}

// Quoted and escaped: other programs have made these names. Owned.
static char *survey_quote(slice_t name) {
    buffer_t out = {0};
    json_write_string(&out, name);
    return out.data;
}

static void survey_add_other(survey_t *survey, const char *name) {
    const keyspace_t *keys = survey->call->keys;
    bool configured = strings_has(&survey->others, name); // SCAN may return a key twice
    for (size_t i = 0; i < keys->queue_count; i++) configured |= strcmp(keys->queues[i].config->backup, name) == 0;
    if (!configured && survey->others.count < MAX_OTHERS) strings_add(&survey->others, name);
}

// Ends without a result if Redis refuses SCAN: the preflight names this right. In a large database the walk may end early.
static outcome_t survey_find_others(survey_t *survey) {
    static const char pattern[] = KMQUEUE_BACKUP "*";
    redis_error_t refusal = {0};
    char cursor[24] = "0";
    mono_t end = mono_add(mono_now(), MAX_MS * NS_PER_MS);
    do {
        request_append(survey->call->conn, "SCAN", cursor, "MATCH", pattern, "COUNT", "1000", "TYPE", "list");
        redisReply *reply = conn_read_or_refusal(survey->call->conn, &refusal, survey->call->error);
        const redisReply *names = reply_at(reply, 1);
        for (size_t i = 0; reply_at(names, i); i++) survey_add_other(survey, reply_text(reply_at(names, i)));
        snprintf(cursor, sizeof cursor, "%s", reply_text(reply_at(reply, 0)));
        conn_reply_free(reply);
    } while (*cursor && strcmp(cursor, "0") != 0 && !mono_reached(end, mono_now()));
    return survey->call->error->outcome;
}

// Reports which queue owns the list, by its first task. Ignores a list that has only a marker.
static void survey_explain(survey_t *survey, const char *other, const redisReply *entries) {
    char *name = survey_quote(slice_text(other));
    kmqueue_task_t task;
    size_t n = 0, at;
    while (reply_at(entries, n) && (kmqueue_is_marker(reply_slice(reply_at(entries, n)), other) ||
                                    !kmqueue_task_read(reply_slice(reply_at(entries, n)), &task)))
        n++;
    bool found = false;
    for (size_t i = 0; reply_at(entries, n) && i < survey->call->keys->queue_count; i++) {
        const queue_config_t *queue = survey_queue(survey, i);
        if (!queue || !kmqueue_find_list(&kmqueue_config(queue)->lists, task.queue, &at)) continue;
        found = survey->explained[i] = true;
        survey_say(survey, true, i,
                   "the workers of its list \"%s\" use the backup list %s, not \"%s\": give `queues` all names of their "
                   "KMQueueManager, in the same order; until then nobody gives back the tasks of dead workers",
                   kmqueue_config(queue)->lists.items[at], name, queue->backup);
    }
    if (!found && reply_at(entries, n)) {
        char *list = survey_quote(task.queue);
        survey_say(survey, false, SIZE_MAX,
                   "no queue of this config has the backup list %s, which has tasks of the list %s: add a queue for them, unless "
                   "another group serves them",
                   name, list);
        free(list);
    }
    free(name);
}

static outcome_t survey_read_others(survey_t *survey) {
    char last[12];
    snprintf(last, sizeof last, "%d", HEAD - 1);
    for (size_t i = 0; i < survey->others.count; i++)
        request_append(survey->call->conn, "LRANGE", survey->others.items[i], "0", last);
    for (size_t i = 0; i < survey->others.count; i++) {
        redis_error_t refusal;
        conn_expect_job(survey->call->conn);
        redisReply *reply = conn_read_or_refusal(survey->call->conn, &refusal, survey->call->error);
        if (reply) survey_explain(survey, survey->others.items[i], reply);
        conn_reply_free(reply);
    }
    return survey->call->error->outcome;
}

// KMQueueManager makes its backup list when it starts, and the marker keeps the list (RedisBackupQueue.java, initQueue).
static void survey_report_absent(const survey_t *survey, size_t i, bool waiting) {
    const queue_config_t *queue = survey_queue(survey, i);
    char *name = survey->others.count ? survey_quote(slice_text(survey->others.items[0])) : NULL;
    char *there = name ? mem_printf("; Redis has %s", name) : mem_str("");
    if (waiting)
        survey_say(
            survey, true, i,
            "tasks wait, but the backup list \"%s\" does not exist, which a KMQueueManager with these `queues` makes when it "
            "starts: give `queues` all names of the manager, in the same order; until then nobody gives back the tasks of "
            "dead workers%s",
            queue->backup, there);
    else
        survey_say(survey, false, i,
                   "its backup list \"%s\" does not exist: no KMQueueManager with exactly these `queues`, in this order, has "
                   "started yet%s",
                   queue->backup, there);
    free(there);
    free(name);
}

static outcome_t survey_find_absent(const survey_t *survey) {
    const call_t *call = survey->call;
    redis_error_t refusal;
    for (size_t i = 0; i < call->keys->queue_count; i++) {
        const queue_config_t *queue = survey_queue(survey, i);
        if (!queue) continue;
        request_append(call->conn, "EXISTS", queue->backup);
        request_begin(call->conn, "EXISTS");
        for (size_t l = 0; l < kmqueue_config(queue)->lists.count; l++)
            request_text(call->conn, kmqueue_config(queue)->lists.items[l]);
        request_end(call->conn);
    }
    for (size_t i = 0; i < call->keys->queue_count; i++) {
        if (!survey_queue(survey, i)) continue;
        redisReply *backup = conn_read_or_refusal(call->conn, &refusal, call->error);
        redisReply *lists = conn_read_or_refusal(call->conn, &refusal, call->error);
        if (backup && reply_int(backup) == 0 && !survey->explained[i]) survey_report_absent(survey, i, reply_int(lists) > 0);
        conn_reply_free(backup);
        conn_reply_free(lists);
    }
    return call->error->outcome;
}

outcome_t kmqueue_survey(const call_t *call, survey_report_fn *report, void *self) {
    survey_t survey = {.call = call, .report = report, .self = self};
    survey.explained = mem_array(call->keys->queue_count, sizeof *survey.explained);
    *call->error = (redis_error_t){0};
    outcome_t outcome = survey_find_others(&survey);
    if (outcome == OUTCOME_OK) outcome = survey_read_others(&survey);
    if (outcome == OUTCOME_OK) outcome = survey_find_absent(&survey);
    strings_free(&survey.others);
    free(survey.explained);
    return outcome;
}
