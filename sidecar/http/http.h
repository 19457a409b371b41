// The http role: health, readiness and metrics for those who look at this instance. Nothing here shows a payload or changes
// anything, and nothing asks Redis or the audit log: answers come from memory.
//
// Whoever can reach the port may be hostile: a request has little room and little time, there are few connections, and when there
// are too many the oldest gives way, so that a probe always gets through.
#ifndef QS_HTTP_HTTP_H
#define QS_HTTP_HTTP_H

#include "config/config.h"
#include "http/health.h"
#include "model/metrics.h"
#include "role/role.h"

typedef struct http http_t;

// `listen` and `port` as http.listen and http.port; borrowed, like the rest. Returns owned; nothing listens yet.
http_t *http_new(const char *listen, int64_t port, health_t *health, metrics_t *metrics);
void http_free(http_t *http); // takes; NULL is fine

// Listens, and answers what has come. A port that is not to be had is said, and tried again.
void http_tick(void *http, role_wait_t *wait);
void http_finish(void *http);

#endif
