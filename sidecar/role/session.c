#include "role/session.h"

#include "base/log.h"
#include "redis/auth.h"
#include "redis/failure.h"
#include "redis/keepalive.h"
#include "redis/service/capability.h"

enum {
    TRACKING_RETRY_S = 60, // between attempts at client tracking while Redis refuses it
};

void session_init(session_t *session, const session_ops_t *ops, void *self, shard_t *shard, metrics_t *metrics,
                  const atomic_bool *stop) {
    *session = (session_t){.ops = ops,
                           .self = self,
                           .metrics = metrics,
                           .backoff = BACKOFF_REDIS,
                           .subscriber_backoff = {.first_ms = 100, .most_ms = TRACKING_RETRY_S * 1000}};
    session->data = conn_new(shard, ops->data_name, stop);
    session->subscriber = conn_new(shard, ops->subscriber_name, stop);
}

static void session_set_tracking_refused(session_t *session, bool tracking_refused) {
    if (session->tracking_refused != tracking_refused) metric_add(&session->metrics->tracking_refused, tracking_refused ? 1 : -1);
    session->tracking_refused = tracking_refused;
}

void session_free(session_t *session) {
    session_set_tracking_refused(session, false);
    conn_free(session->data);
    conn_free(session->subscriber);
}

static void session_drop(session_t *session) {
    conn_close(session->data);
    conn_close(session->subscriber);
    session->tracking = session->tracking_suspected = false;
    session_set_tracking_refused(session, false);
    session->ops->reset(session->self);
}

void session_close(session_t *session) {
    session_drop(session);
    conn_report_unused(session->data);
    conn_report_unused(session->subscriber);
}

void session_back_off(session_t *session, const redis_error_t *error) {
    session->retry_at = error->kind == ERROR_IDLE ? mono_now() : backoff_failed(&session->backoff, mono_now());
    conn_report_failure(session->data, session->ops->role, error);
    if (error->outcome != OUTCOME_DISCONNECTED) return;
    session_drop(session);
    metric_add(&session->metrics->reconnects, 1);
}

static void session_poll(session_t *session, mono_t retry_at) {
    session->tracking = false;
    session_set_tracking_refused(session, true);
    conn_close(session->subscriber);
    session->tracking_retry_at = retry_at;
}

void session_disable_tracking(session_t *session, const redis_error_t *error, mono_t now) {
    if (capability_refused(CAPABILITY_TRACKING, error->text))
        log_error(session->ops->role, NULL, "redis refuses client tracking; polling instead", F_STR("reason", error->text));
    session_poll(session, mono_add(now, TRACKING_RETRY_S * NS_PER_S));
}

void session_subscribe(session_t *session, const char *const *channels, size_t count) {
    session->channels = channels;
    session->channel_count = count;
}

// A refused channel must not end client tracking. session_read_messages notices a connection that dies here.
static void session_subscribe_channels(session_t *session) {
    for (size_t i = 0; i < session->channel_count && conn_is_open(session->subscriber); i++) {
        redis_error_t error;
        if (tracking_subscribe(session->subscriber, session->channels[i], session->ops->on_message, session->self, &error) ==
            OUTCOME_REFUSED)
            log_error(session->ops->role, NULL, "cannot subscribe; events on this channel are missed",
                      F_STR("channel", session->channels[i]), F_STR("reason", error.text));
    }
}

// Channels work without client tracking.
static void session_only_listen(session_t *session) {
    redis_error_t error;
    if (session->channel_count == 0) return;
    if (conn_open(session->subscriber, &error) == OUTCOME_OK) session_subscribe_channels(session);
}

// A server that refuses only the connection may accept it soon: a key file is half replaced, or a password has just changed.
static bool session_open_subscriber(session_t *session, mono_t now) {
    redis_error_t error;
    conn_close(session->subscriber);
    outcome_t outcome = conn_open(session->subscriber, &error);
    if (outcome == OUTCOME_REFUSED) {
        conn_report_failure(session->subscriber, session->ops->role, &error);
        session_poll(session, backoff_failed(&session->subscriber_backoff, now));
    } else if (outcome != OUTCOME_OK) {
        session_back_off(session, &error);
    }
    return outcome == OUTCOME_OK;
}

