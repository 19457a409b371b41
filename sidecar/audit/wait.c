// How long a connection waits for another writer, and what ends a long statement.

#include "audit/store.h"
#include "base/clock.h"

enum { STOP_STEPS = 10000 }; // instructions of SQLite's virtual machine between two checks of the stop flag
enum { BUSY_TIMEOUT_MS = 5000, WAIT_MS = 10, WAITS = BUSY_TIMEOUT_MS / WAIT_MS, STOP_WAITS = 500 / WAIT_MS };

// A sqlite3_busy_handler. Another writer, such as `audit import` on a slow disk, may take its time; a stop must not wait for it.
static int wait_for_writer(void *stop, int waits) {
    if (waits >= WAITS || (waits >= STOP_WAITS && atomic_load((const atomic_bool *)stop))) return 0;
    nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * NS_PER_MS}, NULL);
    return 1;
}

void audit_set_default_wait(audit_t *audit) {
    if (audit->stop)
        sqlite3_busy_handler(audit->db, wait_for_writer, (void *)audit->stop);
    else
        sqlite3_busy_timeout(audit->db, BUSY_TIMEOUT_MS);
}

void audit_set_busy_timeout(audit_t *audit, int ms) { sqlite3_busy_timeout(audit->db, ms); }

static int wait_is_stopped(void *stop) { return atomic_load((const atomic_bool *)stop); }

void audit_watch_stop(audit_t *audit, bool watch) {
    sqlite3_progress_handler(audit->db, watch && audit->stop ? STOP_STEPS : 0, wait_is_stopped, (void *)audit->stop);
}
