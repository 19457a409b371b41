// A role's thread: it calls the role's tick, waits exactly as long as the tick asked, and repeats.
//
// A tick is a plain function; tests call it without a thread.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"

enum { ROLE_FDS = 4 };

// The next wait ends at `until`, or when one of `fds` is readable. Before each tick: mono_never() and no fds.
typedef struct role_wait {
    mono_t until;
    int fds[ROLE_FDS];
    int fd_count;
    bool trouble; // the tick could not do all its work; a later tick tries again
} role_wait_t;

void role_wait_fd(role_wait_t *wait, int fd); // ignores -1
// If retry_at is in the future, marks the wait as trouble and returns true.
bool role_backing_off(role_wait_t *wait, mono_t retry_at);

typedef void role_tick_fn(void *self, role_wait_t *wait);

typedef struct role {
    const char *name;           // static; also the thread's name
    role_tick_fn *tick;         // blocks for one Redis request at most
    void (*finish)(void *self); // last call, in the role's thread, after the stop; may be NULL
    void *self;                 // borrowed
    pthread_t thread;
    bool started;
    atomic_bool stop;        // true: ticks return once their requests in flight have ended
    int wake_fd;             // wakeup_raise ends the wait at once
    int end_fd;              // raised as the last act of the thread
    int told_fd;             // raised then, too: one eventfd for several roles; -1 = none; borrowed
    _Atomic int64_t beat_ns; // CLOCK_BOOTTIME when the last tick ended, for health; 0 = none has ended yet
    _Atomic int64_t good_ns; // when the last tick without trouble ended, or the start; 0 = the last tick had no trouble
    _Atomic int64_t due_ns;  // when the current tick must have ended, or the next one begun; 0 = not running
} role_t;

// A tick longer than this counts as hanging. The limit exceeds every timeout for a reply, a name server or a slow disk.
enum { ROLE_TICK_MAX_S = 120 };

// Allows the current tick this much more time. Does nothing outside a role's thread.
void role_extend_tick(int64_t seconds);

// Prepares *role in the caller's memory. Returns false with errno set when no eventfd is available.
bool role_init(role_t *role, const char *name, role_tick_fn *tick, void (*finish)(void *self), void *self);
bool role_start(role_t *role);                // starts the thread; false with errno set
void role_stop(role_t *role);                 // asks for the end; returns at once
bool role_join(role_t *role, int timeout_ms); // false: the thread has not ended in time
void role_abandon(role_t *role);              // nobody will join the thread: the process ends before it
void role_destroy(role_t *role);              // after a join, or without a start

// Waits as the thread does; for tests.
void role_wait(role_t *role, const role_wait_t *wait);
