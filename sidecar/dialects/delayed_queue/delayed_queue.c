// Events of fred84's delayedQueue (github.com/fred84/delayedQueue, 384b808). A zset holds members `<class>###<id>`; the score is
// the next due time. A hash holds the envelope of each event. Each class has one list. A worker removes a handled event from
// zset and hash. Until then the event is sent again and again, so scans are not needed. The promote script quarantines events
// that are out of attempts and events that it cannot send. quarantine.c handles these events.
#include "dialects/delayed_queue/delayed_queue.h"
#include "dialects/delayed_queue/scripts.h"
#include "queue/scripts.h"

static const right_t delayed_rights[] = {
    {RIGHT_SCRIPT(delayed_promote)},
    {RIGHT_SCRIPT(quarantine_read)},
    {RIGHT_SCRIPT(quarantine_settle)},
    {RIGHT_SCRIPT(delayed_requeue)},
    {0},
};

const dialect_ops_t dialect_delayed_queue = {
    .settings = &delayed_settings,
    .promote = &delayed_promote,
    .side_task = &delayed_task,
    .requeue = &delayed_requeue,
    .rights = delayed_rights,
};
