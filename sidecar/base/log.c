#include "base/log.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json/write.h"
#include "base/utf8.h"

enum {
    REPEAT_SLOTS = 4096,
    REPEAT_PROBES = 8,
    REPEAT_WINDOW_S = 10,
    BURSTS = 16,
    BURST_LINES = 20, // in a window
    BURST_NAMES = 10,
    BURST_TEXT = 128,
};

// What is to be said of repeats that were left out, if no further one comes.
typedef struct suppressed {
    log_level_t level;
    mono_t last;                               // when one was left out
    char *role, *queue, *msg, *reason, *token; // owned
} suppressed_t;

// One message that was written lately. A slot is taken over by another message with the same hash: then one line too many is
// written, never one too few.
typedef struct repeat {
    uint64_t hash;
    mono_t written;
    int64_t suppressed_lines;
    bool in_burst;            // it was one of many that were told in one line
    suppressed_t *suppressed; // owned; NULL = there is nothing to say
} repeat_t;

// One message that several queues say. When there are more messages than places the oldest one gives way: then lines too many
// are written.
typedef struct burst {
    uint64_t hash;
    mono_t began; // of the window
    int lines;    // of different queues or reasons, written and left out
    log_level_t level;
    char role[BURST_TEXT];
    char msg[BURST_TEXT];
    buffer_t names; // of some of the queues whose lines were left out
} burst_t;

static struct {
    _Atomic log_level_t level;
    int json;
    pthread_mutex_t mutex;
    repeat_t repeats[REPEAT_SLOTS]; // guarded by mutex
    size_t suppressing;             // how many of them have a rest; likewise
    mono_t suppressed_due;          // when to look for one that is due; likewise
    burst_t bursts[BURSTS];         // likewise
    int64_t dropped;                // lines that found no room since the last one that was written; likewise
} state = {.level = LOG_INFO, .json = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const LEVEL_NAMES[] = {"error", "warn", "info", "debug"};

void log_setup(log_level_t level, int json) {
    state.level = level;
    state.json = json;
}

void log_set_level(log_level_t level) { state.level = level; }

static uint64_t log_hash(uint64_t hash, const char *text) {
    for (; text && *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return (hash ^ 0xff) * UINT64_C(1099511628211);
}

// The slot of this message, or else the one of its places that was written longest ago.
static repeat_t *repeat_slot(uint64_t hash) {
    repeat_t *oldest = &state.repeats[hash % REPEAT_SLOTS];
    for (uint64_t i = 0; i < REPEAT_PROBES; i++) {
        repeat_t *slot = &state.repeats[(hash + i) % REPEAT_SLOTS];
        if (slot->hash == hash) return slot;
        if (slot->written.ns < oldest->written.ns) oldest = slot;
    }
    return oldest;
}

static void log_add_value(buffer_t *line, const log_field_t *field, int json) {
    if (field->type == LOG_FIELD_INT) {
        buffer_printf(line, "%lld", (long long)field->num);
    } else if (field->type == LOG_FIELD_NUM) {
        if (isfinite(field->real))
            buffer_printf(line, "%.15g", field->real);
        else
            json_write_string(line, slice_text(isnan(field->real) ? "nan" : field->real > 0 ? "inf" : "-inf"));
    } else if (json || strpbrk(field->str, " \t\"=") || !*field->str) {
        json_write_string(line, slice_text(field->str));
    } else {
        utf8_escape(line, field->str, strlen(field->str), "\\");
    }
}

static void log_add_field(buffer_t *line, const log_field_t *field, int json) {
    if (field->type == LOG_FIELD_STR && !field->str) return;
    buffer_printf(line, json ? ",\"%s\":" : " %s=", field->key);
    log_add_value(line, field, json);
}

static void log_add_head(buffer_t *line, log_level_t level, const char *msg, int json) {
    char ts[32];
    wall_text(ts, sizeof ts);
    if (json) {
        buffer_printf(line, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", ts, LEVEL_NAMES[level]);
        json_write_string(line, slice_text(msg));
    } else {
        buffer_printf(line, "%.12s %-5s ", ts + 11, LEVEL_NAMES[level]);
        utf8_escape(line, msg, strlen(msg), "");
    }
}

// Whoever reads the log may stop to read: a full pipe must not stop the roles, least of all the renewal of the lock. Such lines
// are left out and counted. POLLOUT promises room for PIPE_BUF bytes, more than a line of ours has.
static void log_put_line(const buffer_t *line) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT)) {
        state.dropped++;
        return;
    }
    if (write(STDERR_FILENO, line->data, line->len) < 0) state.dropped++; // there is nowhere left to say so
}

