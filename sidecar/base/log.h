// The log: one JSON object a line on stderr, or text on a terminal. Never payloads. Thread-safe; one write(2) a line.
//
// Repeats (same level, role, queue, message and fields `reason` and `token`: each term ends once) of a warning or error are
// written at most once in 10 s; the next one written carries `repeated`, how many were left out, and where no further one comes
// for 10 s a line says that without it, with `seconds_ago`, when the last of them was. Where many queues say the same (level,
// role, message) the first 20 lines in 10 s are written, and then one that carries `more`, how many were left out, and `queues`,
// some of their names. A line that finds no room (nobody reads stderr) is dropped rather than waited for; the next one written
// carries `lines_lost`.
#ifndef QS_BASE_LOG_H
#define QS_BASE_LOG_H

#include <stdint.h>

typedef enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } log_level_t;

// One further field of a line. A string is borrowed; NULL is left out; broken UTF-8 and control bytes are escaped.
typedef struct log_field {
    const char *key; // NULL ends the list
    enum { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_NUM } type;
    const char *str;
    int64_t num;
    double real;
} log_field_t;

#define F_STR(k, v) ((log_field_t){.key = (k), .type = LOG_FIELD_STR, .str = (v)})
#define F_INT(k, v) ((log_field_t){.key = (k), .type = LOG_FIELD_INT, .num = (int64_t)(v)})
#define F_NUM(k, v) ((log_field_t){.key = (k), .type = LOG_FIELD_NUM, .real = (v)})

// json: objects; otherwise text for people. Call once, before any other thread runs.
void log_setup(log_level_t level, int json);
void log_set_level(log_level_t level); // at any time

// `queue` may be NULL. `msg` should be a constant text: facts that vary go into fields.
void log_write(log_level_t level, const char *role, const char *queue, const char *msg, const log_field_t *fields);

// Writes what is due of what was left out, for when nothing else is said. Cheap; called once in a while.
void log_flush_suppressed(void);

// log_error("leader", NULL, "lost the lock", F_STR("lock", name));
#define LOG_AT(level, role, queue, ...)       LOG_AT_(level, role, queue, __VA_ARGS__, ((log_field_t){.key = 0}))
#define LOG_AT_(level, role, queue, msg, ...) log_write(level, role, queue, msg, (const log_field_t[]){__VA_ARGS__})
#define log_error(...)                        LOG_AT(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)                         LOG_AT(LOG_WARN, __VA_ARGS__)
#define log_info(...)                         LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                        LOG_AT(LOG_DEBUG, __VA_ARGS__)

#endif
