#include "model/job.h"

#include <math.h>

#include "base/json/json.h"

enum { MAX_NUMBER = 64, TRACEPARENT_BYTES = 55 }; // bytes of a time, at most; of a traceparent

// A time in seconds, read as milliseconds, falls into January 1970, and the alive timeout would end the job at once. So dates
// before MIN_CREATED_MS count as not given.
#define MIN_CREATED_MS 1e11              // March 1973
#define MAX_CREATED_MS 253402300799999.0 // the last millisecond of the year 9999

static const char NO_POINTER[] = "none";

_Static_assert(MAX_JOB_ID >= DIGEST_HEX_SIZE - 1, "job_t.id has room for a digest");

static void job_take_text(const json_pick_t *pick, size_t most, char *text) {
    const json_value_t *value = &pick->value;
    if (pick->found == JSON_FOUND && (value->type == JSON_STRING || value->type == JSON_NUMBER))
        json_copy_text(value->raw, text, most);
}

// Returns the time in ms, rounded; 0 = not a date since 1973.
static int64_t job_created_ms(const json_pick_t *pick, const queue_policy_t *policy) {
    const json_value_t *value = &pick->value;
    if (pick->found != JSON_FOUND || value->type != JSON_NUMBER || value->raw.len > MAX_NUMBER) return 0;
    char number[MAX_NUMBER + 1];
    memcpy(number, value->raw.data, value->raw.len);
    number[value->raw.len] = '\0';
    double ms = strtod(number, NULL) * (policy->score_unit == SCORE_S ? 1000 : 1); // the locale is always "C"
    return ms >= MIN_CREATED_MS && ms <= MAX_CREATED_MS ? llround(ms) : 0;
}

// An empty path is not set, although as a JSON pointer it means the whole text.
static json_pick_t job_pick(const char *path) { return (json_pick_t){.pointer = *path ? path : NO_POINTER}; }

void job_read(const queue_policy_t *policy, slice_t bytes, job_t *out) {
    out->digest = digest_of(bytes.data, bytes.len);
    out->id[0] = out->type[0] = '\0';
    out->created_ms = out->executed_ms = 0;
    out->retries_in_job = -1;
    out->trouble = JOB_FINE;
    out->target = 0;
    if (*policy->id_path || *policy->type_path || *policy->created_path) {
        json_pick_t picks[] = {job_pick(policy->id_path), job_pick(policy->type_path), job_pick(policy->created_path)};
        json_find_all(bytes, picks, 3);
        job_take_text(&picks[0], MAX_JOB_ID, out->id);
        job_take_text(&picks[1], MAX_JOB_TYPE, out->type);
        out->created_ms = job_created_ms(&picks[2], policy);
    }
    if (!*out->id) digest_hex(&out->digest, out->id);
}

// `digits` lower-case hex digits, not all of them 0 unless `zero`; moves *text behind them and a '-'.
static bool trace_take_hex(const char **text, size_t digits, bool zero) {
    const char *from = *text;
    *text += digits + 1;
    return strspn(from, "0123456789abcdef") == digits && (zero || strspn(from, "0") < digits);
}

// W3C Trace Context, 3.2: 00-TRACE-PARENT-FLAGS of 32, 16 and 2 hex digits.
static bool trace_is_good(slice_t value) {
    char text[TRACEPARENT_BYTES + 1] = "";
    if (value.len != TRACEPARENT_BYTES) return false;
    memcpy(text, value.data, value.len);
    const char *at = text + 3;
    return strncmp(text, "00-", 3) == 0 && trace_take_hex(&at, 32, false) && at[-1] == '-' && trace_take_hex(&at, 16, false) &&
           at[-1] == '-' && trace_take_hex(&at, 2, true);
}

slice_t job_traceparent(const queue_policy_t *policy, slice_t payload) {
    json_value_t value;
    bool found = *policy->trace_path && json_find(payload, policy->trace_path, &value) == JSON_FOUND;
    return found && value.type == JSON_STRING && trace_is_good(value.raw) ? value.raw : (slice_t){0};
}

char *job_heartbeat_key(const queue_policy_t *policy, const char *id) {
    const char *star = strchr(policy->heartbeat, '*');
    if (!star) return NULL; // "off": other patterns have a *
    return mem_printf("%.*s%s%s", (int)(star - policy->heartbeat), policy->heartbeat, id, star + 1);
}
