// The http role: health, readiness and metrics of this instance. It shows no payload, changes nothing and asks neither Redis nor
// the audit log: it answers from memory.
//
// Clients may be hostile: requests are limited in size and time, connections in number. When there are too many connections,
// the oldest is closed, so that a probe always gets through.
#pragma once

#include "config/config.h"
#include "http/health.h"
#include "model/metrics.h"
#include "role/role.h"

typedef struct http http_t;

// `listen` and `port` as http.listen and http.port. Borrows everything, returns owned; does not listen yet.
http_t *http_new(const char *listen, int64_t port, health_t *health, metrics_t *metrics);
void http_free(http_t *http); // NULL is fine

// Tries to listen. Returns false with a reason that names the config key at fault.
bool http_can_listen(const char *listen, int64_t port, char *why, size_t size);

// Listens and answers requests. If it cannot listen, it logs the reason and tries again.
void http_tick(void *http, role_wait_t *wait);
void http_finish(void *http);
