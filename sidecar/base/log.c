#include "base/log.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/text/terminal_escape.h"
#include "base/utf8.h"

enum {
    REPEAT_SLOTS = 4096,
    REPEAT_PROBES = 8, // slots in which a message may be
    REPEAT_WINDOW_S = 10,
    BURSTS = 16,      // tracked at once
    BURST_NAMES = 10, // queues that the last line names
    LEVEL_AT = 13,    // column of the level in a line of text
    LEVEL_WIDTH = 5,
};

// At most so many lines of one message are written in a window. A warning or an error concerns a queue, a line at level info
// often a job, and a line with the field `job` counts as one. At level debug every line is written.
static const struct burst_limit {
    int lines, seconds;
} BURST_LIMITS[] = {[LOG_ERROR] = {20, REPEAT_WINDOW_S}, [LOG_WARN] = {20, REPEAT_WINDOW_S}, [LOG_INFO] = {1000, 1}};

// A message to write; `queue` may be NULL.
typedef struct message {
    log_level_t level;
    const char *role, *queue, *msg;
    const log_field_t *fields;
} message_t;

// The identity of a repeated message, kept to report the lines that were suppressed.
typedef struct suppressed {
    log_level_t level;
    mono_t last; // when the last line was suppressed
    const char *role, *msg;
    char *queue, *reason, *token; // owned
} suppressed_t;

// A message that was written lately. When another message takes the slot over, one line too many is written, never one too few.
typedef struct repeat {
    uint64_t hash;
    mono_t written;
    int64_t count;            // lines suppressed since then
    bool in_burst;            // it was not written: the line that ends the burst counts it
    suppressed_t *suppressed; // owned; NULL = nothing to report
} repeat_t;

// The lines of one message. If no slot is free, the oldest burst ends early, and extra lines are written.
typedef struct burst {
    uint64_t hash;
    mono_t began;             // of the window
    int64_t lines;            // written and suppressed; 0 = the slot is free
    log_level_t level, limit; // limit: of BURST_LIMITS
    const char *role, *msg;
    buffer_t names; // some of the queues whose lines were suppressed
} burst_t;

// Apart from `state`, which is in the program's file: pages of this array that no message uses take no memory.
static repeat_t repeats[REPEAT_SLOTS];

// The mutex guards all fields but the first three, and the repeats.
static struct {
    _Atomic log_level_t level;
    int json;
    bool colours;
    pthread_mutex_t mutex;
    size_t suppressing; // repeats that have something to report
    mono_t check_at;    // when to look for a repeat that is due
    burst_t bursts[BURSTS];
    int64_t dropped; // lines dropped since the last written line
} state = {.level = LOG_INFO, .json = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const LEVEL_NAMES[] = {"error", "warn", "info", "debug"};

void log_setup(log_level_t level, int json) {
    state.level = level;
    state.json = json;
    state.colours = !json && terminal_takes_colours(STDERR_FILENO);
}

void log_set_level(log_level_t level) { state.level = level; }

// FNV-1a over all texts; NULL counts as "".
static uint64_t log_hash(const char *const *texts, size_t count) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++) {
        for (const char *text = texts[i]; text && *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
        hash = (hash ^ 0xff) * UINT64_C(1099511628211);
    }
    return hash;
}

static void log_add_text(buffer_t *line, slice_t text, int json) {
    bool quotes = json || text.len == 0;
    for (size_t i = 0; i < text.len && !quotes; i++) quotes = strchr(" \t\"=", text.data[i]) != NULL;
    if (quotes)
        json_write_string(line, text);
    else
        utf8_escape(line, text.data, text.len, "\\");
}

static void log_add_value(buffer_t *line, const log_field_t *field, int json) {
    if (field->type == LOG_FIELD_INT) {
        buffer_printf(line, "%lld", (long long)field->num);
    } else if (field->type == LOG_FIELD_NUM) {
        if (isfinite(field->real))
            buffer_printf(line, "%.15g", field->real);
        else
            json_write_string(line, slice_text(isnan(field->real) ? "nan" : field->real > 0 ? "inf" : "-inf"));
    } else {
        log_add_text(line, field->type == LOG_FIELD_STR ? slice_text(field->str) : (slice_t){field->str, (size_t)field->num},
                     json);
    }
}

static void log_add_field(buffer_t *line, const log_field_t *field, int json) {
    if (field->type == LOG_FIELD_STR && !field->str) return;
    buffer_printf(line, json ? ",\"%s\":" : " %s=", field->key);
    log_add_value(line, field, json);
}

