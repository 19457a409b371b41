#include "auditor_log.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

// Another writer is waited for no longer than a stop may take.
enum { PATIENCE_MS = 500 };

static const char ROLE[] = "auditor";

void pen_init(pen_t *pen, const char *path, metrics_t *metrics) {
    *pen = (pen_t){.path = path, .metrics = metrics, .backoff = {.first_ms = 100, .most_ms = 10000}};
}

void pen_rollback(pen_t *pen) {
    if (pen->writing) audit_rollback(pen->audit);
    pen->writing = false;
}

void pen_close(pen_t *pen) {
    pen_rollback(pen);
    audit_close(pen->audit);
    pen->audit = NULL;
}

// Takes the reason. Says it once, and again only when it is another one.
static bool fail(pen_t *pen, buffer_t *why) {
    const char *reason = buffer_text(why);
    if (!pen->failed || strncmp(pen->reason, reason, sizeof pen->reason - 1) != 0)
        log_error(ROLE, NULL, "the audit log cannot be written: nothing is copied until it can", F_STR("path", pen->path),
                  F_STR("reason", reason));
    pen->failed = true;
    snprintf(pen->reason, sizeof pen->reason, "%s", reason);
    buffer_free(why);
    pen_close(pen);
    pen->retry_at = mono_add(mono_now(), backoff_next_ns(&pen->backoff));
    metric_add(&pen->metrics->audit_faults, 1);
    return false;
}

bool pen_open(pen_t *pen, bool *fresh, bool *other) {
    buffer_t why = {0};
    *fresh = *other = false;
    if (pen->audit) return true;
    if (!mono_reached(pen->retry_at, mono_now())) return false;
    pen->audit = audit_open(pen->path, AUDIT_WRITE, &why);
    if (!pen->audit) return fail(pen, &why);
    audit_patience(pen->audit, PATIENCE_MS);
    *fresh = true;
    *other = strcmp(pen->instance, audit_instance(pen->audit)) != 0;
    snprintf(pen->instance, sizeof pen->instance, "%s", audit_instance(pen->audit));
    buffer_free(&why);
    return true;
}

bool pen_position(pen_t *pen, const char *queue, char position[AUDIT_POSITION_SIZE]) {
    buffer_t why = {0};
    return audit_position(pen->audit, queue, position, &why) || fail(pen, &why);
}

bool pen_begin(pen_t *pen) {
    buffer_t why = {0};
    if (pen->writing) return true;
    if (!audit_begin(pen->audit, &why)) return fail(pen, &why);
    pen->writing = true;
    return true;
}

bool pen_put(pen_t *pen, const event_t *event, bool *added) {
    buffer_t why = {0};
    return audit_put(pen->audit, event, added, &why) || fail(pen, &why);
}

bool pen_move(pen_t *pen, const char *queue, const char *position) {
    buffer_t why = {0};
    return audit_move(pen->audit, queue, position, &why) || fail(pen, &why);
}

bool pen_commit(pen_t *pen) {
    buffer_t why = {0};
    if (!audit_commit(pen->audit, &why)) return fail(pen, &why);
    pen->writing = false;
    backoff_reset(&pen->backoff);
    if (pen->failed) log_info(ROLE, NULL, "the audit log is written again", F_STR("path", pen->path));
    pen->failed = false;
    return true;
}
