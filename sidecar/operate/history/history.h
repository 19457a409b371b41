// Counts of the leaders in a queue, for each minute of the last day (queue/history/history.h), for people.
#pragma once

#include "queue/history/history.h"

typedef struct history {
    const char *queue; // borrowed
    int step;          // minutes of each slot; 0 = there is no history, and the config wants none
    int64_t from_ms;   // begin of the first slot, since 1970 by Redis's clock
    size_t count;
    history_slot_t *slots; // the oldest first; owned
} history_t;

// Reads the slots that began at `since_ms` or later; 0 = all. The last slot is that of the step that ended last and is stored.
// `out` is owned after each outcome.
outcome_t history_read(const call_t *call, int64_t since_ms, history_t *out);
void history_clear(history_t *history);

// Appends {"queue":..,"step_seconds":..,"from":..,"at":[..],"ready":[..],...}: for each slot its begin and its numbers, null =
// the leader stored no slot, or did not know the number.
void history_json(const history_t *history, buffer_t *out);
