#include "role/role.h"

#include <poll.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "base/wakeup.h"

enum { STACK_BYTES = 256 * 1024 };

void role_wait_fd(role_wait_t *wait, int fd) {
    if (fd < 0) return;
    assert(wait->fd_count < ROLE_FDS); // else the role would sleep through its messages
    wait->fds[wait->fd_count++] = fd;
}

bool role_backing_off(role_wait_t *wait, mono_t retry_at) {
    bool backing_off = !mono_reached(retry_at, mono_now());
    wait->trouble = wait->trouble || backing_off;
    return backing_off;
}

bool role_init(role_t *role, const char *name, role_tick_fn *tick, void (*finish)(void *self), void *self) {
    *role = (role_t){.name = name, .tick = tick, .finish = finish, .self = self, .told_fd = -1};
    role->wake_fd = wakeup_new();
    role->end_fd = wakeup_new();
    return role->wake_fd >= 0 && role->end_fd >= 0;
}

void role_wait(role_t *role, const role_wait_t *wait) {
    struct pollfd ready[ROLE_FDS + 1] = {{.fd = role->wake_fd, .events = POLLIN}};
    for (int i = 0; i < wait->fd_count; i++) ready[i + 1] = (struct pollfd){.fd = wait->fds[i], .events = POLLIN};
    struct timespec left;
    if (ppoll(ready, (nfds_t)wait->fd_count + 1, mono_timeout(wait->until, &left), NULL) > 0 && ready[0].revents)
        wakeup_clear(role->wake_fd);
}

// The longest delay of a wake-up on a loaded machine.
enum { LATE_S = 60 };

static void role_expect_until(role_t *role, mono_t until, int64_t seconds) {
    atomic_store(&role->due_ns, mono_add(until, seconds * NS_PER_S).ns);
}

static _Thread_local role_t *role_current; // the role of this thread; NULL = another thread

void role_extend_tick(int64_t seconds) {
    if (role_current) role_expect_until(role_current, mono_now(), ROLE_TICK_MAX_S + seconds);
}

static void *role_main(void *arg) {
    role_t *role = role_current = arg;
    mono_t good = mono_now();
    prctl(PR_SET_NAME, role->name);
    prctl(PR_SET_TIMERSLACK, 1UL); // ns; the default, 50 us, would dominate the lateness
    while (!atomic_load(&role->stop)) {
        role_wait_t wait = {.until = mono_never()};
        role_expect_until(role, mono_now(), ROLE_TICK_MAX_S);
        role->tick(role->self, &wait);
        log_flush_suppressed();
        mono_t ended = mono_now();
        if (!wait.trouble) good = ended;
        atomic_store(&role->good_ns, wait.trouble ? good.ns : 0);
        atomic_store(&role->beat_ns, ended.ns);
        role_expect_until(role, wait.until, LATE_S);
        if (!atomic_load(&role->stop)) role_wait(role, &wait);
    }
    if (role->finish) role->finish(role->self);
    atomic_store(&role->due_ns, 0);
    wakeup_raise(role->end_fd); // the owner waits for the end of the thread before it frees the role
    wakeup_raise(role->told_fd);
    return NULL;
}

bool role_start(role_t *role) {
    assert(!role->started); // two threads would mix their requests on one connection
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    int failed = pthread_create(&role->thread, &attr, role_main, role);
    pthread_attr_destroy(&attr);
    role->started = failed == 0;
    errno = failed;
    return role->started;
}

void role_stop(role_t *role) {
    atomic_store(&role->stop, true);
    wakeup_raise(role->wake_fd);
}

bool role_join(role_t *role, int timeout_ms) {
    if (!role->started) return true;
    // Not pthread_clockjoin_np: the thread sanitizer does not know it and reports false races afterwards.
    struct pollfd ended = {.fd = role->end_fd, .events = POLLIN};
    mono_t deadline = mono_add(mono_now(), timeout_ms * NS_PER_MS);
    while (poll(&ended, 1, timeout_ms) != 1) {
        int64_t left = mono_diff(deadline, mono_now());
        if (left <= 0) return false;
        timeout_ms = (int)(left / NS_PER_MS) + 1;
    }
    pthread_join(role->thread, NULL);
    role->started = false;
    return true;
}

void role_abandon(role_t *role) {
    if (!role_join(role, 0)) pthread_detach(role->thread);
}

void role_destroy(role_t *role) {
    assert(!role->started);
    if (role->wake_fd >= 0) close(role->wake_fd);
    if (role->end_fd >= 0) close(role->end_fd);
    role->wake_fd = role->end_fd = -1;
}
