// The JSON that `status` prints: one object on one line. docs/status.md describes it. Never rename a field; fields may be added.
#include <ctype.h>
#include <stdarg.h>

#include "base/json/json.h"
#include "base/text/time_text.h"
#include "operate/status/status.h"

static const int64_t LAST_MS = INT64_C(253402300799999); // of the year 9999

static void status_json_comma(buffer_t *out) {
    char last = out->data[out->len - 1];
    if (last != '{' && last != '[') buffer_str(out, ",");
}

static void status_json_text(buffer_t *out, const char *text) {
    if (text && *text)
        json_write_string(out, slice_text(text));
    else
        buffer_str(out, "null");
}

// `unit`: 's' and 't' as behind %jd in status_json_add; anything else = a plain number.
static void status_json_number(buffer_t *out, char unit, int64_t number) {
    if (unit == 't')
        status_json_text(out, number >= 0 && number <= LAST_MS ? time_rfc3339(number).text : "");
    else if (number < 0)
        buffer_str(out, "null");
    else if (unit == 's')
        buffer_printf(out, "%" PRId64 ".%03d", number / 1000, (int)(number % 1000));
    else
        buffer_printf(out, "%" PRId64, number);
}

// Adds a member for each NAME:VALUE of the format, which the compiler checks like one of printf. %s: a text, "" = null. %d: a
// bool. %jd, %jds, %jdt: an int64_t, below 0 = null; %jds is milliseconds, printed as seconds; %jdt is ms since 1970, printed as
// RFC 3339 (never = null). { and [ begin a value, with a name or as an item of an array; } and ] end it.
__attribute__((format(printf, 2, 3))) static void status_json_add(buffer_t *out, const char *format, ...) {
    va_list values;
    va_start(values, format);
    for (const char *at = format; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        bool ends = *at == '}' || *at == ']';
        if (!ends) status_json_comma(out);
        if (!ends && *at != '{') {
            int name = (int)strcspn(at, ":");
            buffer_printf(out, "\"%.*s\":", name, at);
            at += name + 1;
        }
        if (*at != '%')
            buffer_add(out, at, 1);
        else if (at[1] == 's')
            status_json_text(out, va_arg(values, const char *));
        else if (at[1] == 'd')
            buffer_str(out, va_arg(values, int) ? "true" : "false");
        else
            status_json_number(out, at[strlen("%jd")], va_arg(values, int64_t));
    }
    va_end(values);
}

static int64_t status_json_age(int64_t now_ms, int64_t ms) { return ms < 0 ? STATUS_UNKNOWN : now_ms > ms ? now_ms - ms : 0; }

static void status_json_primary(const primary_view_t *primary, buffer_t *out) {
    status_json_add(out, "{ address:%s error:%s tls:%s certificate_end:%jdt", primary->address, primary->error.text, primary->tls,
                    primary->certificate_end_ms);
    status_json_add(out, "replicas:%jd good_replicas:%jd maxmemory_policy:%s }", primary->replicas, primary->good_replicas,
                    primary->eviction);
}

static void status_json_sentinel(const sentinel_view_t *sentinel, buffer_t *out) {
    bool knows = !*sentinel->error;
    status_json_add(out, "{ address:%s error:%s primary:%s epoch:%jd quorum:%jd sees_primary_down:%d }", sentinel->address,
                    sentinel->error, sentinel->primary, knows ? sentinel->epoch : STATUS_UNKNOWN,
                    knows ? sentinel->quorum : STATUS_UNKNOWN, sentinel->sees_down);
}

static void status_json_servers(const servers_t *servers, bool reached, buffer_t *out) {
    static const char *const modes[] = {[REDIS_MODE_AUTO] = "",
                                        [REDIS_MODE_SINGLE] = "single",
                                        [REDIS_MODE_SENTINEL] = "sentinel",
                                        [REDIS_MODE_CLUSTER] = "cluster"};
    status_json_add(out, "mode:%s primaries:[", modes[servers->mode]);
    for (size_t i = 0; reached && i < servers->primary_count; i++) status_json_primary(&servers->primaries[i], out);
    status_json_add(out, "] sentinels:[");
    for (size_t i = 0; i < servers->sentinel_count; i++) status_json_sentinel(&servers->sentinels[i], out);
    buffer_str(out, "]");
}

