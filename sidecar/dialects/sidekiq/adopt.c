// Whether the keys of a queue are of a Sidekiq that the sidecar knows.
#include "base/json/json.h"
#include "config/literal.h"
#include "dialects/sidekiq/internal.h"
#include "redis/reply.h"

enum {
    OLDEST_MAJOR = 6,
    NEWEST_MAJOR = 8,
    PROCESSES = 64, // that a look asks for their version
    SHOWN_MAX = 64, // bytes of a version in a message
};

// The newest minor of each major that the tests know.
static const int64_t tested_minors[] = {[6] = 5, [7] = 3, [8] = 1};

typedef struct version {
    char text[SHOWN_MAX + 1]; // "" = the process tells none: it is older than 7.3
    int64_t major, minor;
    bool known; // Sidekiq before 6.4 has no rtt_us
} version_t;

static void version_read(const redisReply *process, version_t *out) {
    json_pick_t pick = {.pointer = "/version"};
    *out = (version_t){.known = reply_len(reply_at(process, 1)) > 0};
    if (!json_pick(reply_slice(reply_at(process, 0)), &pick, 1) || pick.found != JSON_FOUND) return;
    if (!json_copy_text(pick.value.raw, out->text, SHOWN_MAX)) return;
    out->known = sscanf(out->text, "%9" SCNd64 ".%9" SCNd64, &out->major, &out->minor) == 2 && out->major >= OLDEST_MAJOR &&
                 out->major <= NEWEST_MAJOR;
}

// Calls `each` for the version of each process, until it returns false. Sidekiq drops the name of a process that is gone.
static outcome_t adopt_each_process(const call_t *call, const queue_keys_t *at,
                                    bool (*each)(void *self, const char *process, const version_t *version), void *self) {
    request_append(call->conn, "SSCAN", sidekiq_config(at->config)->processes, "0");
    redisReply *page = conn_read_next(call->conn, NULL, call->error);
    const redisReply *names = reply_at(page, 1);
    size_t asked = names && names->type == REDIS_REPLY_ARRAY && call->error->outcome == OUTCOME_OK ? names->elements : 0;
    if (asked > PROCESSES) asked = PROCESSES;
    for (size_t i = 0; i < asked; i++) {
        slice_t name = reply_slice(names->element[i]);
        buffer_t key = {0};
        buffer_str(&key, at->config->prefix);
        buffer_add(&key, name.data, name.len);
        request_begin(call->conn, "HMGET");
        request_bytes(call->conn, key.data, key.len);
        request_text(call->conn, "info", "rtt_us");
        request_end(call->conn);
        buffer_free(&key);
    }
    bool more = true;
    for (size_t i = 0; i < asked; i++) {
        redis_error_t refusal;
        version_t version;
        redisReply *process = conn_read_or_refusal(call->conn, &refusal, call->error);
        if (more && process && reply_len(reply_at(process, 0))) {
            version_read(process, &version);
            more = each(self, reply_text(names->element[i]), &version);
        }
        conn_reply_free(process);
    }
    conn_reply_free(page);
    return call->error->outcome;
}

static bool adopt_check(void *refusal, const char *process, const version_t *version) {
    if (version->known) return true;
    buffer_str(refusal, "the process ");
    json_write_string(refusal, slice_text(process));
    buffer_str(refusal, " is of Sidekiq ");
    if (*version->text)
        json_write_string(refusal, slice_text(version->text));
    else
        buffer_str(refusal, "before 6.4");
    buffer_str(refusal, ": dialect sidekiq serves Sidekiq 6.4 to 8");
    return false;
}

// Each push of Sidekiq adds the name of the queue to its set of queues (lib/sidekiq/client.rb, atomic_push).
outcome_t sidekiq_adopt(const call_t *call, buffer_t *refusal) {
    const queue_keys_t *at = call_queue(call);
    const sidekiq_config_t *own = sidekiq_config(at->config);
    *call->error = (redis_error_t){0};
    request_append(call->conn, "SCARD", own->names);
    for (size_t i = 0; i < own->lists.count; i++) request_append(call->conn, "LLEN", own->lists.items[i]);
    int64_t names = conn_read_int(call->conn, own->names, call->error);
    for (size_t i = 0; i < own->lists.count; i++) {
        int64_t jobs = conn_read_int(call->conn, own->lists.items[i], call->error);
        if (call->error->outcome != OUTCOME_OK || names > 0 || jobs <= 0 || refusal->len) continue;
        buffer_printf(
            refusal,
            "the queue does not belong to Sidekiq: there are jobs in %s, but no set %s, in which Sidekiq notes its queues",
            own->lists.items[i], own->names);
    }
    if (call->error->outcome != OUTCOME_OK || refusal->len) return call->error->outcome;
    return adopt_each_process(call, at, adopt_check, refusal);
}

// ---- Notes about versions that were not tested, and about queues that the config lacks.

typedef struct survey {
    survey_report_fn *report;
    void *self;
    size_t queue;
} survey_t;

static bool survey_note(void *self, const char *process, const version_t *version) {
    const survey_t *survey = self;
    if (!version->known || !*version->text || version->minor <= tested_minors[version->major]) return true;
    char *text = mem_printf("Sidekiq %" PRId64 ".%" PRId64 " of the process %s is newer than %" PRId64 ".%" PRId64
                            ", the newest that dialect sidekiq was tested with",
                            version->major, version->minor, process, version->major, tested_minors[version->major]);
    survey->report(survey->self, false, survey->queue, text);
    free(text);
    return false;
}

// Sidekiq notes each queue that ever had a job, so the application may not use it any more.
static void survey_queues(const call_t *call, const survey_t *survey) {
    const sidekiq_config_t *own = sidekiq_config(call->keys->queues[survey->queue].config);
    const char *first = NULL;
    size_t others = 0;
    redis_error_t refusal;
    request_append(call->conn, "SSCAN", own->names, "0", "COUNT", "500");
    redisReply *page = conn_read_or_refusal(call->conn, &refusal, call->error);
    const redisReply *names = reply_at(page, 1);
    for (size_t i = 0; reply_at(names, i); i++) {
        const char *name = reply_text(reply_at(names, i));
        if (strings_has(&own->queues, name)) continue;
        if (!first || strcmp(name, first) < 0) first = name;
        others++;
    }
    if (first) {
        buffer_t text = {0};
        buffer_str(&text, "Sidekiq has the queue ");
        json_write_string(&text, slice_text(first));
        if (others > 1) buffer_printf(&text, ", and %zu more", others - 1);
        buffer_str(&text,
                   ", which `queues` lacks: due jobs stay there for Sidekiq's poller, and jobs of killed processes are lost: "
                   "add it, if processes serve it");
        survey->report(survey->self, false, survey->queue, buffer_text(&text));
        buffer_free(&text);
    }
    conn_reply_free(page);
}

outcome_t sidekiq_survey(const call_t *call, survey_report_fn *report, void *self) {
    *call->error = (redis_error_t){0};
    for (size_t i = call->queue; i < call->keys->queue_count && call->error->outcome == OUTCOME_OK; i++) {
        survey_t survey = {report, self, i};
        if (call->keys->queues[i].config->dialect != &sidekiq_settings) continue;
        adopt_each_process(call, &call->keys->queues[i], survey_note, &survey);
        if (sidekiq_config(call->keys->queues[i].config)->set == SIDEKIQ_SCHEDULE) survey_queues(call, &survey);
        if (call->error->outcome == OUTCOME_REFUSED) *call->error = (redis_error_t){0}; // adopt tells
    }
    return call->error->outcome;
}
