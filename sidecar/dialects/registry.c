#include "dialects/registry.h"

static const dialect_ops_t *const registry[] = {
#define X(name) &dialect_##name,
    DIALECTS(X)
#undef X
};

enum { REGISTRY_COUNT = sizeof registry / sizeof *registry };

const config_dialect_t *dialect_settings(size_t index) { return index < REGISTRY_COUNT ? registry[index]->settings : NULL; }

const scan_ops_t *dialect_scan(const queue_config_t *queue) {
    const scan_ops_t *scan = dialect_ops(queue->dialect)->scan;
    return scan && scan->rotation && !*queue->backup ? NULL : scan;
}

const dialect_ops_t *dialect_ops(const config_dialect_t *settings) {
    for (size_t i = 0; i < REGISTRY_COUNT; i++)
        if (registry[i]->settings == settings) return registry[i];
    return NULL;
}
