// The http role: health, readiness and metrics of this instance from memory, and the API. It asks neither Redis nor the audit
// log: the api role does.
//
// Clients may be hostile: requests are limited in size and time, connections in number. When there are too many connections,
// the oldest is closed, so that a probe always gets through.
#pragma once

#include "http/api/api.h"
#include "http/health.h"
#include "model/metrics.h"
#include "role/role.h"

typedef struct http http_t;

// `apis`: by lane. Shares `config`, borrows the rest, returns owned; does not listen yet.
http_t *http_new(config_t *config, health_t *health, metrics_t *metrics, api_t *const *apis);
void http_free(http_t *http); // NULL is fine

// Tries to listen. Returns false with a reason that names the config key at fault.
bool http_can_listen(const char *listen, int64_t port, char *why, size_t size);

// Listens and answers requests. If it cannot listen, it logs the reason and tries again.
void http_tick(void *http, role_wait_t *wait);
void http_finish(void *http);