static void log_write_line(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields,
                           int64_t suppressed_lines) {
    buffer_t line = {0};
    log_add_head(&line, level, msg, state.json);
    log_add_field(&line, &F_STR("role", role), state.json);
    log_add_field(&line, &F_STR("queue", queue), state.json);
    for (; fields->key; fields++) log_add_field(&line, fields, state.json);
    if (suppressed_lines > 0) log_add_field(&line, &F_INT("repeated", suppressed_lines), state.json);
    int64_t dropped = state.dropped;
    if (dropped > 0) log_add_field(&line, &F_INT("lines_lost", dropped), state.json);
    buffer_str(&line, state.json ? "}\n" : "\n");
    log_put_line(&line);
    if (state.dropped == dropped) state.dropped = 0;
    buffer_free(&line);
}

static void burst_end(burst_t *burst) {
    int more = burst->lines - BURST_LINES;
    if (more > 0)
        log_write_line(burst->level, burst->role, NULL, burst->msg,
                       (const log_field_t[]){F_INT("more", more), F_STR("queues", buffer_text(&burst->names)), {.key = 0}}, 0);
    buffer_free(&burst->names);
    burst->lines = 0;
}

static void bursts_end_due(mono_t now) {
    for (int i = 0; i < BURSTS; i++)
        if (state.bursts[i].lines > 0 && mono_diff(now, state.bursts[i].began) >= REPEAT_WINDOW_S * NS_PER_S)
            burst_end(&state.bursts[i]);
}

static burst_t *burst_of(log_level_t level, const char *role, const char *msg, mono_t now) {
    uint64_t hash = log_hash(log_hash(log_hash(UINT64_C(14695981039346656037), LEVEL_NAMES[level]), role), msg);
    burst_t *oldest = &state.bursts[0];
    for (int i = 0; i < BURSTS; i++) {
        burst_t *burst = &state.bursts[i];
        if (burst->lines > 0 && burst->hash == hash) return burst;
        if (burst->lines == 0 || (oldest->lines > 0 && burst->began.ns < oldest->began.ns)) oldest = burst;
    }
    burst_end(oldest);
    oldest->hash = hash;
    oldest->began = now;
    oldest->level = level;
    snprintf(oldest->role, sizeof oldest->role, "%s", role);
    snprintf(oldest->msg, sizeof oldest->msg, "%s", msg);
    return oldest;
}

// Whether this line may be written, or else is one of many that are told in one.
static bool burst_allows(log_level_t level, const char *role, const char *queue, const char *msg, mono_t now) {
    if (!queue) return true;
    burst_t *burst = burst_of(level, role, msg, now);
    if (++burst->lines <= BURST_LINES) return true;
    if (burst->lines <= BURST_LINES + BURST_NAMES) buffer_printf(&burst->names, "%s%s", burst->names.len ? ", " : "", queue);
    return false;
}

static const char *log_text_field(const log_field_t *fields, const char *key) {
    for (; fields->key; fields++)
        if (fields->type == LOG_FIELD_STR && strcmp(fields->key, key) == 0) return fields->str;
    return NULL;
}

static char *log_copy(const char *text) { return text ? mem_str(text) : NULL; }

static suppressed_t *suppressed_new(log_level_t level, const char *role, const char *queue, const char *msg,
                                    const log_field_t *fields) {
    suppressed_t *suppressed = mem_alloc(sizeof *suppressed);
    *suppressed = (suppressed_t){.level = level,
                                 .role = log_copy(role),
                                 .queue = log_copy(queue),
                                 .msg = log_copy(msg),
                                 .reason = log_copy(log_text_field(fields, "reason")),
                                 .token = log_copy(log_text_field(fields, "token"))};
    state.suppressing++;
    return suppressed;
}

