#include "http/metrics_text.h"

#include "version.h"

// LEVEL and SINCE as in metrics.h.
typedef enum kind { COUNTER, GAUGE, LEVEL, SINCE, SETTING, BY_LABEL, HISTOGRAM, BUILD, GROUP, ROLE_TURNS, ROLE_SECONDS } kind_t;

// One metric family.
typedef struct family {
    const char *name; // behind METRICS_PREFIX; "" = not exposed
    kind_t kind;
    const char *labels;
    const char *help;
    size_t offset; // of the number in its struct, or of the first of an array
    double scale;
    const char *label;         // of BY_LABEL: the label, besides `queue` if the number is of a queue
    const char *const *values; // of BY_LABEL, NULL-terminated
} family_t;

// clang-format off
#define INSTANCE(field, kind, name, scale, help) {name, kind, "", help, offsetof(metrics_t, field), scale, NULL, NULL},
#define QUEUE(field, kind, name, scale, help) {name, kind, "queue", help, offsetof(metrics_queue_t, field), scale, NULL, NULL},
#define QUEUE_SETTING(field, name, scale, key, help) QUEUE(field, SETTING, name, scale, help)
#define VALUE(value) #value,
#define QUEUE_BY_LABEL(field, name, label, values, help) \
    {name, BY_LABEL, "queue, " label, help, offsetof(metrics_queue_t, field), 1, label, (const char *const[]){values(VALUE) NULL}},
#define INSTANCE_BY_LABEL(field, name, label, values, help) \
    {name, BY_LABEL, label, help, offsetof(metrics_t, field), 1, label, (const char *const[]){values(VALUE) NULL}},
#define ROLE(field, kind, name, help) {name, kind, "role", help, offsetof(health_beat_t, field), 1, NULL, NULL},

static const family_t families[] = {
    {"build_info", BUILD, "version", "always 1; the label has the version", 0, 1, NULL, NULL},
    {"group_info", GROUP, "group", "always 1; the label has the group of the instance", 0, 1, NULL, NULL},
    METRICS_INSTANCE(INSTANCE)
    METRICS_INSTANCE_BY_LABEL(INSTANCE_BY_LABEL)
    ROLE(turns, ROLE_TURNS, "role_turns", "1 while the role ticks in time; 0 = its next tick is overdue")
    ROLE(age_s, ROLE_SECONDS, "role_idle_seconds", "time since the role's last tick ended; -1 before the first one")
    ROLE(trouble_s, ROLE_SECONDS, "role_trouble_seconds",
         "time since the role's last tick without trouble; 0 = the last tick had none")
    METRICS_QUEUE(QUEUE)
    METRICS_SIZES(QUEUE)
    METRICS_SETTINGS(QUEUE_SETTING)
    METRICS_BY_LABEL(QUEUE_BY_LABEL)
    {"lateness_seconds", HISTOGRAM, "queue",
     "when a job reached ready, less its due time; each job of a batch counts as late as the oldest job of the batch",
     offsetof(metrics_queue_t, lateness), 1000000, NULL, NULL},
};
// clang-format on

enum { FAMILIES = sizeof families / sizeof *families };

// State of one response.
typedef struct page {
    buffer_t *out;
    metrics_t *metrics;
    health_t *health;
    mono_t now;
    const family_t *family;
} page_t;

// Escapes a backslash, a quote and a line feed, as the text format 0.0.4 requires.
static void page_add_label(buffer_t *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\' || *text == '"') buffer_str(out, "\\");
        if (*text == '\n')
            buffer_str(out, "\\n");
        else
            buffer_add(out, text, 1);
    }
}

// Adds the name and the labels of a sample. `queue` is NULL for a metric of the instance; `label` is NULL without another
// label.
static void page_add_name(const page_t *page, const char *suffix, const metrics_queue_t *queue, const char *label,
                          const char *value) {
    buffer_printf(page->out, METRICS_PREFIX "%s%s", page->family->name, suffix);
    if (!queue && !label) return;
    buffer_str(page->out, "{");
    if (queue) {
        buffer_str(page->out, "queue=\"");
        page_add_label(page->out, queue->name);
        buffer_str(page->out, "\"");
    }
    if (label) buffer_printf(page->out, "%s%s=\"%s\"", queue ? "," : "", label, value);
    buffer_str(page->out, "}");
}

static void page_add_number(const page_t *page, int64_t number) {
    if (page->family->scale > 1)
        buffer_printf(page->out, " %.15g\n", (double)number / page->family->scale);
    else
        buffer_printf(page->out, " %" PRId64 "\n", number);
}

static const metric_t *page_metrics(const page_t *page, const metrics_queue_t *queue) {
    const char *base = queue ? (const void *)queue : (const void *)page->metrics;
    return (const void *)(base + page->family->offset);
}

static int64_t page_get(const metric_t *metric, const metrics_queue_t *queue) {
    return queue && metric_get(&queue->shown) == METRICS_ZERO ? 0 : metric_get(metric);
}

