/* Side tasks beside scans, with fake tasks: when a task steps, which messages wake it, and how an outcome affects this task and
 * other tasks. */
#include "monitor/scan/scan.h"
#include "monitor/tasks.h"
#include "monitor_fixture.h"

enum { TASKS = 3 };

/* A fake task, one per queue. The task counts its calls; the test sets the members below "set by the test". */
typedef struct {
    int steps, forgets, leaves, subscribed, opened;
    bool changed; /* call->changed of the last step */
    bool was_armed;
    char message[32];
    size_t message_len;
    mono_t at;     /* time of the last step */
    mono_t wanted; /* call->next of the last step */
    /* set by the test */
    int64_t after_ms; /* delay of the next step; 0 = at once, -1 = only after a change */
    outcome_t outcome;
    bool fences, asks;
    bool early; /* out: a step came before `wanted` without a change */
} fake_task_t;

static fake_task_t fakes[TASKS];
static char channels[TASKS][48], keys[TASKS][48];

static void *fake_open(const queue_keys_t *queue) {
    static const char *const names[TASKS] = {"email", "sms", "push"};
    for (size_t i = 0; i < TASKS; i++) {
        if (strcmp(queue->config->name, names[i]) != 0) continue;
        snprintf(channels[i], sizeof channels[i], "%s:news", names[i]);
        snprintf(keys[i], sizeof keys[i], "%s:board", names[i]);
        fakes[i].opened++;
        return &fakes[i];
    }
    abort(); /* no such queue */
}

static void fake_close(void *state) { ((fake_task_t *)state)->opened--; }

static void fake_forget(void *state) {
    fake_task_t *task = state;
    task->forgets++;
    task->wanted = (mono_t){0};
}

static size_t index_of(const void *state) { return (size_t)((const fake_task_t *)state - fakes); }

static size_t fake_watched(const void *state, const char **out) {
    out[0] = keys[index_of(state)];
    out[1] = "shared:board";
    return 2;
}

static size_t fake_channels(const void *state, const char **out) {
    out[0] = channels[index_of(state)];
    return 1;
}

static void fake_on_message(void *state, const char *channel, slice_t message) {
    fake_task_t *task = state;
    cr_assert_str_eq(channel, channels[index_of(state)]);
    cr_assert_leq(message.len, sizeof task->message);
    task->subscribed++;
    task->message_len = message.len;
    memcpy(task->message, message.data, message.len);
    task->wanted = (mono_t){0};
}

/* Reads the watched keys and arms tracking. */
static outcome_t read_keys(const fake_task_t *task, side_task_call_t *call) {
    const char *const wanted[] = {keys[index_of(task)], "shared:board"};
    redisReply *reply;
    for (size_t i = 0; i < 2; i++) {
        if (call->arm) {
            request_begin(call->redis.conn, "CLIENT");
            request_text(call->redis.conn, "CACHING");
            request_text(call->redis.conn, "YES");
            if (request_ask(call->redis.conn, &reply, call->redis.error) != OUTCOME_OK) return call->redis.error->outcome;
            conn_reply_free(reply);
        }
        request_begin(call->redis.conn, "EXISTS");
        request_text(call->redis.conn, wanted[i]);
        if (request_ask(call->redis.conn, &reply, call->redis.error) != OUTCOME_OK) return call->redis.error->outcome;
        conn_reply_free(reply);
    }
    return OUTCOME_OK;
}

static outcome_t fake_step(void *state, side_task_call_t *call) {
    fake_task_t *task = state;
    cr_assert_str_not_empty(call->redis.token);
    cr_assert_eq(call->next.ns, mono_never().ns);
    task->early |= !call->changed && !mono_reached(task->wanted, call->now);
    task->steps++;
    task->changed = call->changed;
    task->was_armed = call->arm;
    task->at = call->now;
    if (task->outcome != OUTCOME_OK) return redis_error_set(call->redis.error, task->outcome, "refused by the test");
    if (task->fences) return redis_error_set(call->redis.error, OUTCOME_FENCED, "refused by the test");
    if (task->asks && read_keys(task, call) != OUTCOME_OK) return call->redis.error->outcome;
    if (task->after_ms >= 0) call->next = mono_add(call->now, task->after_ms * NS_PER_MS);
    task->wanted = call->next;
    return OUTCOME_OK;
}

