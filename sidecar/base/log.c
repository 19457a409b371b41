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
#include "base/utf8.h"

enum {
    REPEAT_SLOTS = 4096,
    REPEAT_PROBES = 8,
    REPEAT_WINDOW_S = 10,
    CROWDS = 16,
    CROWD_LINES = 20, // in a window
    CROWD_NAMES = 10,
    CROWD_TEXT = 128,
};

// What is to be said of repeats that were left out, if no further one comes.
typedef struct rest {
    log_level_t level;
    mono_t last;                               // when one was left out
    char *role, *queue, *msg, *reason, *token; // owned
} rest_t;

// One message that was written lately. A slot is taken over by another message with the same hash: then one line too many is
// written, never one too few.
typedef struct repeat {
    uint64_t hash;
    mono_t written;
    int64_t left_out;
    bool crowded; // it was one of many that were told in one line
    rest_t *rest; // owned; NULL = there is nothing to say
} repeat_t;

// One message that several queues say. When there are more messages than places the oldest one gives way: then lines too many
// are written.
typedef struct crowd {
    uint64_t hash;
    mono_t began; // of the window
    int lines;    // of different queues or reasons, written and left out
    log_level_t level;
    char role[CROWD_TEXT];
    char msg[CROWD_TEXT];
    buffer_t names; // of some of the queues whose lines were left out
} crowd_t;

