#include "http/probes.h"

#include "http/metrics_text.h"

static unsigned probe_healthz(health_t *health, metrics_t *metrics, buffer_t *body) {
    (void)metrics;
    if (!health_alive(health, body)) return 503;
    buffer_str(body, "ok\n");
    return 200;
}

static unsigned probe_readyz(health_t *health, metrics_t *metrics, buffer_t *body) {
    (void)metrics;
    return health_ready(health, body) ? 200 : 503;
}

static unsigned probe_metrics(health_t *health, metrics_t *metrics, buffer_t *body) {
    http_metrics(metrics, health, body);
    return 200;
}

static const struct probe {
    const char *path;
    const char *type;
    unsigned (*write)(health_t *health, metrics_t *metrics, buffer_t *body);
} probes[] = {
    {"/healthz", "text/plain; charset=utf-8", probe_healthz},
    {"/readyz", "application/json", probe_readyz},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", probe_metrics},
};

static const struct probe *probe_find(const char *path) {
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (strcmp(probes[i].path, path) == 0) return &probes[i];
    return NULL;
}

bool probe_is(const char *path) { return probe_find(path) != NULL; }

unsigned probe_write(const char *path, health_t *health, metrics_t *metrics, const char **type, buffer_t *body) {
    const struct probe *probe = probe_find(path);
    if (!probe) return 0;
    *type = probe->type;
    return probe->write(health, metrics, body);
}
