// The audit log of the api role, which stays open while it is in use.
#pragma once

#include "audit/audit.h"
#include "base/clock.h"
#include "http/api/answer.h"
#include "model/metrics.h"

typedef struct api_log {
    audit_t *audit; // NULL = closed
    mono_t used_at;
    int64_t open_gaps;
    mono_t gaps_at; // when to count the gaps again
} api_log_t;

audit_t *log_open(api_log_t *log, const char *path, answer_t *answer);
void log_close(api_log_t *log);
mono_t log_rest(api_log_t *log); // closes an unused log; returns when to call it again
void log_write_facts(api_log_t *log, const metrics_t *metrics, buffer_t *out);
