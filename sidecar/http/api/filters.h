// The filters of failures, which queries and orders have.
#pragma once

#include "http/api/params.h"
#include "operate/filter.h"

// clang-format off
#define FAILURE_FILTERS                                                                                                                  \
    {"queue", PARAM_TEXT, 1, 1024, NULL, false, "only failures of this queue"},                                                  \
    {"reason", PARAM_WORD, 0, 0, AUDIT_FAILURE_REASONS, false, "only failures with this reason"},                                \
    {"state", PARAM_WORD, 0, 0, AUDIT_STATES, false, "only failures in this state; open is failed"},                           \
    {"type", PARAM_TEXT, 1, 1024, NULL, false, "only jobs of this type"},                                                        \
    {"worker", PARAM_TEXT, 1, 1024, NULL, false, "only failures at this worker"},                                                \
    {"job", PARAM_TEXT, 1, 4096, NULL, false, "only the job with this id"},                                                      \
    {"group", PARAM_TEXT, 1, 128, NULL, false, "only failures that this group recorded"},                                        \
    {"trace", PARAM_TEXT, 32, 32, NULL, false, "only failures of this trace: the 32 hex digits in their traceparent"},            \
    {"text", PARAM_TEXT, 1, 4096, NULL, false, "only with this text in error or job id, and in the payload with the right payloads"}, \
    {"ignore_case", PARAM_BOOL, 0, 0, NULL, false, "whether upper and lower case of text are the same"},                         \
    {"since", PARAM_TIME, 0, 0, NULL, false, "only at or after this time: an age (90s, 30m, 2h, 7d, 1w), or 2026-11-21, 2026-11-21T02:00:00Z"}, \
    {"until", PARAM_TIME, 0, 0, NULL, false, "only before this time, in the same forms"}
// clang-format on

extern const param_t failure_filters[];
extern const size_t failure_filter_count;
