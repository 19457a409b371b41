// The metrics in Prometheus's text format 0.0.4.
#pragma once

#include "base/buffer.h"
#include "http/health.h"
#include "model/metrics.h"

// Adds every family with HELP and TYPE; all counters exist from the start, at 0.
void http_metrics(metrics_t *metrics, health_t *health, buffer_t *out);

// Adds one row for each family: name, type, labels, help; separated by tabs, as `help metrics` prints them.
void http_metrics_list(buffer_t *out);
