// A role's thread. It calls the role's tick, waits as long as the tick asked, and repeats this until it is stopped.
//
// A tick is a plain function, which tests call without a thread.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"

enum { ROLE_FDS = 4 };

// A role waits after a tick: until `until`, or until one of `fds` is readable. The thread hands each tick mono_never() and no
// fds.
typedef struct role_wait {
    mono_t until;
    int fds[ROLE_FDS];
    int fd_count;
    bool trouble; // the tick could not do all its work, and a later tick tries again
} role_wait_t;

void role_wait_fd(role_wait_t *wait, int fd); // ignores -1
// If retry_at is in the future, marks the wait as trouble and returns true.
bool role_backing_off(role_wait_t *wait, mono_t retry_at);

typedef void role_tick_fn(void *self, role_wait_t *wait);

typedef struct role {
    const char *name;           // static; also the thread's name
    role_tick_fn *tick;         // does what is due
    void (*finish)(void *self); // called by the thread after the last tick; NULL = nothing to do
    void *self;                 // argument of tick and finish; borrowed
    pthread_t thread;
    bool started;     // the thread was started, and not joined
    atomic_bool stop; // a tick that sees it returns once its requests in flight have ended, and is the last one
    // Eventfds (base/wakeup.h).
    int wake_fd; // ends the wait
    int end_fd;  // the thread raises it as its last act
    int told_fd; // and this one, which several roles share; borrowed; -1 = none
    // For health: ns of CLOCK_BOOTTIME.
    _Atomic int64_t beat_ns; // end of the last tick; 0 = none has ended yet
    _Atomic int64_t good_ns; // while ticks have trouble, the end of the last one without; 0 = the last one had none
    _Atomic int64_t due_ns;  // latest end of this tick, or latest beginning of the next one; 0 = the thread does not run
} role_t;

// A tick longer than this counts as hanging. The limit exceeds every timeout for a reply, a name server or a slow disk.
enum { ROLE_TICK_MAX_S = 120 };

// Allows the current tick this much more time. Does nothing outside a role's thread.
void role_extend_tick(int64_t seconds);

// Prepares *role in the caller's memory. False with errno set: no eventfd is available.
bool role_init(role_t *role, const char *name, role_tick_fn *tick, void (*finish)(void *self), void *self);
bool role_start(role_t *role);                // starts the thread; false with errno set
void role_stop(role_t *role);                 // asks the thread to end, and returns at once
bool role_join(role_t *role, int timeout_ms); // waits for its end; false: it has not ended in time
void role_abandon(role_t *role);              // instead of a join, if the process ends before the thread
void role_destroy(role_t *role);              // frees what role_init took; not while the thread runs

// Waits as the thread does; for tests.
void role_wait(role_t *role, const role_wait_t *wait);