static outcome_t fake_leave(void *state, side_task_call_t *call) {
    fake_task_t *task = state;
    redisReply *reply;
    task->leaves++;
    request_begin(call->redis.conn, "GET");
    request_text(call->redis.conn, call->redis.keys->locks[0].key);
    if (request_ask(call->redis.conn, &reply, call->redis.error) != OUTCOME_OK) return call->redis.error->outcome;
    cr_assert_str_eq(reply->str, call->redis.token, "the task left after the lock was released");
    conn_reply_free(reply);
    return task->outcome == OUTCOME_OK ? OUTCOME_OK : redis_error_set(call->redis.error, task->outcome, "refused by the test");
}

static const side_task_ops_t FAKE_TASK = {.open = fake_open,
                                          .close = fake_close,
                                          .forget = fake_forget,
                                          .watched_keys = fake_watched,
                                          .channels = fake_channels,
                                          .on_message = fake_on_message,
                                          .step = fake_step,
                                          .leave = fake_leave};

#define CONFIG(email)                                                                                                            \
    "group = \"app\"; monitor = { scan_interval = \"50ms\"; }; defaults = { protected_timeout = \"1h\"; heartbeat = \"off\"; "   \
    "retry_window = \"24h\"; }; queues = ( { name = \"email\"; " email " }, { name = \"sms\"; }, { name = \"push\"; } );"

static setup_t d;

/* Starts a monitor with a fake task (from `fakes`) for each of the first `count` queues. */
static void tasks_begin(size_t count, fixture_options_t options) {
    if (!options.config) options.config = CONFIG("");
    options.closed = true;
    d.f = fixture_start(&options);
    instance_start(&d.instance, d.f.keys, INSTANCE_MONITOR);
    for (size_t i = 0; i < count; i++) monitor_add_task(d.instance.monitor, i, &FAKE_TASK);
    instance_lead(&d.instance, d.f.r);
}

static void tasks_end(void) {
    close_setup(&d);
    for (size_t i = 0; i < TASKS; i++) {
        cr_assert_eq(fakes[i].opened, 0);
        cr_assert_not(fakes[i].early, "task %zu stepped too early", i);
    }
}

/* Runs until no task needs a step. */
static void settle_down(void) { driver_settle(&d.instance.driver, d.f.r); }

SUITE(redis_tasks, , tasks_end());

Test(redis_tasks, a_task_steps_when_it_asked_to) {
    fakes[0].after_ms = 40;
    fakes[1].after_ms = -1;
    tasks_begin(2, (fixture_options_t){0});
    until(&d, fakes[0].steps >= 10); /* fake_step sets `early` */
    cr_assert_eq(fakes[1].steps, 1, "a task stepped without a change");
    cr_assert(fakes[1].changed, "before the first step all keys count as changed");
    cr_assert_not(fakes[0].changed);
}

Test(redis_tasks, a_changed_key_wakes_its_task) {
    for (size_t i = 0; i < 2; i++) fakes[i] = (fake_task_t){.after_ms = -1, .asks = true};
    tasks_begin(2, (fixture_options_t){0});
    settle_down();
    int before[2] = {fakes[0].steps, fakes[1].steps};
    cr_assert(fakes[0].was_armed);
    redis_ok(d.f.r, "SET email:board 1");
    until(&d, fakes[0].steps > before[0]);
    cr_assert(fakes[0].changed);
    settle_down();
    cr_assert_eq(fakes[1].steps, before[1], "a task stepped without a change of its keys");
    redis_ok(d.f.r, "SET shared:board 1");
    until(&d, fakes[0].steps > before[0] + 1 && fakes[1].steps > before[1]);
    redis_ok(d.f.r, "SET email:other 1");
    settle_down();
    cr_assert_eq(fakes[0].steps, before[0] + 2);
    redis_ok(d.f.r, "FLUSHDB");
    until(&d, fakes[0].steps > before[0] + 2 && fakes[1].steps > before[1] + 1);
}

