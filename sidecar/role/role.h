// The shell around a role: one thread that calls its tick, waits exactly as long as the tick asked, and does so again.
//
// A tick is a plain function that a test calls without a thread.
#ifndef QS_ROLE_ROLE_H
#define QS_ROLE_ROLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"

enum { ROLE_FDS = 4 };

// What a tick waits for next: a time, or one of its sockets having something to read. Reset before each tick to "no time, no
// socket".
typedef struct role_wait {
    mono_t until;
    int fds[ROLE_FDS];
    int fd_count;
    bool trouble; // the tick could not do all that it wanted: it is put off until a time
} role_wait_t;

void role_wait_fd(role_wait_t *wait, int fd); // ignores -1
// Whether the role is to do nothing before this time, and so in trouble.
bool role_backing_off(role_wait_t *wait, mono_t retry_at);

typedef void role_tick_fn(void *self, role_wait_t *wait);

typedef struct role {
    const char *name;           // static; also the thread's name
    role_tick_fn *tick;         // must not wait longer than one request to Redis may take
    void (*finish)(void *self); // last call, in the role's thread, after the stop; may be NULL
    void *self;                 // borrowed
    pthread_t thread;
    bool started;
    atomic_bool stop;        // true: ticks return as soon as what is in flight has ended
    int wake_fd;             // wakeup_raise ends the wait at once
    int end_fd;              // raised as the last act of the thread
    _Atomic int64_t beat_ns; // CLOCK_BOOTTIME at the last end of a tick, for health; 0 = none has ended yet
    _Atomic int64_t good_ns; // the same of the last tick without trouble, or of the start; 0 = the last one had none
    _Atomic int64_t due_ns;  // when the tick under way must have ended, or the next one begun; 0 = it does not run
} role_t;

// A tick that lasts longer than this hangs: longer than the longest wait for a reply, for a name server or for a slow disk.
enum { ROLE_TICK_MOST_S = 120 };

// From within a tick: this one may last so much longer, because it has so much to do. Elsewhere it does nothing.
void role_extend_tick(int64_t seconds);

// Prepares *role (caller's memory). Returns false with errno set when no eventfd is to be had.
bool role_init(role_t *role, const char *name, role_tick_fn *tick, void (*finish)(void *self), void *self);
bool role_start(role_t *role);                // starts the thread; false with errno set
void role_stop(role_t *role);                 // asks for the end; returns at once
bool role_join(role_t *role, int timeout_ms); // false: it has not ended in time
void role_destroy(role_t *role);              // after a join, or without a start

// For tests: waits as the shell does.
void role_wait(role_t *role, const role_wait_t *wait);

#endif
