/* The setup for tests of private_queues: a monitor in a driver, with main `fights`, private lists `queue-*`, the dead letter list
 * `fights-dlq` and the set of finished ids `fights-done`. */
#pragma once

#include "dialects/letters_fixture.h"

/* Scans as often as possible. Jobs stall after `timeout`; in FIGHTS after 100 ms. */
#define FIGHTS_IN(timeout, settings)                                                                                             \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; queues = ( " FIGHTS_QUEUE("protected_timeout = \"" timeout        \
                                                                                         "\"; " settings) " );"
#define FIGHTS(settings) FIGHTS_IN("100ms", settings)
#define FIGHTS_QUEUE(settings)                                                                                                   \
    "{ name = \"email\"; dialect = \"private_queues\"; main = \"fights\"; private = \"queue-*\"; " settings " }"

static inline void open_fights(setup_t *d, const char *config) { open_setup(d, (fixture_options_t){.config = config}); }

/* Pushes a job to a worker's empty list, as the worker's BLMOVE does. */
static inline void take(setup_t *d, const char *worker, const char *job) { redis_ok(d->f.r, "LPUSH queue-%s %s", worker, job); }
