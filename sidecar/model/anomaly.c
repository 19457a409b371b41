#include "model/anomaly.h"

#include "base/log.h"

enum {
    EVENT_MS = 3600000,  // an EVENT ends so long after the last one
    LOOK_MS = 180000,    // a LOOK is valid for so long after the leader told it
    TELL_MIN_MS = 1000,  // shortest time between two writes
    TELL_MAX_MS = 60000, // longest time, while there is an anomaly
};

static const char ROLE[] = "monitor";

typedef enum anomaly_class { LOOK, EVENT } anomaly_class_t;

static const struct {
    const char *name, *message;
    anomaly_class_t class;
    size_t metric; // offset of the metric
} infos[ANOMALY_KINDS] = {
#define X(name, kind, metric, message) {#name, message, kind, offsetof(metrics_queue_t, metric)},
    ANOMALIES(X)
#undef X
};

typedef struct anomaly {
    int64_t number, since_ms, last_ms;
    mono_t last;  // last_ms by this machine's clock
    mono_t seen;  // when the number was last above 0
    bool changed; // since told_at
    bool told;    // the field exists, as far as this process wrote it
    mono_t told_at;
    char sample[ANOMALY_SAMPLE];
} anomaly_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // guards the anomalies of all queues

// Call it with the mutex held.
static anomaly_t *anomaly_of(metrics_queue_t *queue, anomaly_kind_t kind) {
    if (!queue->anomalies) queue->anomalies = mem_array(ANOMALY_KINDS, sizeof(anomaly_t)); // most queues never have any
    return &((anomaly_t *)queue->anomalies)[kind];
}

void anomaly_sample(metrics_queue_t *queue, anomaly_kind_t kind, const char *format, ...) {
    va_list args;
    pthread_mutex_lock(&mutex);
    char *sample = anomaly_of(queue, kind)->sample;
    va_start(args, format);
    vsnprintf(sample, ANOMALY_SAMPLE, format, args);
    va_end(args);
    for (; *sample; sample++)
        if ((unsigned char)*sample < ' ') *sample = '?'; // a line feed would end the line of the field
    pthread_mutex_unlock(&mutex);
}

// Call it with the mutex held. Returns whether the anomaly begins.
static bool anomaly_note(metrics_queue_t *queue, anomaly_kind_t kind, int64_t number, int64_t now_ms) {
    anomaly_t *anomaly = anomaly_of(queue, kind);
    // A role that has lost its connection or its lock forgets what it saw. The next look sees it again, which is no beginning.
    bool saw = anomaly->seen.ns && mono_diff(mono_now(), anomaly->seen) <= LOOK_MS * NS_PER_MS;
    bool begins = number > 0 && anomaly->number == 0 && !saw;
    if (begins) anomaly->since_ms = now_ms;
    anomaly->changed |= number != anomaly->number;
    anomaly->number = number;
    anomaly->last_ms = now_ms;
    anomaly->last = mono_now();
    if (number > 0) anomaly->seen = anomaly->last;
    return begins;
}

static void anomaly_log(const metrics_queue_t *queue, anomaly_kind_t kind, int64_t number) {
    if (infos[kind].message)
        log_warn(ROLE, queue->name, infos[kind].message, F_INT("number", number),
                 F_STR("first", ((anomaly_t *)queue->anomalies)[kind].sample));
}

static metric_t *anomaly_metric(metrics_queue_t *queue, anomaly_kind_t kind) {
    return (metric_t *)(void *)((char *)queue + infos[kind].metric);
}

void anomaly_set(metrics_queue_t *queue, anomaly_kind_t kind, int64_t number, int64_t now_ms) {
    int64_t sum = 0;
    pthread_mutex_lock(&mutex);
    if (number > 0 || queue->anomalies) {
        if (anomaly_note(queue, kind, number, now_ms)) anomaly_log(queue, kind, number);
        for (int i = 0; i < ANOMALY_KINDS; i++)
            if (infos[i].metric == infos[kind].metric) sum += anomaly_of(queue, (anomaly_kind_t)i)->number;
        metric_set(anomaly_metric(queue, kind), sum);
    }
    pthread_mutex_unlock(&mutex);
}

// Call it with the mutex held.
static void anomaly_expire(anomaly_t *anomaly, mono_t now) {
    if (mono_diff(now, anomaly->last) > EVENT_MS * NS_PER_MS) anomaly->number = 0;
}

void anomaly_add(metrics_queue_t *queue, anomaly_kind_t kind, int64_t events, int64_t now_ms) {
    pthread_mutex_lock(&mutex);
    anomaly_t *anomaly = anomaly_of(queue, kind);
    anomaly_expire(anomaly, mono_now());
    if (anomaly_note(queue, kind, anomaly->number + events, now_ms)) anomaly_log(queue, kind, events);
    metric_add(anomaly_metric(queue, kind), events);
    pthread_mutex_unlock(&mutex);
}

// Call it with the mutex held. Writes the field's value; '' = remove it.
static void anomaly_write(anomaly_t *anomaly, anomaly_class_t class, mono_t now, char out[ANOMALY_TEXT]) {
    int64_t until_ms = anomaly->last_ms + EVENT_MS;
    if (class == EVENT)
        anomaly_expire(anomaly, now);
    else
        until_ms = anomaly->last_ms + mono_diff(now, anomaly->last) / NS_PER_MS + LOOK_MS;
    *out = '\0';
    if (anomaly->number > 0)
        snprintf(out, ANOMALY_TEXT, "%" PRId64 " %" PRId64 " %" PRId64 " %s", anomaly->number, anomaly->since_ms, until_ms,
                 anomaly->sample);
}

// Call it with the mutex held.
static bool anomaly_is_due(const anomaly_t *anomaly, mono_t now) {
    int64_t least_ms = anomaly->changed ? TELL_MIN_MS : TELL_MAX_MS;
    if (!anomaly->changed && !anomaly->told) return false;
    return anomaly->told_at.ns == 0 || mono_diff(now, anomaly->told_at) >= least_ms * NS_PER_MS;
}

bool anomaly_to_tell(metrics_queue_t *queue, mono_t now, const char **name, char out[ANOMALY_TEXT]) {
    bool tell = false;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; queue->anomalies && i < ANOMALY_KINDS && !tell; i++) {
        anomaly_t *anomaly = &((anomaly_t *)queue->anomalies)[i];
        if (!anomaly_is_due(anomaly, now)) continue;
        anomaly_write(anomaly, infos[i].class, now, out);
        tell = anomaly->told || *out;
        anomaly->changed = false;
        anomaly->told = *out;
        anomaly->told_at = now;
        *name = infos[i].name;
    }
    pthread_mutex_unlock(&mutex);
    return tell;
}

const char *anomaly_name(anomaly_kind_t kind) { return infos[kind].name; }

bool anomaly_read(const char *field, int64_t now_ms, anomaly_seen_t *out) {
    char *at;
    out->number = strtoll(field, &at, 10);
    out->since_ms = strtoll(at, &at, 10);
    int64_t until_ms = strtoll(at, &at, 10);
    if (*at == ' ') at++;
    snprintf(out->sample, sizeof out->sample, "%s", at);
    return until_ms >= now_ms && out->number > 0;
}
