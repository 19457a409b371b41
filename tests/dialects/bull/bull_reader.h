/* The reader of Bull's failures, called as the monitor calls it. */
#pragma once

#include "dialects/bull/failed.h"
#include "dialects/bull/internal.h"
#include "dialects/failed/failed_reader.h"
#include "dialects/registry.h"

static inline setup_t setup_start_on(fixture_options_t *options, const char *more) {
    options->config =
        kept(mem_printf("group = \"app\"; %s queues = ( { name = \"video\"; dialect = \"bull\"; max_payload = \"64KiB\"; "
                        "trace_path = \"/data/t\"; on_failure = \"told\"; } );",
                        more));
    return setup_open(options, &bull_failed_task);
}

static inline setup_t setup_start_as(const char *more, bool proxy) {
    return setup_start_on(&(fixture_options_t){.proxy = proxy}, more);
}

static inline setup_t setup_start_with(const char *more) { return setup_start_as(more, false); }

static inline setup_t setup_start(void) { return setup_start_with(""); }

/* A worker lets a job fail now; its clock is `ahead_ms` ahead of Redis's. */
static inline void fail(setup_t *setup, const char *id, long long ahead_ms) {
    char finished[32];
    snprintf(finished, sizeof finished, "%lld", redis_ms(setup->f.r) + ahead_ms);
    bull_fail(setup->f.r, id, finished, "boom");
}

static inline void receive_message(setup_t *setup, const char *id, const char *error) {
    char *message = kept_printf("{\"jobId\":\"%s\",\"val\":\"%s\"}", id, error);
    bull_failed_task.on_message(setup->reader, NULL, slice_text(message));
}