static void status_json_lock(const status_t *s, size_t index, buffer_t *out) {
    const snapshot_lock_t *lock = &s->snapshot.locks[index];
    status_json_add(out, "{ key:%s leader:%s term:%s since:%jdt ttl_seconds:%jds standbys:[", s->keys->locks[index].key,
                    lock->leader, lock->holder, lock->since_ms ? lock->since_ms : STATUS_UNKNOWN, lock->pttl_ms);
    for (size_t i = 0; i < lock->standby_count; i++) {
        const snapshot_standby_t *standby = &lock->standbys[i];
        status_json_add(out, "{ instance:%s lives:%d heard_seconds_ago:%jds }", standby->instance, standby->lives,
                        status_json_age(s->snapshot.now_ms, standby->heard_ms));
    }
    buffer_str(out, "]}");
}

static void status_json_recent(const status_recent_t *recent, buffer_t *out) {
    status_json_add(out, "retried_last_hour:%jd failed_last_hour:%jd failed_last_hour_by_reason:{", recent->retried,
                    recent->failed);
    for (size_t i = 0; i < STATUS_REASONS; i++) {
        status_json_comma(out);
        buffer_printf(out, "\"%s\":", status_reasons[i]);
        status_json_number(out, ' ', recent->failed < 0 ? STATUS_UNKNOWN : recent->reasons[i]);
    }
    status_json_add(out, "} last_hour_is_partial:%d", recent->partial);
}

static void status_json_copies(const status_t *s, const snapshot_queue_t *snapshot, buffer_t *out) {
    status_json_add(out, "copies:[");
    for (size_t i = 0; i < snapshot->copy_count; i++) {
        const snapshot_copy_t *copy = &snapshot->copies[i];
        status_json_add(out, "{ instance:%s here:%d position:%s complete:%d heard_seconds_ago:%jds }", copy->instance,
                        strcmp(copy->instance, s->log.instance) == 0, copy->position, status_is_complete(snapshot, copy),
                        status_json_age(s->snapshot.now_ms, copy->heard_ms));
    }
    buffer_str(out, "]");
}

static void status_json_place(const status_t *s, size_t queue, buffer_t *out) {
    const status_place_t *place = &s->places[queue];
    bool cluster = s->servers.mode == REDIS_MODE_CLUSTER;
    const char *primary = place->primary < s->servers.primary_count ? s->servers.primaries[place->primary].address : "";
    status_json_add(out, "primary:%s slot:%jd waits_for_slot:%s", primary, cluster ? (int64_t)place->slot : STATUS_UNKNOWN,
                    place->why);
}

static void status_json_sizes(const sizes_t *sizes, buffer_t *out) {
    int64_t overdue_ms = sizes->next_due_ms >= 0 ? sizes_overdue_ms(sizes) : STATUS_UNKNOWN;
    status_json_add(out, "delayed:%jd ready:%jd in_progress:%jd next_due:%jdt overdue_seconds:%jds", sizes->delayed, sizes->ready,
                    sizes->in_progress, sizes->next_due_ms, overdue_ms);
    status_json_add(out, "oldest_in_progress:%jdt oldest_in_progress_seconds:%jds", sizes->oldest_in_progress_ms,
                    status_json_age(sizes->now_ms, sizes->oldest_in_progress_ms));
}

static void status_json_queue(const status_t *s, size_t queue, buffer_t *out) {
    const sizes_t *sizes = &s->sizes[queue];
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    const queue_config_t *config = s->keys->queues[queue].config;
    int64_t lag_ms = snapshot->uncopied_ms ? status_json_age(s->snapshot.now_ms, snapshot->uncopied_ms) : 0;
    status_json_add(out, "{ name:%s dialect:%s served:%d owner:%s", config->name, config_dialect_word(config->dialect),
                    snapshot->served, snapshot->owner);
    status_json_place(s, queue, out);
    status_json_sizes(sizes, out);
    status_json_recent(&s->recent[queue], out);
    status_json_add(out, "records:%jd record_bytes:%jd record_bytes_limit:%jd audit_lag_seconds:%jds", sizes->records,
                    sizes->record_bytes, s->config->stream.max_bytes, *snapshot->error.text ? STATUS_UNKNOWN : lag_ms);
    status_json_add(out, "trimmed_early:%jdt", snapshot->trimmed_early ? snapshot->trimmed_early : STATUS_UNKNOWN);
    status_json_copies(s, snapshot, out);
    status_json_add(out, "fault:%s }", *snapshot->error.text ? snapshot->error.text : sizes->error.text);
}

