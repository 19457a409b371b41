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
// A size is a gauge for those who read it.
#define LEVEL GAUGE
#define SINCE GAUGE
enum { IS_LEVEL = false, IS_SINCE = true };

// One family over all queues: what its rows are made of.
typedef struct family {
    buffer_t *out;
    const metrics_t *metrics;
    mono_t now;
    const char *name;
    size_t offset; // of the number in metrics_queue_t, or of the first of several
    double scale;
    bool is_age;               // it is a time, and told as the time that has passed since
    const char *label;         // beside `queue`
    const char *const *values; // of the label, NULL-terminated
} family_t;

static void head(buffer_t *out, const char *name, const char *type, const char *help) {
    buffer_printf(out, "# HELP " METRICS_PREFIX "%s %s\n# TYPE " METRICS_PREFIX "%s %s\n", name, help, name, type);
}

// Label values: a backslash, a quote and a line feed are escaped (text format 0.0.4). Names of queues are single lines of UTF-8,
// or what people call so; bytes pass as they are.
static void label(buffer_t *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"') buffer_str(out, "\\");
        if (*text == '\n')
            buffer_str(out, "\\n");
        else
            buffer_add(out, text, 1);
    }
}

static void value(buffer_t *out, int64_t number, double scale) {
    if (scale > 1)
        buffer_printf(out, " %.15g\n", (double)number / scale);
    else
        buffer_printf(out, " %" PRId64 "\n", number);
}

static int64_t number_of(const family_t *family, const metrics_queue_t *queue) {
    return metric_get((const void *)((const char *)queue + family->offset));
}

static void add_number(const family_t *family, const metrics_queue_t *queue, int64_t number) {
    buffer_printf(family->out, METRICS_PREFIX "%s{queue=\"", family->name);
    label(family->out, queue->name);
    buffer_str(family->out, "\"}");
    value(family->out, number, family->scale);
}

static void add_row(void *self, const metrics_queue_t *queue) { add_number(self, queue, number_of(self, queue)); }

static void add_setting(void *self, const metrics_queue_t *queue) {
    if (number_of(self, queue) >= 0) add_row(self, queue);
}

// A size is told while it is known.
static void add_size(void *self, const metrics_queue_t *queue) {
    const family_t *family = self;
    int64_t found = number_of(family, queue);
    if (found < 0 || !metrics_counted(queue, family->now)) return;
    add_number(family, queue, family->is_age ? metrics_age_ms(family->metrics, found, family->now) : found);
}

static void add_values(void *self, const metrics_queue_t *queue) {
    const family_t *family = self;
    const metric_t *numbers = (const void *)((const char *)queue + family->offset);
    for (size_t i = 0; family->values[i]; i++) {
        buffer_printf(family->out, METRICS_PREFIX "%s{queue=\"", family->name);
        label(family->out, queue->name);
        buffer_printf(family->out, "\",%s=\"%s\"}", family->label, family->values[i]);
        value(family->out, metric_get(&numbers[i]), 1);
    }
}

static void add_buckets(void *self, const metrics_queue_t *queue) {
    static const int64_t bounds[METRICS_LATENESS_BUCKETS - 1] = METRICS_LATENESS_BOUNDS;
    const family_t *family = self;
    int64_t sum = 0;
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS; i++) {
        sum += metric_get(&queue->lateness[i]);
        buffer_printf(family->out, METRICS_PREFIX "%s_bucket{queue=\"", family->name);
        label(family->out, queue->name);
        if (i < METRICS_LATENESS_BUCKETS - 1)
            buffer_printf(family->out, "\",le=\"%.9g\"} %" PRId64 "\n", (double)bounds[i] / 1e6, sum);
        else
            buffer_printf(family->out, "\",le=\"+Inf\"} %" PRId64 "\n", sum);
    }
    buffer_printf(family->out, METRICS_PREFIX "%s_sum{queue=\"", family->name);
    label(family->out, queue->name);
    buffer_printf(family->out, "\"} %.15g\n" METRICS_PREFIX "%s_count{queue=\"", (double)metric_get(&queue->lateness_us) / 1e6,
                  family->name);
    label(family->out, queue->name);
    buffer_printf(family->out, "\"} %" PRId64 "\n", sum);
}

static void add_roles(health_t *health, buffer_t *out) {
    health_beat_t beats[HEALTH_ROLES];
    size_t count = health_beats(health, beats);
    head(out, "role_turns", GAUGE, TURNS_HELP);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, METRICS_PREFIX "role_turns{role=\"%s\"} %d\n", beats[i].name, beats[i].turns);
    head(out, "role_idle_seconds", GAUGE, IDLE_HELP);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, METRICS_PREFIX "role_idle_seconds{role=\"%s\"} %.3f\n", beats[i].name, beats[i].age_s);
    head(out, "role_trouble_seconds", GAUGE, TROUBLE_HELP);
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, METRICS_PREFIX "role_trouble_seconds{role=\"%s\"} %.3f\n", beats[i].name, beats[i].trouble_s);
}