static void log_add_head(buffer_t *line, const message_t *message) {
    char ts[32];
    wall_text(ts, sizeof ts);
    if (state.json) {
        buffer_printf(line, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", ts, LEVEL_NAMES[message->level]);
        json_write_string(line, slice_text(message->msg));
    } else {
        buffer_printf(line, "%.12s %-*s ", ts + 11, LEVEL_WIDTH, LEVEL_NAMES[message->level]);
        utf8_escape(line, message->msg, strlen(message->msg), "");
    }
}

// A full pipe must not block a role: the leader would lose its lock. So drop and count a line that finds no room. POLLOUT
// promises room for PIPE_BUF bytes; a line is shorter.
static void log_put_line(const buffer_t *line) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT)) {
        state.dropped++;
        return;
    }
    if (write(STDERR_FILENO, line->data, line->len) < 0) state.dropped++; // there is nowhere left to report it
}

// Escapes a line of text. On a terminal the level gets a colour; an escape of the line itself cannot set one.
static void log_make_harmless(buffer_t *line, log_level_t level) {
    static const char *const COLOURS[] = {
        [LOG_ERROR] = "\x1b[1;31m", [LOG_WARN] = "\x1b[33m", [LOG_INFO] = "", [LOG_DEBUG] = "\x1b[2m"};
    const char *colour = state.colours ? COLOURS[level] : "";
    buffer_t safe = {0};
    buffer_add(&safe, line->data, LEVEL_AT);
    buffer_str(&safe, colour);
    buffer_add(&safe, line->data + LEVEL_AT, LEVEL_WIDTH);
    if (*colour) buffer_str(&safe, "\x1b[0m");
    terminal_escape(&safe, (slice_t){line->data + LEVEL_AT + LEVEL_WIDTH, line->len - LEVEL_AT - LEVEL_WIDTH}, false);
    buffer_free(line);
    *line = safe;
}

static void log_write_line(const message_t *message, int64_t repeated) {
    buffer_t line = {0};
    log_add_head(&line, message);
    log_add_field(&line, &F_STR("role", message->role), state.json);
    log_add_field(&line, &F_STR("queue", message->queue), state.json);
    for (const log_field_t *field = message->fields; field->key; field++) log_add_field(&line, field, state.json);
    if (repeated > 0) log_add_field(&line, &F_INT("repeated", repeated), state.json);
    int64_t dropped = state.dropped;
    if (dropped > 0) log_add_field(&line, &F_INT("lines_lost", dropped), state.json);
    if (!state.json) log_make_harmless(&line, message->level);
    buffer_str(&line, state.json ? "}\n" : "\n");
    log_put_line(&line);
    if (state.dropped == dropped) state.dropped = 0;
    buffer_free(&line);
}

static void burst_end(burst_t *burst) {
    int64_t more = burst->lines - BURST_LIMITS[burst->limit].lines;
    const log_field_t fields[] = {F_INT("more", more), F_STR("queues", buffer_text(&burst->names)), {.key = 0}};
    if (more > 0) log_write_line(&(message_t){burst->level, burst->role, NULL, burst->msg, fields}, 0);
    buffer_free(&burst->names);
    *burst = (burst_t){0};
}

static void burst_end_due(mono_t now) {
    for (int i = 0; i < BURSTS; i++)
        if (state.bursts[i].lines > 0 &&
            mono_diff(now, state.bursts[i].began) >= BURST_LIMITS[state.bursts[i].limit].seconds * NS_PER_S)
            burst_end(&state.bursts[i]);
}

// People search the log for the id of a job, so no other line stands for this one.
static bool message_names_job(const message_t *message) {
    for (const log_field_t *field = message->fields; field->key; field++)
        if (strcmp(field->key, "job") == 0) return true;
    return false;
}

static burst_t *burst_of(const message_t *message, mono_t now) {
    uint64_t hash = log_hash((const char *[]){LEVEL_NAMES[message->level], message->role, message->msg}, 3);
    burst_t *oldest = &state.bursts[0];
    for (int i = 0; i < BURSTS; i++) {
        burst_t *burst = &state.bursts[i];
        if (burst->lines > 0 && burst->hash == hash) return burst;
        if (burst->lines == 0 || (oldest->lines > 0 && burst->began.ns < oldest->began.ns)) oldest = burst;
    }
    burst_end(oldest);
    *oldest = (burst_t){.hash = hash,
                        .began = now,
                        .level = message->level,
                        .limit = message_names_job(message) ? LOG_INFO : message->level,
                        .role = message->role,
                        .msg = message->msg};
    return oldest;
}

static bool burst_names(const burst_t *burst, const char *queue) {
    const char *names = buffer_text(&burst->names);
    size_t len = strlen(queue);
    for (const char *at = names; len && (at = strstr(at, queue)); at += len)
        if ((at == names || at[-1] == ' ') && (at[len] == ',' || at[len] == '\0')) return true;
    return false;
}

// Whether this line may be written. False: the line that ends the burst counts it.
static bool burst_allows(const message_t *message, mono_t now) {
    if (!message->queue || message->level == LOG_DEBUG) return true;
    burst_t *burst = burst_of(message, now);
    int64_t more = ++burst->lines - BURST_LIMITS[burst->limit].lines;
    if (more > 0 && more <= BURST_NAMES && !burst_names(burst, message->queue))
        buffer_printf(&burst->names, "%s%s", burst->names.len ? ", " : "", message->queue);
    return more <= 0;
}

