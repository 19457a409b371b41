// The bytes of a job. Tokens are found and replaced in place: all other bytes stay as Sidekiq wrote them.
#include "model/job.h"
#include "base/json/json.h"
#include "config/table.h"
#include "dialects/sidekiq/internal.h"

enum { SECONDS_BELOW = 11 }; // digits: a whole number of fewer digits than 12 is seconds

bool sidekiq_job_read(slice_t bytes, sidekiq_job_t *out) {
    enum { JID, WRAPPED, CLASS, QUEUE, ERROR_CLASS, ERROR_MESSAGE, TEXTS, CREATED = TEXTS, ENQUEUED, RETRIES, ALL };
    json_pick_t picks[ALL] = {[JID] = {.pointer = "/jid"},
                              [WRAPPED] = {.pointer = "/wrapped"},
                              [CLASS] = {.pointer = "/class"},
                              [QUEUE] = {.pointer = "/queue"},
                              [ERROR_CLASS] = {.pointer = "/error_class"},
                              [ERROR_MESSAGE] = {.pointer = "/error_message"},
                              [CREATED] = {.pointer = "/created_at"},
                              [ENQUEUED] = {.pointer = "/enqueued_at"},
                              [RETRIES] = {.pointer = "/retry_count"}};
    slice_t *const to[ALL] = {[JID] = &out->jid,
                              [CLASS] = &out->type,
                              [QUEUE] = &out->queue,
                              [ERROR_CLASS] = &out->error_class,
                              [ERROR_MESSAGE] = &out->error_message,
                              [CREATED] = &out->created_at,
                              [ENQUEUED] = &out->enqueued_at,
                              [RETRIES] = &out->retry_count};
    *out = (sidekiq_job_t){0};
    if (!json_pick(bytes, picks, ALL)) return false;
    for (size_t i = 0; i < ALL; i++) {
        bool null = picks[i].value.type == JSON_NULL, replaced = null && i == ENQUEUED; // a push leaves no second one
        if (picks[i].found != JSON_FOUND || (null && !replaced)) continue;
        bool fits = replaced || picks[i].value.type == (i < TEXTS ? JSON_STRING : JSON_NUMBER);
        if (!fits && i != WRAPPED && i != ERROR_CLASS && i != ERROR_MESSAGE) return false;
        if (fits && to[i]) *to[i] = picks[i].value.raw;
    }
    if (picks[WRAPPED].found == JSON_FOUND && picks[WRAPPED].value.type == JSON_STRING) out->type = picks[WRAPPED].value.raw;
    return true;
}

bool sidekiq_job_list(const sidekiq_config_t *own, const sidekiq_job_t *job, size_t *out) {
    char name[MAX_CONFIG_STRING + 1];
    if (!json_copy_text(job->queue, name, MAX_CONFIG_STRING)) return false;
    for (*out = 0; *out < own->queues.count; ++*out)
        if (strcmp(own->queues.items[*out], name) == 0) return true;
    return false;
}

static bool time_is_seconds(slice_t raw) {
    int64_t whole;
    return !json_integer(raw, &whole) || raw.len <= SECONDS_BELOW;
}

int64_t sidekiq_time_ms(slice_t raw) {
    double number = raw.len ? strtod(raw.data, NULL) : 0; // a comma or a bracket ends it
    if (raw.len && time_is_seconds(raw)) number *= 1000;
    return number > 0 && number < 9e15 ? (int64_t)number : 0;
}

void sidekiq_job_push(slice_t bytes, const sidekiq_job_t *job, int64_t now_ms, bool again, buffer_t *out) {
    char at[48], count[24];
    json_cut_t cuts[2];
    size_t cut_count = 0;
    int64_t retries;
    bool seconds = job->created_at.len ? time_is_seconds(job->created_at) : time_is_seconds(job->enqueued_at);
    snprintf(at, sizeof at, seconds ? "%" PRId64 ".%03d" : "%" PRId64 "%03d", now_ms / 1000, (int)(now_ms % 1000));
    if (job->enqueued_at.len) cuts[cut_count++] = (json_cut_t){job->enqueued_at, slice_text(at)};
    if (again && json_integer(job->retry_count, &retries) && retries > INT64_MIN) {
        snprintf(count, sizeof count, "%" PRId64, retries - 1);
        cuts[cut_count++] = (json_cut_t){job->retry_count, slice_text(count)};
    }
    json_splice(bytes, cuts, cut_count, out);
    if (job->enqueued_at.len) return;
    while (out->len && out->data[out->len - 1] != '}') out->len--; // white space behind the object
    if (out->len) out->len--;
    buffer_printf(out, ",\"enqueued_at\":%s}", at);
}

void sidekiq_job_describe(slice_t bytes, job_t *out) {
    sidekiq_job_t job;
    *out = (job_t){.digest = digest_of(bytes.data, bytes.len), .retries_in_job = -1};
    if (!sidekiq_job_read(bytes, &job) || !json_copy_text(job.jid, out->id, MAX_JOB_ID)) digest_hex(&out->digest, out->id);
    if (!json_copy_text(job.type, out->type, MAX_JOB_TYPE)) out->type[0] = '\0';
    int64_t retries;
    if (json_integer(job.retry_count, &retries) && retries >= -1 && retries < INT64_MAX) out->retries_in_job = retries + 1;
    out->created_ms = sidekiq_time_ms(job.created_at);
}

void sidekiq_record_begin(job_record_t *record, const call_t *call, slice_t bytes, slice_t id, const char *reason) {
    sidekiq_job_t job = {0};
    char jid[MAX_JOB_ID + 1] = "", type[MAX_JOB_TYPE + 1] = "";
    if (bytes.len) sidekiq_job_read(bytes, &job);
    if (!json_copy_text(job.jid, jid, MAX_JOB_ID)) snprintf(jid, sizeof jid, "%.*s", (int)id.len, id.data);
    if (!json_copy_text(job.type, type, MAX_JOB_TYPE)) *type = '\0';
    buffer_str(&record->texts, jid);
    buffer_str(&record->texts, type);
    size_t len = strlen(jid);
    job_record_begin(record, call, (slice_t){record->texts.data, len}, (slice_t){record->texts.data + len, strlen(type)}, reason);
    record->event.created = sidekiq_time_ms(job.created_at);
    int64_t retries;
    if (json_integer(job.retry_count, &retries) && retries >= 0 && retries < INT64_MAX) record->event.attempts = retries + 1;
    if (job.error_class.len) json_decode(job.error_class, &record->error);
    if (job.error_message.len) {
        buffer_str(&record->error, ": ");
        json_decode(job.error_message, &record->error);
    }
    if (bytes.len) job_record_add_payload(record, call, bytes);
}
