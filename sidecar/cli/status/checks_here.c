// Checks of this machine: its connection, whether an instance answers, and its audit log.
#include "base/text/units.h"
#include "cli/status/checks.h"

int64_t check_connection(const check_subject_t *x, buffer_t *what) {
    if (x->s->reached) return 0;
    char *why = redis_error_without(&x->s->error, x->s->target);
    buffer_printf(what, "Redis at %s: %s", x->s->target, why);
    free(why);
    return 1;
}

int64_t check_instance(const check_subject_t *x, buffer_t *what) {
    buffer_printf(what, "%s %s", x->row->words, x->s->local.why);
    return x->s->local.state == (local_state_t)x->row->variant;
}

int64_t check_log_unreadable(const check_subject_t *x, buffer_t *what) {
    const status_log_t *log = &x->s->log;
    buffer_printf(what, "the local audit log cannot be read: %s", log->why);
    return !log->readable && !log->absent && *log->why;
}

int64_t check_gaps(const check_subject_t *x, buffer_t *what) {
    const status_log_t *log = &x->s->log;
    if (!log->readable || log->open_gaps <= 0) return 0;
    buffer_printf(what, "the local audit log has %s %s: the log was lost, or Redis trimmed records before this log had them",
                  count_text(log->open_gaps).text, log->open_gaps == 1 ? "gap" : "gaps");
    return log->open_gaps;
}