static void repeat_drop_suppressed(repeat_t *slot) {
    suppressed_t *suppressed = slot->suppressed;
    if (!suppressed) return;
    free(suppressed->role), free(suppressed->queue), free(suppressed->msg), free(suppressed->reason), free(suppressed->token);
    free(suppressed);
    slot->suppressed = NULL;
    slot->suppressed_lines = 0;
    state.suppressing--;
}

// How often it was said again since it was written, and that this is over: whoever reads it may have read that it is well again.
// The next one is news, with all its facts.
static void repeat_end(repeat_t *slot, mono_t now) {
    const suppressed_t *suppressed = slot->suppressed;
    const log_field_t fields[] = {F_STR("reason", suppressed->reason),
                                  F_STR("token", suppressed->token),
                                  F_INT("seconds_ago", mono_diff(now, suppressed->last) / NS_PER_S),
                                  {.key = 0}};
    if (burst_allows(suppressed->level, suppressed->role, suppressed->queue, suppressed->msg, now))
        log_write_line(suppressed->level, suppressed->role, suppressed->queue, suppressed->msg, fields, slot->suppressed_lines);
    repeat_drop_suppressed(slot);
}

// A storm that is over tells how large it was. One that goes on does so with its next line.
static void repeats_end_due(mono_t now) {
    if (state.suppressing == 0 || !mono_reached(state.suppressed_due, now)) return;
    state.suppressed_due = mono_add(now, NS_PER_S);
    for (size_t i = 0; state.suppressing > 0 && i < REPEAT_SLOTS; i++) {
        repeat_t *slot = &state.repeats[i];
        if (slot->suppressed && mono_diff(now, slot->suppressed->last) >= REPEAT_WINDOW_S * NS_PER_S) repeat_end(slot, now);
    }
}

// The slot of this line, or NULL when it is to be left out. *suppressed_lines: how many were since it was last written.
static repeat_t *repeat_check(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields,
                              mono_t now, int64_t *suppressed_lines) {
    uint64_t hash = log_hash(UINT64_C(14695981039346656037), LEVEL_NAMES[level]);
    hash = log_hash(log_hash(log_hash(hash, role), queue), msg);
    hash = log_hash(log_hash(hash, log_text_field(fields, "reason")), log_text_field(fields, "token"));
    repeat_t *slot = repeat_slot(hash);
    bool same = slot->hash == hash && slot->written.ns != 0;
    if (same && mono_diff(now, slot->written) < REPEAT_WINDOW_S * NS_PER_S) {
        if (!slot->suppressed && !slot->in_burst) slot->suppressed = suppressed_new(level, role, queue, msg, fields);
        if (slot->suppressed) slot->suppressed->last = now;
        slot->suppressed_lines++;
        return NULL;
    }
    if (!same && slot->suppressed) repeat_end(slot, now); // it gives way to another message
    *suppressed_lines = same ? slot->suppressed_lines : 0;
    repeat_drop_suppressed(slot);
    *slot = (repeat_t){.hash = hash, .written = now};
    return slot;
}

static void log_write_deduplicated(log_level_t level, const char *role, const char *queue, const char *msg,
                                   const log_field_t *fields, mono_t now) {
    int64_t suppressed_lines;
    repeat_t *slot = repeat_check(level, role, queue, msg, fields, now, &suppressed_lines);
    if (!slot) return;
    slot->in_burst = !burst_allows(level, role, queue, msg, now);
    if (!slot->in_burst) log_write_line(level, role, queue, msg, fields, suppressed_lines);
}

void log_write(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields) {
    if (level > state.level) return;
    pthread_mutex_lock(&state.mutex);
    mono_t now = mono_now();
    bursts_end_due(now);
    repeats_end_due(now);
    if (level > LOG_WARN)
        log_write_line(level, role, queue, msg, fields, 0);
    else
        log_write_deduplicated(level, role, queue, msg, fields, now);
    pthread_mutex_unlock(&state.mutex);
}

void log_flush_suppressed(void) {
    pthread_mutex_lock(&state.mutex);
    mono_t now = mono_now();
    bursts_end_due(now);
    repeats_end_due(now);
    pthread_mutex_unlock(&state.mutex);
}
