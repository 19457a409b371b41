#include "http/metrics_text.h"

#include <inttypes.h>

static const char LATENESS[] = "lateness_seconds";
static const char LATENESS_HELP[] =
    "when a job reached ready, less its due time; each of a batch counts as late as the oldest one in it";
static const char BUILD_HELP[] = "always 1; the version stands in the label";
static const char TURNS_HELP[] = "1 while the role's loop turns as it should";
static const char IDLE_HELP[] = "time since the role's last tick ended; -1 before the first one";
static const char TROUBLE_HELP[] = "time since the role's last tick that could do all it wanted; 0 = its last one could";
static const char COUNTER[] = "counter";
static const char GAUGE[] = "gauge";
// Prometheus sees a size as a gauge.
#define LEVEL GAUGE
#define SINCE GAUGE
enum { IS_LEVEL = false, IS_SINCE = true };

// One metric family over all queues.
typedef struct family {
    buffer_t *out;
    const metrics_t *metrics;
    mono_t now;
    const char *name;
    size_t offset; // of the number in metrics_queue_t, or of the first of an array
    double scale;
    bool is_age;               // the number is a time; the metric is the age in seconds
    const char *label;         // beside `queue`
    const char *const *values; // of the label, NULL-terminated
} family_t;

static void metrics_add_head(buffer_t *out, const char *name, const char *type, const char *help) {
    buffer_printf(out, "# HELP " METRICS_PREFIX "%s %s\n# TYPE " METRICS_PREFIX "%s %s\n", name, help, name, type);
}

// Escapes a backslash, a quote and a line feed, as the text format 0.0.4 requires.
static void metrics_add_label(buffer_t *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"') buffer_str(out, "\\");
        if (*text == '\n')
            buffer_str(out, "\\n");
        else
            buffer_add(out, text, 1);
    }
}

static void metrics_add_value(buffer_t *out, int64_t number, double scale) {
    if (scale > 1)
        buffer_printf(out, " %.15g\n", (double)number / scale);
    else
        buffer_printf(out, " %" PRId64 "\n", number);
}

static int64_t metrics_family_value(const family_t *family, const metrics_queue_t *queue) {
    return metric_get((const void *)((const char *)queue + family->offset));
}

static void metrics_add_number(const family_t *family, const metrics_queue_t *queue, int64_t number) {
    buffer_printf(family->out, METRICS_PREFIX "%s{queue=\"", family->name);
    metrics_add_label(family->out, queue->name);
    buffer_str(family->out, "\"}");
    metrics_add_value(family->out, number, family->scale);
}

static void metrics_add_row(void *self, const metrics_queue_t *queue) {
    metrics_add_number(self, queue, metrics_family_value(self, queue));
}

static void metrics_add_setting(void *self, const metrics_queue_t *queue) {
    if (metrics_family_value(self, queue) >= 0) metrics_add_row(self, queue);
}

// A size is reported only while it is fresh.
static void metrics_add_size(void *self, const metrics_queue_t *queue) {
    const family_t *family = self;
    int64_t found = metrics_family_value(family, queue);
    if (found < 0 || !metrics_counted(queue, family->now)) return;
    metrics_add_number(family, queue, family->is_age ? metrics_age_ms(family->metrics, found, family->now) : found);
}

static void metrics_add_values(void *self, const metrics_queue_t *queue) {
    const family_t *family = self;
    const metric_t *numbers = (const void *)((const char *)queue + family->offset);
    for (size_t i = 0; family->values[i]; i++) {
        buffer_printf(family->out, METRICS_PREFIX "%s{queue=\"", family->name);
        metrics_add_label(family->out, queue->name);
        buffer_printf(family->out, "\",%s=\"%s\"}", family->label, family->values[i]);
        metrics_add_value(family->out, metric_get(&numbers[i]), 1);
    }
}

static void metrics_add_buckets(void *self, const metrics_queue_t *queue) {
    static const int64_t bounds[METRICS_LATENESS_BUCKETS - 1] = METRICS_LATENESS_BOUNDS;
    const family_t *family = self;
    int64_t sum = 0;
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS; i++) {
        sum += metric_get(&queue->lateness[i]);
        buffer_printf(family->out, METRICS_PREFIX "%s_bucket{queue=\"", family->name);
        metrics_add_label(family->out, queue->name);
        if (i < METRICS_LATENESS_BUCKETS - 1)
            buffer_printf(family->out, "\",le=\"%.9g\"} %" PRId64 "\n", (double)bounds[i] / 1e6, sum);
        else
            buffer_printf(family->out, "\",le=\"+Inf\"} %" PRId64 "\n", sum);
    }
    buffer_printf(family->out, METRICS_PREFIX "%s_sum{queue=\"", family->name);
    metrics_add_label(family->out, queue->name);
    buffer_printf(family->out, "\"} %.15g\n" METRICS_PREFIX "%s_count{queue=\"", (double)metric_get(&queue->lateness_us) / 1e6,
                  family->name);
    metrics_add_label(family->out, queue->name);
    buffer_printf(family->out, "\"} %" PRId64 "\n", sum);
}

