#include "base/log.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/utf8.h"

enum { REPEAT_SLOTS = 4096, REPEAT_PROBES = 8, REPEAT_WINDOW_S = 10 };

// One message that was written lately. A slot is taken over by another message with the same hash: then one line too many is
// written, never one too few.
typedef struct repeat {
    uint64_t hash;
    mono_t written;
    int64_t left_out;
} repeat_t;

static struct {
    log_level_t level;
    int json;
    pthread_mutex_t mutex;
    repeat_t repeats[REPEAT_SLOTS]; // guarded by mutex
    int64_t dropped;                // lines that found no room since the last one that was written; likewise
} state = {.level = LOG_INFO, .json = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const LEVEL_NAMES[] = {"error", "warn", "info", "debug"};

void log_setup(log_level_t level, int json) {
    state.level = level;
    state.json = json;
}

static uint64_t hash_text(uint64_t hash, const char *text) {
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

// Returns -1 when the line is to be left out, else how many were since it was last written.
static int64_t repeat_check(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields) {
    if (level > LOG_WARN) return 0;
    uint64_t hash = hash_text(UINT64_C(14695981039346656037), LEVEL_NAMES[level]);
    hash = hash_text(hash_text(hash_text(hash, role), queue), msg);
    for (; fields->key; fields++)
        if (fields->type == LOG_FIELD_STR && strcmp(fields->key, "reason") == 0) hash = hash_text(hash, fields->str);
    mono_t now = mono_now();
    repeat_t *slot = repeat_slot(hash);
    bool same = slot->hash == hash && slot->written.ns != 0;
    if (same && mono_diff(now, slot->written) < REPEAT_WINDOW_S * NS_PER_S) {
        slot->left_out++;
        return -1;
    }
    int64_t left_out = same ? slot->left_out : 0;
    *slot = (repeat_t){.hash = hash, .written = now};
    return left_out;
}

static void add_json_string(buffer_t *line, const char *text) {
    buffer_str(line, "\"");
    utf8_escape(line, text, strlen(text), "\"\\");
    buffer_str(line, "\"");
}

static void add_value(buffer_t *line, const log_field_t *field, int json) {
    if (field->type == LOG_FIELD_INT) {
        buffer_printf(line, "%lld", (long long)field->num);
    } else if (field->type == LOG_FIELD_NUM) {
        if (isfinite(field->real))
            buffer_printf(line, "%.15g", field->real);
        else
            add_json_string(line, isnan(field->real) ? "nan" : field->real > 0 ? "inf" : "-inf");
    } else if (json || strpbrk(field->str, " \t\"=") || !*field->str) {
        add_json_string(line, field->str);
    } else {
        utf8_escape(line, field->str, strlen(field->str), "\\");
    }
}

static void add_field(buffer_t *line, const log_field_t *field, int json) {
    if (field->type == LOG_FIELD_STR && !field->str) return;
    buffer_printf(line, json ? ",\"%s\":" : " %s=", field->key);
    add_value(line, field, json);
}

static void add_head(buffer_t *line, log_level_t level, const char *msg, int json) {
    char ts[32];
    wall_text(ts, sizeof ts);
    if (json) {
        buffer_printf(line, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", ts, LEVEL_NAMES[level]);
        add_json_string(line, msg);
    } else {
        buffer_printf(line, "%.12s %-5s ", ts + 11, LEVEL_NAMES[level]);
        utf8_escape(line, msg, strlen(msg), "");
    }
}

// Whoever reads the log may stop to read: a full pipe must not stop the roles, least of all the renewal of the lock. Such lines
// are left out and counted. POLLOUT promises room for PIPE_BUF bytes, more than a line of ours has.
static void put_line(const buffer_t *line) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT)) {
        state.dropped++;
        return;
    }
    if (write(STDERR_FILENO, line->data, line->len) < 0) state.dropped++; // there is nowhere left to say so
}

void log_write(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields) {
    if (level > state.level) return;
    pthread_mutex_lock(&state.mutex);
    int64_t left_out = repeat_check(level, role, queue, msg, fields);
    if (left_out >= 0) {
        buffer_t line = {0};
        add_head(&line, level, msg, state.json);
        add_field(&line, &F_STR("role", role), state.json);
        add_field(&line, &F_STR("queue", queue), state.json);
        for (; fields->key; fields++) add_field(&line, fields, state.json);
        if (left_out > 0) add_field(&line, &F_INT("repeated", left_out), state.json);
        int64_t dropped = state.dropped;
        if (dropped > 0) add_field(&line, &F_INT("lines_lost", dropped), state.json);
        buffer_str(&line, state.json ? "}\n" : "\n");
        put_line(&line);
        if (state.dropped == dropped) state.dropped = 0;
        buffer_free(&line);
    }
    pthread_mutex_unlock(&state.mutex);
}