Test(redis_tasks, a_message_wakes_its_task) {
    for (size_t i = 0; i < 2; i++) fakes[i].after_ms = -1;
    tasks_begin(2, (fixture_options_t){0});
    settle_down();
    redis_ok(d.f.r, "PUBLISH email:news %b", "a\0b", (size_t)3);
    until(&d, fakes[0].subscribed == 1 && fakes[0].steps == 2);
    cr_assert_eq(fakes[0].message_len, 3);
    cr_assert_arr_eq(fakes[0].message, "a\0b", 3);
    cr_assert_not(fakes[0].changed, "a message is no change of a key");
    redis_ok(d.f.r, "CLIENT KILL TYPE pubsub");
    until(&d, fakes[1].forgets > 0 && redis_int(d.f.r, "PUBLISH sms:news x") == 1);
    until(&d, fakes[1].subscribed == 1);
    cr_assert_eq(fakes[0].subscribed, 1);
}

Test(redis_tasks, a_refused_channel_loses_only_its_messages) {
    for (size_t i = 0; i < 2; i++) fakes[i] = (fake_task_t){.after_ms = -1, .asks = true};
    tasks_begin(2, (fixture_options_t){.proxy = true});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "SUBSCRIBE email:news", .error = "-NOPERM no"});
    settle_down();
    cr_assert_eq(fixture_log_count("cannot subscribe; events on this channel"), 1);
    cr_assert_eq(fixture_log_count("email:news"), 1);
    cr_assert_eq(redis_int(d.f.r, "PUBLISH email:news x"), 0);
    cr_assert_eq(redis_int(d.f.r, "PUBLISH sms:news x"), 1);
    until(&d, fakes[1].subscribed == 1);
    int before = fakes[0].steps;
    redis_ok(d.f.r, "SET email:board 1");
    until(&d, fakes[0].steps > before);
}

/* Pages of a long scan and steps of busy tasks take turns. */
Test(redis_tasks, scans_and_tasks_take_turns) {
    enum { ENTRIES = 20000 };
    tasks_begin(2, (fixture_options_t){0});
    redis_ok(d.f.r, "EVAL %s 1 email:backup %d", "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'job' .. i) end",
             (int)ENTRIES);
    until(&d, metric_get(&of(&d)->passes) >= 1);
    cr_assert_geq(fakes[0].steps, ENTRIES / 512, "tasks starve beside a scan");
    cr_assert_leq(abs(fakes[0].steps - fakes[1].steps), 2, "one task starves beside another");
    cr_assert_eq(count(&d, "HLEN sidecar:email:stamps"), ENTRIES);
}

Test(redis_tasks, a_refusal_concerns_one_queue_and_is_reported_once) {
    fakes[0] = (fake_task_t){.outcome = OUTCOME_REFUSED, .asks = true};
    fakes[1] = (fake_task_t){.after_ms = 10};
    tasks_begin(2, (fixture_options_t){0});
    until(&d, fakes[0].steps == 1);
    int others = fakes[1].steps;
    redis_ok(d.f.r, "LPUSH email:backup a");
    redis_ok(d.f.r, "SET email:board 1");
    until(&d, fakes[1].steps > others + 5 && stamp_of(d.f.r, slice_text("a")).seen);
    cr_assert_eq(fakes[0].steps, 1, "a refused task must wait");
    cr_assert_eq(metric_get(&of(&d)->faults), 1);
    for (int again = 2; again <= 3; again++) {
        fixture_step_boottime(TASK_REFUSED_MS + 1);
        until(&d, fakes[0].steps == again);
    }
    cr_assert_eq(fixture_log_count("refused by the test"), 1);
    fakes[0].outcome = OUTCOME_OK;
    fakes[0].after_ms = -1;
    fixture_step_boottime(TASK_REFUSED_MS + 1);
    until(&d, fakes[0].steps == 4);
    cr_assert(fakes[0].changed, "after a refusal the keys count as changed");
    fakes[0].outcome = OUTCOME_REFUSED;
    redis_ok(d.f.r, "SET email:board 2");
    until(&d, fixture_log_count("refused by the test") == 2);
}

Test(redis_tasks, a_fenced_task_waits_for_the_next_term) {
    fakes[0].fences = true;
    tasks_begin(1, (fixture_options_t){0});
    until(&d, fakes[0].steps == 1);
    int forgets = fakes[0].forgets;
    cr_assert_gt(forgets, 0);
    cr_assert(lease_take_suspicion(d.instance.leases, 0));
    settle_down();
    cr_assert_eq(fakes[0].steps, 1);
    monitor_finish(d.instance.monitor);
    cr_assert_eq(fakes[0].leaves, 0);
    fakes[0] = (fake_task_t){.after_ms = -1, .opened = 1, .forgets = forgets};
    instance_lead(&d.instance, d.f.r);
    until(&d, fakes[0].steps == 1);
    cr_assert_gt(fakes[0].forgets, forgets);
    cr_assert(fakes[0].changed);
}

