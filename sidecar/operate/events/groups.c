#include "operate/events/groups.h"

#define GROUP_BY(first_)                                                                                                         \
    {                                                                                                                            \
        first_, FIELD("failures", NUMBER, audit_count_t, failures), FIELD("open", NUMBER, audit_count_t, open),                  \
            FIELD("requeued", NUMBER, audit_count_t, requeued), FIELD("discarded", NUMBER, audit_count_t, discarded),            \
            FIELD("first_at", TIME, audit_count_t, first_ms), FIELD("last_at", TIME, audit_count_t, last_ms)                     \
    }
static const field_t fields[][GROUP_FIELDS] = {
    [AUDIT_BY_ERROR] = GROUP_BY(FIELD("error", TEXT, audit_count_t, error)),
    [AUDIT_BY_QUEUE] = GROUP_BY(FIELD("queue", TEXT, audit_count_t, queue)),
    [AUDIT_BY_REASON] = GROUP_BY(FIELD("reason", TEXT, audit_count_t, reason)),
    [AUDIT_BY_HOUR] = GROUP_BY(FIELD("hour", TIME, audit_count_t, hour_ms)),
};

const field_t *group_fields(audit_by_t by) { return fields[by]; }

bool group_read_by(const char *word, audit_by_t *by) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(word, fields[i][0].name) == 0) {
            *by = (audit_by_t)i;
            return true;
        }
    return false;
}