static void metrics_add_roles(health_t *health, buffer_t *out) {
    health_beat_t beats[HEALTH_ROLES];
    size_t count = health_beats(health, beats);
    metrics_add_head(out, "role_turns", GAUGE, TURNS_HELP);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, METRICS_PREFIX "role_turns{role=\"%s\"} %d\n", beats[i].name, beats[i].turns);
    metrics_add_head(out, "role_idle_seconds", GAUGE, IDLE_HELP);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, METRICS_PREFIX "role_idle_seconds{role=\"%s\"} %.3f\n", beats[i].name, beats[i].age_s);
    metrics_add_head(out, "role_trouble_seconds", GAUGE, TROUBLE_HELP);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, METRICS_PREFIX "role_trouble_seconds{role=\"%s\"} %.3f\n", beats[i].name, beats[i].trouble_s);
}

static void metrics_add_sizes(family_t *family, metrics_t *metrics) {
#define X(field, kind, name_, scale_, help)                                                                                      \
    metrics_add_head(family->out, name_, kind, help);                                                                            \
    family->name = (name_);                                                                                                      \
    family->offset = offsetof(metrics_queue_t, field);                                                                           \
    family->scale = (scale_);                                                                                                    \
    family->is_age = IS_##kind;                                                                                                  \
    metrics_each(metrics, metrics_add_size, family);
    METRICS_SIZES(X)
#undef X
}

static void metrics_add_settings(family_t *family, metrics_t *metrics) {
#define X(field, name_, scale_, key, help)                                                                                       \
    metrics_add_head(family->out, name_, GAUGE, help);                                                                           \
    family->name = (name_);                                                                                                      \
    family->offset = offsetof(metrics_queue_t, field);                                                                           \
    family->scale = (scale_);                                                                                                    \
    metrics_each(metrics, metrics_add_setting, family);
    METRICS_SETTINGS(X)
#undef X
}

#define VALUE(metrics_add_value) #metrics_add_value,
static void metrics_add_labelled(family_t *family, metrics_t *metrics) {
#define X(field, name_, label_, metrics_add_list_row, help)                                                                      \
    {                                                                                                                            \
        static const char *const values[] = {metrics_add_list_row(VALUE) NULL};                                                  \
        metrics_add_head(family->out, name_, COUNTER, help);                                                                     \
        family->name = (name_);                                                                                                  \
        family->offset = offsetof(metrics_queue_t, field);                                                                       \
        family->label = (label_);                                                                                                \
        family->values = values;                                                                                                 \
        metrics_each(metrics, metrics_add_values, family);                                                                       \
    }
    METRICS_BY_LABEL(X)
#undef X
}
#undef VALUE

void http_metrics(metrics_t *metrics, health_t *health, buffer_t *out) {
    family_t family = {.out = out, .metrics = metrics, .now = mono_now()};
    metrics_grow(metrics, family.now);
    if (metrics_scraped(metrics, family.now)) health_wake(health, "leader"); // the leader measures the sizes
    metrics_add_head(out, "build_info", GAUGE, BUILD_HELP);
    buffer_str(out, METRICS_PREFIX "build_info{version=\"" QS_VERSION "\"} 1\n");
#define X(field, kind, name_, scale_, help)                                                                                      \
    metrics_add_head(out, name_, kind, help);                                                                                    \
    buffer_str(out, METRICS_PREFIX name_);                                                                                       \
    metrics_add_value(out, metric_get(&metrics->field), scale_);
    METRICS_INSTANCE(X)
#undef X
    metrics_add_roles(health, out);
#define X(field, kind, name_, scale_, help)                                                                                      \
    if (*(name_)) {                                                                                                              \
        metrics_add_head(out, name_, kind, help);                                                                                \
        family.name = (name_);                                                                                                   \
        family.offset = offsetof(metrics_queue_t, field);                                                                        \
        family.scale = (scale_);                                                                                                 \
        metrics_each(metrics, metrics_add_row, &family);                                                                         \
    }
    METRICS_QUEUE(X)
#undef X
    metrics_add_sizes(&family, metrics);
    metrics_add_settings(&family, metrics);
    metrics_add_labelled(&family, metrics);
    family.name = LATENESS;
    metrics_add_head(out, family.name, "histogram", LATENESS_HELP);
    metrics_each(metrics, metrics_add_buckets, &family);
}

static void metrics_add_list_row(buffer_t *out, const char *name, const char *kind, const char *labels, const char *help) {
    if (*name) buffer_printf(out, METRICS_PREFIX "%s\t%s\t%s\t%s\n", name, kind, labels, help);
}

void http_metrics_list(buffer_t *out) {
    metrics_add_list_row(out, "build_info", GAUGE, "version", BUILD_HELP);
#define X(field, kind, name, scale, help) metrics_add_list_row(out, name, kind, "", help);
    METRICS_INSTANCE(X)
#undef X
    metrics_add_list_row(out, "role_turns", GAUGE, "role", TURNS_HELP);
    metrics_add_list_row(out, "role_idle_seconds", GAUGE, "role", IDLE_HELP);
    metrics_add_list_row(out, "role_trouble_seconds", GAUGE, "role", TROUBLE_HELP);
#define X(field, kind, name, scale, help) metrics_add_list_row(out, name, kind, "queue", help);
    METRICS_QUEUE(X)
    METRICS_SIZES(X)
#undef X
#define X(field, name, scale, key, help) metrics_add_list_row(out, name, GAUGE, "queue", help);
    METRICS_SETTINGS(X)
#undef X
#define X(field, name, metrics_add_label, values, help)                                                                          \
    metrics_add_list_row(out, name, COUNTER, "queue, " metrics_add_label, help);
    METRICS_BY_LABEL(X)
#undef X
    metrics_add_list_row(out, LATENESS, "histogram", "queue", LATENESS_HELP);
}