static void add_sizes(family_t *family, metrics_t *metrics) {
#define X(field, kind, name_, scale_, help)                                                                                      \
    head(family->out, name_, kind, help);                                                                                        \
    family->name = (name_);                                                                                                      \
    family->offset = offsetof(metrics_queue_t, field);                                                                           \
    family->scale = (scale_);                                                                                                    \
    family->is_age = IS_##kind;                                                                                                  \
    metrics_each(metrics, add_size, family);
    METRICS_SIZES(X)
#undef X
}

static void add_settings(family_t *family, metrics_t *metrics) {
#define X(field, name_, scale_, key, help)                                                                                       \
    head(family->out, name_, GAUGE, help);                                                                                       \
    family->name = (name_);                                                                                                      \
    family->offset = offsetof(metrics_queue_t, field);                                                                           \
    family->scale = (scale_);                                                                                                    \
    metrics_each(metrics, add_setting, family);
    METRICS_SETTINGS(X)
#undef X
}

#define VALUE(value) #value,
static void add_labelled(family_t *family, metrics_t *metrics) {
#define X(field, name_, label_, list, help)                                                                                      \
    {                                                                                                                            \
        static const char *const values[] = {list(VALUE) NULL};                                                                  \
        head(family->out, name_, COUNTER, help);                                                                                 \
        family->name = (name_);                                                                                                  \
        family->offset = offsetof(metrics_queue_t, field);                                                                       \
        family->label = (label_);                                                                                                \
        family->values = values;                                                                                                 \
        metrics_each(metrics, add_values, family);                                                                               \
    }
    METRICS_BY_LABEL(X)
#undef X
}
#undef VALUE

void http_metrics(metrics_t *metrics, health_t *health, buffer_t *out) {
    family_t family = {.out = out, .metrics = metrics, .now = mono_now()};
    metrics_grow(metrics, family.now);
    if (metrics_scraped(metrics, family.now)) health_wake(health, "leader"); // who leads counts
    head(out, "build_info", GAUGE, BUILD_HELP);
    buffer_str(out, METRICS_PREFIX "build_info{version=\"" QS_VERSION "\"} 1\n");
#define X(field, kind, name_, scale_, help)                                                                                      \
    head(out, name_, kind, help);                                                                                                \
    buffer_str(out, METRICS_PREFIX name_);                                                                                       \
    value(out, metric_get(&metrics->field), scale_);
    METRICS_INSTANCE(X)
#undef X
    add_roles(health, out);
#define X(field, kind, name_, scale_, help)                                                                                      \
    if (*(name_)) {                                                                                                              \
        head(out, name_, kind, help);                                                                                            \
        family.name = (name_);                                                                                                   \
        family.offset = offsetof(metrics_queue_t, field);                                                                        \
        family.scale = (scale_);                                                                                                 \
        metrics_each(metrics, add_row, &family);                                                                                 \
    }
    METRICS_QUEUE(X)
#undef X
    add_sizes(&family, metrics);
    add_settings(&family, metrics);
    add_labelled(&family, metrics);
    family.name = LATENESS;
    head(out, family.name, "histogram", LATENESS_HELP);
    metrics_each(metrics, add_buckets, &family);
}

static void list(buffer_t *out, const char *name, const char *kind, const char *labels, const char *help) {
    if (*name) buffer_printf(out, METRICS_PREFIX "%s\t%s\t%s\t%s\n", name, kind, labels, help);
}

void http_metrics_list(buffer_t *out) {
    list(out, "build_info", GAUGE, "version", BUILD_HELP);
#define X(field, kind, name, scale, help) list(out, name, kind, "", help);
    METRICS_INSTANCE(X)
#undef X
    list(out, "role_turns", GAUGE, "role", TURNS_HELP);
    list(out, "role_idle_seconds", GAUGE, "role", IDLE_HELP);
    list(out, "role_trouble_seconds", GAUGE, "role", TROUBLE_HELP);
#define X(field, kind, name, scale, help) list(out, name, kind, "queue", help);
    METRICS_QUEUE(X)
    METRICS_SIZES(X)
#undef X
#define X(field, name, scale, key, help) list(out, name, GAUGE, "queue", help);
    METRICS_SETTINGS(X)
#undef X
#define X(field, name, label, values, help) list(out, name, COUNTER, "queue, " label, help);
    METRICS_BY_LABEL(X)
#undef X
    list(out, LATENESS, "histogram", "queue", LATENESS_HELP);
}
