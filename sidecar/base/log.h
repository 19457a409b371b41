// The log: one JSON object a line on stderr, or text on a terminal. Never payloads. Thread-safe; one write(2) a line.
//
// A warning or error that repeats (same level, role, queue, message, `reason` and `token`) is written at most once in 10 s. Its
// next line carries `repeated`, how many lines were suppressed. If it does not come again for 10 s, a separate line has this
// number, and `seconds_ago`, the age of the last suppressed line.
//
// When many queues have the same level, role and message, the first 20 lines in 10 s are written. One more line then carries
// `more`, how many lines were suppressed, and `queues`, some of their names. A message at level info about queues, and one with
// the field `job`, has 1,000 lines a second, and one more line in the same way: a storm of jobs must not become a storm of lines.
// A line with the field `job` never counts as a repeat.
//
// Lines are dropped while stderr is full because nobody reads it. The next line that is written carries `lines_lost`.
#pragma once

#include "base/std.h"

typedef enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } log_level_t;

// A field of a line. A string is borrowed; a field with a NULL string is left out. Broken UTF-8 and control bytes are escaped.
typedef struct log_field {
    const char *key; // NULL ends the list
    enum { LOG_FIELD_STR, LOG_FIELD_SLICE, LOG_FIELD_INT, LOG_FIELD_NUM } type;
    const char *str;
    int64_t num;
    double real;
} log_field_t;

#define F_STR(k, v)   ((log_field_t){.key = (k), .type = LOG_FIELD_STR, .str = (v)})
#define F_SLICE(k, v) ((log_field_t){.key = (k), .type = LOG_FIELD_SLICE, .str = (v).data, .num = (int64_t)(v).len})
#define F_INT(k, v)   ((log_field_t){.key = (k), .type = LOG_FIELD_INT, .num = (int64_t)(v)})
#define F_NUM(k, v)   ((log_field_t){.key = (k), .type = LOG_FIELD_NUM, .real = (v)})

// `json`: 1 = JSON objects, 0 = text. Call once, before any other thread runs.
void log_setup(log_level_t level, int json);
void log_set_level(log_level_t level); // at any time

// `queue` may be NULL. `role` and `msg` are constant texts, kept as pointers; particulars go into fields.
void log_write(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields);

// Reports suppressed lines that are due, as log_write does. Cheap; call it regularly, since log_write may not be called again.
void log_flush_suppressed(void);

// log_error("leader", NULL, "lost the lock", F_STR("lock", name));
#define LOG_AT(level, role, queue, ...)       LOG_AT_(level, role, queue, __VA_ARGS__, ((log_field_t){.key = 0}))
#define LOG_AT_(level, role, queue, msg, ...) log_write(level, role, queue, msg, (const log_field_t[]){__VA_ARGS__})
#define log_error(...)                        LOG_AT(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)                         LOG_AT(LOG_WARN, __VA_ARGS__)
#define log_info(...)                         LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                        LOG_AT(LOG_DEBUG, __VA_ARGS__)