static void page_add_sample(const page_t *page, const metrics_queue_t *queue) {
    kind_t kind = page->family->kind;
    int64_t number = kind > GAUGE ? metric_get(page_metrics(page, queue)) : page_get(page_metrics(page, queue), queue);
    if (kind >= LEVEL && number < 0) return;                                            // not known
    if ((kind == LEVEL || kind == SINCE) && !metrics_counted(queue, page->now)) return; // not known any more
    if (kind == SINCE) number = metrics_age_ms(page->metrics, number, page->now);
    page_add_name(page, "", queue, NULL, NULL);
    page_add_number(page, number);
}

static void page_add_values(const page_t *page, const metrics_queue_t *queue) {
    const family_t *family = page->family;
    for (size_t i = 0; family->values[i]; i++) {
        page_add_name(page, "", queue, family->label, family->values[i]);
        page_add_number(page, page_get(&page_metrics(page, queue)[i], queue));
    }
}

static void page_add_buckets(const page_t *page, const metrics_queue_t *queue) {
    static const int64_t bounds[METRICS_LATENESS_BUCKETS - 1] = METRICS_LATENESS_BOUNDS;
    int64_t sum = 0;
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS; i++) {
        char bound[32] = "+Inf";
        if (i < METRICS_LATENESS_BUCKETS - 1) snprintf(bound, sizeof bound, "%.9g", (double)bounds[i] / page->family->scale);
        sum += page_get(&page_metrics(page, queue)[i], queue);
        page_add_name(page, "_bucket", queue, "le", bound);
        buffer_printf(page->out, " %" PRId64 "\n", sum);
    }
    page_add_name(page, "_sum", queue, NULL, NULL);
    page_add_number(page, page_get(&queue->lateness_us, queue));
    page_add_name(page, "_count", queue, NULL, NULL);
    buffer_printf(page->out, " %" PRId64 "\n", sum);
}

static void page_add_roles(const page_t *page) {
    health_beat_t beats[HEALTH_ROLES];
    size_t count = health_beats(page->health, beats);
    for (size_t i = 0; i < count; i++) {
        const void *field = (const char *)&beats[i] + page->family->offset;
        buffer_printf(page->out, METRICS_PREFIX "%s{role=\"%s\"}", page->family->name, beats[i].name);
        if (page->family->kind == ROLE_TURNS)
            buffer_printf(page->out, " %d\n", *(const bool *)field);
        else
            buffer_printf(page->out, " %.3f\n", *(const double *)field);
    }
}

static void page_add_group(const page_t *page) {
    buffer_str(page->out, METRICS_PREFIX "group_info{group=\"");
    page_add_label(page->out, health_group(page->health));
    buffer_str(page->out, "\"} 1\n");
}

static void page_add(void *self, const metrics_queue_t *queue) {
    const page_t *page = self;
    kind_t kind = page->family->kind;
    bool counted = kind <= GAUGE || kind == BY_LABEL || kind == HISTOGRAM; // other numbers of a queue are known or not
    if (queue && counted && metric_get(&queue->shown) == METRICS_WITHHELD) return;
    switch (kind) {
    case BY_LABEL: page_add_values(page, queue); break;
    case HISTOGRAM: page_add_buckets(page, queue); break;
    case ROLE_TURNS:
    case ROLE_SECONDS: page_add_roles(page); break;
    case BUILD: buffer_str(page->out, METRICS_PREFIX "build_info{version=\"" QS_VERSION "\"} 1\n"); break;
    case GROUP: page_add_group(page); break;
    default: page_add_sample(page, queue);
    }
}

static const char *family_type(const family_t *family) {
    if (family->kind == HISTOGRAM) return "histogram";
    return family->kind == COUNTER || family->kind == BY_LABEL ? "counter" : "gauge";
}

void http_metrics(metrics_t *metrics, health_t *health, buffer_t *out) {
    page_t page = {.out = out, .metrics = metrics, .health = health, .now = mono_now()};
    metrics_grow(metrics, page.now);
    metrics_begin_scrape(metrics, page.now);
    if (metrics_scraped(metrics, page.now)) health_wake(health, "leader"); // the leader measures the sizes
    for (size_t i = 0; i < FAMILIES; i++) {
        const family_t *family = page.family = &families[i];
        if (!*family->name) continue;
        buffer_printf(out, "# HELP " METRICS_PREFIX "%s %s\n", family->name, family->help);
        buffer_printf(out, "# TYPE " METRICS_PREFIX "%s %s\n", family->name, family_type(family));
        if (strncmp(family->labels, "queue", 5) == 0)
            metrics_each(metrics, page_add, &page);
        else
            page_add(&page, NULL);
    }
}

void http_metrics_list(buffer_t *out) {
    for (const family_t *family = families; family < families + FAMILIES; family++)
        if (*family->name)
            buffer_printf(out, METRICS_PREFIX "%s\t%s\t%s\t%s\n", family->name, family_type(family), family->labels,
                          family->help);
}
