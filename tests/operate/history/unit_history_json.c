/* The JSON of a queue's history. */
#include "operate/history/history.h"
#include "suite.h"

Test(unit_history_json, slots_are_columns_and_what_nobody_counted_is_null) {
    history_slot_t slots[] = {
        {.written = true, .sample = {.ready = 3, .delayed = 2, .in_progress = 1, .late_ms = 1234, .failures = 5}},
        {0},
        {.written = true, .sample = {.ready = 4294967294, .delayed = -1, .in_progress = -1, .late_ms = -1}},
    };
    const history_t history = {.queue = "a\"b", .step = 5, .from_ms = 1795226400000, .count = 3, .slots = slots};
    scoped(buffer_free) buffer_t out = {0};
    history_json(&history, &out);
    cr_assert_str_eq(
        buffer_text(&out),
        "{\"queue\":\"a\\\"b\",\"step_seconds\":300,\"from\":\"2026-11-21T02:00:00.000Z\",\"at\":[\"2026-11-21T02:00:00.000Z\","
        "\"2026-11-21T02:05:00.000Z\",\"2026-11-21T02:10:00.000Z\"],\"ready\":[3,null,4294967294],\"delayed\":[2,null,null],"
        "\"in_progress\":[1,null,null],\"late_seconds\":[1.234,null,null],\"failures\":[5,null,0]}");
}

Test(unit_history_json, no_history_has_no_step) {
    scoped(buffer_free) buffer_t out = {0};
    history_json(&(history_t){.queue = "q"}, &out);
    cr_assert_str_eq(buffer_text(&out),
                     "{\"queue\":\"q\",\"step_seconds\":null,\"from\":null,\"at\":[],\"ready\":[],\"delayed\":[],"
                     "\"in_progress\":[],\"late_seconds\":[],\"failures\":[]}");
}