static struct {
    _Atomic log_level_t level;
    int json;
    pthread_mutex_t mutex;
    repeat_t repeats[REPEAT_SLOTS]; // guarded by mutex
    size_t resting;                 // how many of them have a rest; likewise
    mono_t rest_at;                 // when to look for one that is due; likewise
    crowd_t crowds[CROWDS];         // likewise
    int64_t dropped;                // lines that found no room since the last one that was written; likewise
} state = {.level = LOG_INFO, .json = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const LEVEL_NAMES[] = {"error", "warn", "info", "debug"};

void log_setup(log_level_t level, int json) {
    state.level = level;
    state.json = json;
}

void log_set_level(log_level_t level) { state.level = level; }

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

static void write_line(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields,
                       int64_t left_out) {
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

static void end_crowd(crowd_t *crowd) {
    int more = crowd->lines - CROWD_LINES;
    if (more > 0)
        write_line(crowd->level, crowd->role, NULL, crowd->msg,
                   (const log_field_t[]){F_INT("more", more), F_STR("queues", buffer_text(&crowd->names)), {.key = 0}}, 0);
    buffer_free(&crowd->names);
    crowd->lines = 0;
}

static void end_crowds(mono_t now) {
    for (int i = 0; i < CROWDS; i++)
        if (state.crowds[i].lines > 0 && mono_diff(now, state.crowds[i].began) >= REPEAT_WINDOW_S * NS_PER_S)
            end_crowd(&state.crowds[i]);
}

static crowd_t *crowd_of(log_level_t level, const char *role, const char *msg, mono_t now) {
    uint64_t hash = hash_text(hash_text(hash_text(UINT64_C(14695981039346656037), LEVEL_NAMES[level]), role), msg);
    crowd_t *oldest = &state.crowds[0];
    for (int i = 0; i < CROWDS; i++) {
        crowd_t *crowd = &state.crowds[i];
        if (crowd->lines > 0 && crowd->hash == hash) return crowd;
        if (crowd->lines == 0 || (oldest->lines > 0 && crowd->began.ns < oldest->began.ns)) oldest = crowd;
    }
    end_crowd(oldest);
    oldest->hash = hash;
    oldest->began = now;
    oldest->level = level;
    snprintf(oldest->role, sizeof oldest->role, "%s", role);
    snprintf(oldest->msg, sizeof oldest->msg, "%s", msg);
    return oldest;
}

// Whether this line may be written, or else is one of many that are told in one.
static bool crowd_check(log_level_t level, const char *role, const char *queue, const char *msg, mono_t now) {
    if (!queue) return true;
    crowd_t *crowd = crowd_of(level, role, msg, now);
    if (++crowd->lines <= CROWD_LINES) return true;
    if (crowd->lines <= CROWD_LINES + CROWD_NAMES) buffer_printf(&crowd->names, "%s%s", crowd->names.len ? ", " : "", queue);
    return false;
}

static const char *text_field(const log_field_t *fields, const char *key) {
    for (; fields->key; fields++)
        if (fields->type == LOG_FIELD_STR && strcmp(fields->key, key) == 0) return fields->str;
    return NULL;
}

static char *copy(const char *text) { return text ? mem_str(text) : NULL; }

static rest_t *new_rest(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields) {
    rest_t *rest = mem_alloc(sizeof *rest);
    *rest = (rest_t){.level = level,
                     .role = copy(role),
                     .queue = copy(queue),
                     .msg = copy(msg),
                     .reason = copy(text_field(fields, "reason")),
                     .token = copy(text_field(fields, "token"))};
    state.resting++;
    return rest;
}

static void drop_rest(repeat_t *slot) {
    rest_t *rest = slot->rest;
    if (!rest) return;
    free(rest->role), free(rest->queue), free(rest->msg), free(rest->reason), free(rest->token);
    free(rest);
    slot->rest = NULL;
    slot->left_out = 0;
    state.resting--;
}

// How often it was said again since it was written, and that this is over: whoever reads it may have read that it is well again.
// The next one is news, with all its facts.
static void end_rest(repeat_t *slot, mono_t now) {
    const rest_t *rest = slot->rest;
    const log_field_t fields[] = {F_STR("reason", rest->reason),
                                  F_STR("token", rest->token),
                                  F_INT("seconds_ago", mono_diff(now, rest->last) / NS_PER_S),
                                  {.key = 0}};
    if (crowd_check(rest->level, rest->role, rest->queue, rest->msg, now))
        write_line(rest->level, rest->role, rest->queue, rest->msg, fields, slot->left_out);
    drop_rest(slot);
}

// A storm that is over tells how large it was. One that goes on does so with its next line.
static void end_rests(mono_t now) {
    if (state.resting == 0 || !mono_reached(state.rest_at, now)) return;
    state.rest_at = mono_add(now, NS_PER_S);
    for (size_t i = 0; state.resting > 0 && i < REPEAT_SLOTS; i++) {
        repeat_t *slot = &state.repeats[i];
        if (slot->rest && mono_diff(now, slot->rest->last) >= REPEAT_WINDOW_S * NS_PER_S) end_rest(slot, now);
    }
}

// The slot of this line, or NULL when it is to be left out. *left_out: how many were since it was last written.
static repeat_t *repeat_check(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields,
                              mono_t now, int64_t *left_out) {
    uint64_t hash = hash_text(UINT64_C(14695981039346656037), LEVEL_NAMES[level]);
    hash = hash_text(hash_text(hash_text(hash, role), queue), msg);
    hash = hash_text(hash_text(hash, text_field(fields, "reason")), text_field(fields, "token"));
    repeat_t *slot = repeat_slot(hash);
    bool same = slot->hash == hash && slot->written.ns != 0;
    if (same && mono_diff(now, slot->written) < REPEAT_WINDOW_S * NS_PER_S) {
        if (!slot->rest && !slot->crowded) slot->rest = new_rest(level, role, queue, msg, fields);
        if (slot->rest) slot->rest->last = now;
        slot->left_out++;
        return NULL;
    }
    if (!same && slot->rest) end_rest(slot, now); // it gives way to another message
    *left_out = same ? slot->left_out : 0;
    drop_rest(slot);
    *slot = (repeat_t){.hash = hash, .written = now};
    return slot;
}

static void write_seldom(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields,
                         mono_t now) {
    int64_t left_out;
    repeat_t *slot = repeat_check(level, role, queue, msg, fields, now, &left_out);
    if (!slot) return;
    slot->crowded = !crowd_check(level, role, queue, msg, now);
    if (!slot->crowded) write_line(level, role, queue, msg, fields, left_out);
}

void log_write(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields) {
    if (level > state.level) return;
    pthread_mutex_lock(&state.mutex);
    mono_t now = mono_now();
    end_crowds(now);
    end_rests(now);
    if (level > LOG_WARN)
        write_line(level, role, queue, msg, fields, 0);
    else
        write_seldom(level, role, queue, msg, fields, now);
    pthread_mutex_unlock(&state.mutex);
}

void log_rest(void) {
    pthread_mutex_lock(&state.mutex);
    mono_t now = mono_now();
    end_crowds(now);
    end_rests(now);
    pthread_mutex_unlock(&state.mutex);
}