static void status_json_instance(const local_instance_t *local, buffer_t *out) {
    bool answered = local->state == LOCAL_ANSWERED;
    if (local->state == LOCAL_NOT_ASKED) {
        status_json_add(out, "instance_here:%s", "");
        return;
    }
    status_json_add(out, "instance_here:{ answered:%d error:%s ready:%d checks:[", answered, local->why, answered && local->well);
    for (size_t i = 0; i < local->count; i++) {
        const local_check_t *check = &local->checks[i];
        status_json_add(out, "{ check:%s ok:%d why:%s state:%s }", check->name, !*check->why, check->why, check->state);
    }
    buffer_str(out, "]}");
}

// Everybody may read it: `-c {config}` becomes `-c CONFIG`.
static void status_json_next_open(const char *next, buffer_t *out) {
    buffer_t text = {0};
    bool name = false;
    for (; *next; next++) {
        char letter = name ? (char)toupper((unsigned char)*next) : *next;
        if (letter == '{' || letter == '}')
            name = letter == '{';
        else
            buffer_add(&text, &letter, 1);
    }
    status_json_add(out, "next:%s", buffer_text(&text));
    buffer_free(&text);
}

// `open`: without texts, which may name keys and jobs.
static void status_json_finding(const status_t *s, const status_finding_t *finding, bool open, buffer_t *out) {
    static const char *const severities[] = {"note", "warning", "fault"};
    status_json_add(out, "{ severity:%s code:%s queues:[", severities[finding->severity], finding->code);
    for (size_t i = 0; i < finding->queue_count; i++) {
        status_json_comma(out);
        json_write_string(out, slice_text(s->keys->queues[finding->queues[i]].config->name));
    }
    buffer_str(out, "]");
    if (open)
        status_json_next_open(finding->next_open, out);
    else
        status_json_add(out, "what:%s why:%s next:%s", finding->what, finding->why, finding->next);
    buffer_str(out, "}");
}

static void status_json_verdict(const status_t *s, const status_findings_t *findings, buffer_t *out) {
    status_json_add(out, "at:%jdt group:%s well:%d", s->reached && s->snapshot.now_ms > 0 ? s->snapshot.now_ms : s->wall_ms,
                    s->config->group, s->reached && findings->of[STATUS_FAULT] + findings->of[STATUS_WARNING] == 0);
}

static void status_json_findings(const status_t *s, const status_findings_t *findings, bool open, buffer_t *out) {
    status_json_add(out, "findings:[");
    for (size_t i = 0; i < findings->count; i++) status_json_finding(s, &findings->items[i], open, out);
    buffer_str(out, "]}\n");
}

void status_json_open(const status_t *s, const status_findings_t *findings, buffer_t *out) {
    buffer_str(out, "{");
    status_json_verdict(s, findings, out);
    status_json_add(out, "redis:{ reachable:%d } queues:[", s->reached);
    for (size_t i = 0; s->reached && i < s->keys->queue_count; i++) {
        const queue_config_t *config = s->keys->queues[i].config;
        status_json_add(out, "{ name:%s dialect:%s served:%d", config->name, config_dialect_word(config->dialect),
                        s->snapshot.queues[i].served);
        status_json_sizes(&s->sizes[i], out);
        status_json_recent(&s->recent[i], out);
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
    status_json_findings(s, findings, true, out);
}

void status_json(const status_t *s, const status_findings_t *findings, const bool *wanted, buffer_t *out) {
    static const char *const sources[] = {"", "audit_log", "failure_stream"};
    const snapshot_t *snapshot = &s->snapshot;
    buffer_str(out, "{");
    status_json_verdict(s, findings, out);
    status_json_add(out, "redis:{ address:%s reachable:%d error:%s server:%s memory_bytes:%jd memory_limit_bytes:%jd", s->target,
                    s->reached, s->reached ? "" : s->error.text, s->reached ? s->server : "",
                    s->reached ? snapshot->memory_used : STATUS_UNKNOWN,
                    s->reached && snapshot->memory_most > 0 ? snapshot->memory_most : STATUS_UNKNOWN);
    status_json_servers(&s->servers, s->reached, out);
    status_json_add(out, "} locks:[");
    for (size_t i = 0; s->reached && i < snapshot->lock_count; i++) status_json_lock(s, i, out);
    status_json_add(out, "] queues:[");
    for (size_t i = 0; s->reached && i < s->keys->queue_count; i++)
        if (!wanted || wanted[i]) status_json_queue(s, i, out);
    status_json_add(out, "] last_hour_from:%s audit_log:{ path:%s readable:%d error:%s instance:%s open_gaps:%jd }",
                    sources[s->source], s->config->audit.path, s->log.readable, s->log.why, s->log.instance,
                    s->log.readable ? s->log.open_gaps : STATUS_UNKNOWN);
    status_json_instance(&s->local, out);
    status_json_findings(s, findings, false, out);
}