static const char *log_text_field(const log_field_t *fields, const char *key) {
    for (; fields->key; fields++)
        if (fields->type == LOG_FIELD_STR && strcmp(fields->key, key) == 0) return fields->str;
    return NULL;
}

// Returns the slot of this message, else the oldest slot that it may use.
static repeat_t *repeat_slot(uint64_t hash) {
    repeat_t *oldest = &repeats[hash % REPEAT_SLOTS];
    for (uint64_t i = 0; i < REPEAT_PROBES; i++) {
        repeat_t *slot = &repeats[(hash + i) % REPEAT_SLOTS];
        if (slot->hash == hash) return slot;
        if (slot->written.ns < oldest->written.ns) oldest = slot;
    }
    return oldest;
}

static suppressed_t *repeat_suppress(const message_t *message) {
    suppressed_t *suppressed = mem_alloc(sizeof *suppressed);
    *suppressed = (suppressed_t){.level = message->level,
                                 .role = message->role,
                                 .msg = message->msg,
                                 .queue = mem_str(message->queue),
                                 .reason = mem_str(log_text_field(message->fields, "reason")),
                                 .token = mem_str(log_text_field(message->fields, "token"))};
    state.suppressing++;
    return suppressed;
}

static void repeat_forget(repeat_t *slot) {
    suppressed_t *suppressed = slot->suppressed;
    if (!suppressed) return;
    free(suppressed->queue);
    free(suppressed->reason);
    free(suppressed->token);
    free(suppressed);
    slot->suppressed = NULL;
    slot->count = 0;
    state.suppressing--;
}

// Reports how often the message was repeated since it was written, and when it last came: without this line a reader could
// believe that the problem is over. The next line of this message has all its fields again.
static void repeat_end(repeat_t *slot, mono_t now) {
    const suppressed_t *suppressed = slot->suppressed;
    const log_field_t fields[] = {F_STR("reason", suppressed->reason),
                                  F_STR("token", suppressed->token),
                                  F_INT("seconds_ago", mono_diff(now, suppressed->last) / NS_PER_S),
                                  {.key = 0}};
    const message_t message = {suppressed->level, suppressed->role, suppressed->queue, suppressed->msg, fields};
    if (burst_allows(&message, now)) log_write_line(&message, slot->count);
    repeat_forget(slot);
}

static void repeat_end_due(mono_t now) {
    if (state.suppressing == 0 || !mono_reached(state.check_at, now)) return;
    state.check_at = mono_add(now, NS_PER_S);
    for (size_t i = 0; state.suppressing > 0 && i < REPEAT_SLOTS; i++) {
        repeat_t *slot = &repeats[i];
        if (slot->suppressed && mono_diff(now, slot->suppressed->last) >= REPEAT_WINDOW_S * NS_PER_S) repeat_end(slot, now);
    }
}

static void log_write_deduplicated(const message_t *message, mono_t now) {
    const char *identity[] = {LEVEL_NAMES[message->level],
                              message->role,
                              message->queue,
                              message->msg,
                              log_text_field(message->fields, "reason"),
                              log_text_field(message->fields, "token")};
    uint64_t hash = log_hash(identity, sizeof identity / sizeof *identity);
    repeat_t *slot = repeat_slot(hash);
    bool same = slot->hash == hash && slot->written.ns != 0;
    if (same && mono_diff(now, slot->written) < REPEAT_WINDOW_S * NS_PER_S) {
        if (!slot->suppressed && !slot->in_burst) slot->suppressed = repeat_suppress(message);
        if (slot->suppressed) slot->suppressed->last = now;
        slot->count++;
        return;
    }
    if (!same && slot->suppressed) repeat_end(slot, now); // another message takes the slot
    int64_t repeated = same ? slot->count : 0;
    repeat_forget(slot);
    *slot = (repeat_t){.hash = hash, .written = now, .in_burst = !burst_allows(message, now)};
    if (!slot->in_burst) log_write_line(message, repeated);
}

static mono_t log_lock(void) {
    pthread_mutex_lock(&state.mutex);
    mono_t now = mono_now();
    burst_end_due(now);
    repeat_end_due(now);
    return now;
}

void log_write(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields) {
    if (level > state.level) return;
    const message_t message = {level, role, queue, msg, fields};
    mono_t now = log_lock();
    if (level <= LOG_WARN && !message_names_job(&message))
        log_write_deduplicated(&message, now);
    else if (burst_allows(&message, now))
        log_write_line(&message, 0);
    pthread_mutex_unlock(&state.mutex);
}

void log_flush_suppressed(void) {
    log_lock();
    pthread_mutex_unlock(&state.mutex);
}