static void session_start_tracking(session_t *session, mono_t now) {
    redis_error_t error;
    if (!session_open_subscriber(session, now)) return;
    outcome_t outcome = tracking_start(session->data, session->subscriber, &error);
    if (outcome == OUTCOME_OK) {
        session->tracking = true;
        session_set_tracking_refused(session, false);
        capability_accepted(CAPABILITY_TRACKING);
        session->tracking_since = now;
        session_subscribe_channels(session);
    } else if (outcome == OUTCOME_REFUSED && conn_is_open(session->data)) {
        session_disable_tracking(session, &error, now);
        session_only_listen(session);
    } else {
        session_back_off(session, &error);
    }
}

static bool session_open(session_t *session, mono_t now) {
    redis_error_t error;
    bool fresh = !conn_is_open(session->data);
    if (conn_open(session->data, &error) != OUTCOME_OK) {
        session_back_off(session, &error);
        return false;
    }
    if (fresh) session->tracking_retry_at = now;
    bool wanted = fresh || !session->tracking || !conn_is_open(session->subscriber);
    if (wanted && mono_reached(session->tracking_retry_at, now)) {
        bool polls = !fresh && session->tracking_refused;
        session->tracking = false;
        session_start_tracking(session, now);
        fresh = !polls || !session->tracking_refused; // a further refusal changes nothing
    }
    if (fresh) session->ops->reset(session->self); // anything may have changed meanwhile
    return conn_is_open(session->data);
}

static void session_lose_subscriber(session_t *session, const redis_error_t *error) {
    conn_report_failure(error->kind == ERROR_IDLE ? session->subscriber : session->data, session->ops->role, error);
    conn_close(session->subscriber);
    session->tracking = false;
    mono_t now = mono_now();
    bool again = mono_diff(now, session->tracking_since) < NS_PER_S; // closed at once: back off before a retry
    session->tracking_retry_at = again ? backoff_failed(&session->backoff, now) : now;
    metric_add(&session->metrics->reconnects, 1);
}

static bool session_keep_alive(session_t *session) {
    redis_error_t error;
    if (conn_keep_alive(session->data, &error) != OUTCOME_OK) {
        session_back_off(session, &error);
        return mono_reached(session->retry_at, mono_now()) && session_open(session, mono_now());
    }
    if (!conn_is_open(session->subscriber)) return true;
    if (auth_is_outdated(session->data, session->subscriber)) {
        conn_close(session->subscriber);
        session->tracking = false;
        session->tracking_retry_at = mono_now();
        return session_open(session, session->tracking_retry_at);
    }
    if (conn_keep_subscriber_alive(session->subscriber, &error) != OUTCOME_OK) session_lose_subscriber(session, &error);
    return true;
}

void session_suspect_tracking(session_t *session) { session->tracking_suspected = session->tracking; }

static bool session_check_tracking(session_t *session) {
    redis_error_t error;
    if (!session->tracking_suspected) return true;
    session->tracking_suspected = false;
    outcome_t outcome = session->tracking ? tracking_try_caching(session->data, &error) : OUTCOME_OK;
    if (outcome == OUTCOME_OK) return true;
    if (outcome != OUTCOME_REFUSED) {
        session_back_off(session, &error);
        return false;
    }
    session_disable_tracking(session, &error, mono_now());
    session_only_listen(session);
    session->ops->reset(session->self); // nothing waits for a wake-up any more
    return conn_is_open(session->data);
}

bool session_ready(session_t *session) {
    mono_t now = mono_now();
    if (conn_take_move(session->data)) {
        backoff_reset(&session->backoff);
        session->retry_at = now;
    }
    return mono_reached(session->retry_at, now) && session_open(session, now) && session_keep_alive(session) &&
           session_check_tracking(session);
}

void session_wait(const session_t *session, mono_t next, role_wait_t *wait) {
    next = mono_min(next, mono_min(conn_keep_alive_at(session->data), conn_keep_subscriber_alive_at(session->subscriber)));
    if (!session->tracking) next = mono_min(next, session->tracking_retry_at);
    if (session->tracking_suspected) next = mono_now();
    wait->until = mono_max(next, session->retry_at);
    // A readable socket that nobody reads would end every wait at once.
    if (role_backing_off(wait, session->retry_at)) return;
    role_wait_fd(wait, conn_fd(session->data));
    if (conn_is_open(session->subscriber)) role_wait_fd(wait, conn_fd(session->subscriber));
}

bool session_read_messages(session_t *session) {
    redis_error_t error;
    if (!conn_is_open(session->subscriber)) return true;
    if (tracking_read(session->subscriber, session->ops->on_change, session->ops->on_message, session->self, &error) ==
        OUTCOME_OK)
        return true;
    session_lose_subscriber(session, &error);
    return false;
}