Test(redis_tasks, a_new_connection_resets_a_task) {
    static const outcome_t troubles[] = {OUTCOME_DISCONNECTED, OUTCOME_RETRY};
    fakes[0].after_ms = fakes[1].after_ms = -1;
    tasks_begin(2, (fixture_options_t){0});
    settle_down();
    for (size_t i = 0; i < 2; i++) {
        int forgets[2] = {fakes[0].forgets, fakes[1].forgets}, steps = fakes[1].steps;
        fakes[0].outcome = troubles[i];
        redis_ok(d.f.r, "PUBLISH email:news x");
        until(&d, fakes[0].forgets > forgets[0] && fakes[1].forgets > forgets[1]);
        fakes[0].outcome = OUTCOME_OK;
        until(&d, fakes[1].steps > steps);
        cr_assert(fakes[1].changed);
        settle_down();
    }
    int forgets = fakes[0].forgets, steps = fakes[0].steps;
    redis_ok(d.f.r, "CLIENT KILL TYPE normal SKIPME yes");
    until(&d, fakes[0].forgets > forgets && fakes[0].steps > steps);
}

Test(redis_tasks, without_tracking_a_task_is_polled) {
    fakes[0].after_ms = -1;
    tasks_begin(1, (fixture_options_t){.proxy = true});
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "CLIENT TRACKING", .error = "-NOPERM no", .times = -1});
    until(&d, fakes[0].steps == 5);
    cr_assert_not(fakes[0].was_armed);
    fakes[0].early = false; /* polls come sooner than call->next */
}

Test(redis_tasks, the_safety_poll_steps_an_idle_task) {
    fakes[0].after_ms = -1;
    tasks_begin(1, (fixture_options_t){0});
    settle_down();
    cr_assert_eq(fakes[0].steps, 1);
    fixture_step_boottime(SCAN_SAFETY_S * 1000 + 1);
    until(&d, fakes[0].steps == 2);
    cr_assert(fakes[0].changed);
}

Test(redis_tasks, a_shutdown_releases_task_locks) {
    fakes[0] = (fake_task_t){.after_ms = -1};
    fakes[1] = (fake_task_t){.after_ms = -1};
    fakes[2] = (fake_task_t){.outcome = OUTCOME_REFUSED};
    tasks_begin(3, (fixture_options_t){0});
    monitor_finish(d.instance.monitor);
    cr_assert_eq(fakes[0].leaves, 0, "a task that has not stepped must not leave");
    settle_down();
    fakes[0].outcome = OUTCOME_REFUSED; /* one task's refusal must not stop the next task */
    monitor_finish(d.instance.monitor);
    for (size_t i = 0; i < TASKS; i++) cr_assert_eq(fakes[i].leaves, 1, "%zu", i);
    lease_end(d.instance.leases, 0);
    monitor_finish(d.instance.monitor);
    cr_assert_eq(fakes[1].leaves, 1, "a task must not leave after the lock is lost");
}

Test(redis_tasks, an_end_without_redis_waits_once) {
    for (size_t i = 0; i < TASKS; i++) fakes[i] = (fake_task_t){.after_ms = -1};
    tasks_begin(3, (fixture_options_t){.redis = "timeout = \"60s\";"});
    settle_down();
    server_freeze(d.f.server);
    atomic_store(&d.instance.driver.role.stop, true);
    int64_t began = wait_now_us();
    monitor_finish(d.instance.monitor);
    int64_t took_us = wait_now_us() - began;
    server_thaw(d.f.server);
    cr_assert_eq(fakes[0].leaves + fakes[1].leaves + fakes[2].leaves, 1);
    cr_assert_lt(took_us, INT64_C(20000) * wait_scaled_ms(1000), "the end waited for more than one task");
}

Test(redis_tasks, a_task_of_a_queue_without_a_monitor_is_idle) {
    tasks_begin(1, (fixture_options_t){.config = CONFIG("roles = [\"dispatcher\"];")});
    driver_run(&d.instance.driver, 100);
    cr_assert_eq(fakes[0].steps, 0, "this queue has no monitor");
}
