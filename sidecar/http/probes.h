// The pages of probes and scrapers: health, readiness and metrics. Everybody may read them, from any host.
#pragma once

#include "http/health.h"

// Appends the page. Returns the HTTP status and the content type; 0 = no such page.
unsigned probe_write(const char *path, health_t *health, metrics_t *metrics, const char **type, buffer_t *body);
bool probe_is(const char *path);
