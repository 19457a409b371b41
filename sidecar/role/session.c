#include "role/session.h"

#include "base/log.h"

enum {
    NO_WAKE_RETRY_S = 60,
    CALM_S = 10, // after so long without trouble the next one is met with the shortest wait again
};

void link_init(link_t *link, const char *role, const char *const names[2], const redis_config_t *redis, metrics_t *metrics,
               const atomic_bool *stop) {
    *link = (link_t){.role = role, .metrics = metrics, .backoff = BACKOFF_REDIS};
    link->data = conn_new(redis, names[0], stop);
    link->ear = conn_new(redis, names[1], stop);
}

static void note_deaf(link_t *link, bool deaf) {
    if (link->deaf != deaf) metric_add(&link->metrics->deaf, deaf ? 1 : -1);
    link->deaf = deaf;
}

void link_free(link_t *link) {
    note_deaf(link, false);
    conn_free(link->data);
    conn_free(link->ear);
}

void link_close(link_t *link) {
    conn_close(link->data);
    conn_close(link->ear);
    link->waking = false;
    note_deaf(link, false);
}

void link_put_off(link_t *link, const redis_error_t *error) {
    mono_t now = mono_now();
    if (mono_diff(now, link->retry_at) > CALM_S * NS_PER_S) backoff_reset(&link->backoff);
    link->retry_at = mono_add(now, backoff_next_ns(&link->backoff));
    log_warn(link->role, NULL, error->outcome == OUTCOME_RETRY ? "redis is not ready" : "redis is out of reach",
             F_STR("reason", error->text));
    if (error->outcome != OUTCOME_DISCONNECTED) return;
    link_close(link);
    metric_add(&link->metrics->reconnects, 1);
}

void link_works(link_t *link) { backoff_reset(&link->backoff); }

void link_deaf(link_t *link, const redis_error_t *error, mono_t now) {
    log_error(link->role, NULL, "redis refuses wake-ups: what is new is found by polls only", F_STR("reason", error->text));
    link->waking = false;
    note_deaf(link, true);
    conn_close(link->ear);
    link->wake_at = mono_add(now, NO_WAKE_RETRY_S * NS_PER_S);
}

void link_also(link_t *link, const char *const *channels, size_t count, wake_heard_fn *heard, void *self) {
    link->channels = channels;
    link->channel_count = count;
    link->heard = heard;
    link->hearer = self;
}

// A channel that is refused must not cost us the wake-ups; an ear that dies here is noticed by link_hear.
static void hear_channels(link_t *link) {
    for (size_t i = 0; i < link->channel_count && conn_is_open(link->ear); i++) {
        redis_error_t error;
        if (wake_also(link->ear, link->channels[i], link->heard, link->hearer, &error) == OUTCOME_REFUSED)
            log_error(link->role, NULL, "redis refuses a channel: what is told there is not heard",
                      F_STR("channel", link->channels[i]), F_STR("reason", error.text));
    }
}

static void start_waking(link_t *link, mono_t now) {
    redis_error_t error;
    outcome_t outcome = wake_start(link->data, link->ear, &error);
    if (outcome == OUTCOME_OK) {
        link->waking = true;
        note_deaf(link, false);
        link->woke_at = now;
        hear_channels(link);
    } else if (outcome == OUTCOME_REFUSED && conn_is_open(link->data)) {
        link_deaf(link, &error, now);
    } else {
        link_put_off(link, &error);
    }
}

bool link_open(link_t *link, mono_t now, bool *fresh) {
    redis_error_t error;
    *fresh = !conn_is_open(link->data);
    if (conn_open(link->data, &error) != OUTCOME_OK) {
        link_put_off(link, &error);
        return false;
    }
    if (*fresh) link->wake_at = now;
    bool wanted = *fresh || !link->waking || !conn_is_open(link->ear);
    if (wanted && mono_reached(link->wake_at, now)) {
        *fresh = true;
        link->waking = false;
        start_waking(link, now);
    }
    return conn_is_open(link->data);
}

bool link_alive(link_t *link) {
    struct redisReply *reply = NULL;
    redis_error_t error;
    if (conn_take(link->data, &reply, &error) == OUTCOME_OK) {
        conn_reply_free(reply);
        return true;
    }
    link_put_off(link, &error);
    return false;
}

bool link_hear(link_t *link, wake_fn *changed, void *self) {
    redis_error_t error;
    if (!link->waking) return true;
    if (wake_take(link->ear, changed, self, link->heard, link->hearer, &error) == OUTCOME_OK) return true;
    log_warn(link->role, NULL, "lost the connection for wake-ups", F_STR("reason", error.text));
    conn_close(link->ear);
    link->waking = false;
    mono_t now = mono_now();
    bool again = mono_diff(now, link->woke_at) < NS_PER_S; // it died as soon as it was there: no hurry
    link->wake_at = mono_add(now, again ? backoff_next_ns(&link->backoff) : 0);
    metric_add(&link->metrics->reconnects, 1);
    return false;
}
