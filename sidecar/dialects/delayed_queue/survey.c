// Tells of events that the sidecar cannot send, and of the library's own scheduler.
#include "base/json/json.h"
#include "config/literal.h"
#include "dialects/delayed_queue/internal.h"
#include "redis/reply.h"

enum {
    HEAD = 500,                         // members that are read of each zset
    MAX_CLASSES = 8,                    // classes that are reported of one queue
    MAX_SHOWN = 256,                    // bytes of a class
    SCHEDULER_VALID_MS = 5 * 60 * 1000, // a field DELAYED_SCHEDULER that is older says nothing
};

typedef struct survey {
    const call_t *call;
    survey_report_fn *report;
    void *self;
    size_t queue;
    strings_t classes; // reported, as far as they are no part of `types`
} survey_t;

static bool survey_separates(char byte) { return byte == '.' || byte == '$'; }

// Class.getName writes a $ between a class and its nested class, where people write a dot.
static const char *survey_find_slip(const delayed_config_t *own, slice_t class) {
    for (size_t i = 0; i < own->classes.count; i++) {
        const char *name = own->classes.items[i];
        size_t same = 0;
        while (same < class.len && name[same] &&
               (name[same] == class.data[same] || (survey_separates(name[same]) && survey_separates(class.data[same]))))
            same++;
        if (same == class.len && !name[same]) return name;
    }
    return NULL;
}

static void survey_report_class(survey_t *survey, slice_t class) {
    const delayed_config_t *own = delayed_config(survey->call->keys->queues[survey->queue].config);
    const char *slip = survey_find_slip(own, class);
    buffer_t text = {0};
    buffer_str(&text, "events of the class ");
    json_write_string(&text, class);
    buffer_str(&text, " wait, and `types` does not have it: ");
    if (slip)
        buffer_printf(&text, "write it instead of \"%s\" (Class.getName writes $ before the name of a nested class)", slip);
    else
        buffer_str(&text, "add it");
    buffer_str(&text, "; when they are due, they end as invalid_target after protected_timeout");
    survey->report(survey->self, true, survey->queue, buffer_text(&text));
    buffer_free(&text);
}

static void survey_read_members(survey_t *survey, const redisReply *members) {
    const delayed_config_t *own = delayed_config(survey->call->keys->queues[survey->queue].config);
    for (size_t i = 0; reply_at(members, i) && survey->classes.count < MAX_CLASSES; i++) {
        size_t index;
        slice_t class = slice_cut(delayed_name(reply_slice(reply_at(members, i))).class, MAX_SHOWN);
        if (class.len == 0 || delayed_class(own, class, &index)) continue;
        char *name = mem_printf("%.*s", (int)class.len, class.data);
        bool known = strings_has(&survey->classes, name);
        if (!known) strings_add(&survey->classes, name);
        if (!known) survey_report_class(survey, class);
        free(name);
    }
}

static void survey_read_scheduler(const survey_t *survey, const redisReply *seen, int64_t now_ms) {
    const queue_config_t *queue = survey->call->keys->queues[survey->queue].config;
    if (!seen || llabs(now_ms - reply_number(seen)) > SCHEDULER_VALID_MS) return;
    char *text = mem_printf("the scheduler of delayedQueue runs too (it sets \"%sdelayed_events_lock\"), so events come twice: "
                            "set schedulingInterval(Duration.ofDays(36500)) in the application",
                            queue->prefix);
    survey->report(survey->self, true, survey->queue, text);
    free(text);
}

static void survey_append(const call_t *call, size_t queue) {
    const queue_keys_t *keys = &call->keys->queues[queue];
    const char *const zsets[] = {keys->quarantine, keys->config->delayed};
    for (size_t i = 0; i < 2; i++) {
        request_begin(call->conn, "ZRANGE", zsets[i]);
        request_int(call->conn, 0, HEAD - 1);
        request_end(call->conn);
    }
    request_append(call->conn, "HGET", keys->meta, DELAYED_SCHEDULER);
    request_append(call->conn, "TIME");
}

// Ignores refusals: the preflight names each key of the wrong type, and each missing right.
static void survey_read(survey_t *survey) {
    redis_error_t refusal;
    redisReply *replies[4];
    for (size_t i = 0; i < 4; i++) {
        conn_expect_job(survey->call->conn);
        replies[i] = conn_read_or_refusal(survey->call->conn, &refusal, survey->call->error);
    }
    survey_read_members(survey, replies[0]);
    survey_read_members(survey, replies[1]);
    if (replies[3]) survey_read_scheduler(survey, replies[2], reply_time_ms(replies[3]));
    for (size_t i = 0; i < 4; i++) conn_reply_free(replies[i]);
    strings_free(&survey->classes);
}

outcome_t delayed_survey(const call_t *call, survey_report_fn *report, void *self) {
    const keyspace_t *keys = call->keys;
    *call->error = (redis_error_t){0};
    for (size_t i = call->queue; i < keys->queue_count; i++)
        if (keys->queues[i].config->dialect == &delayed_settings) survey_append(call, i);
    for (size_t i = call->queue; i < keys->queue_count; i++)
        if (keys->queues[i].config->dialect == &delayed_settings)
            survey_read(&(survey_t){.call = call, .report = report, .self = self, .queue = i});
    return call->error->outcome;
}
