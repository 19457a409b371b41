/* /readyz with one problem at a time: which check fails, with what text, and whether the instance is still ready. */
#include "http/health.h"
#include "suite.h"

typedef struct setup {
    metrics_t *metrics;
    health_t *health;
    metrics_queue_t *queue;
    role_t role;
} setup_t;

static void all_well(setup_t *w) { (void)w; }
static void stands_by(setup_t *w) { metric_set(&w->metrics->leading, 0), metric_set(&w->metrics->standing_by, 1); }
static void hangs(setup_t *w) { atomic_store(&w->role.due_ns, 1); }
static void no_redis(setup_t *w) {
    metric_set(&w->metrics->redis_up, 0), metrics_say(w->metrics, WHY_REDIS, w, "cannot connect");
}
static void neither(setup_t *w) { metric_set(&w->metrics->leading, 0); }
static void unserved(setup_t *w) { metric_set(&w->metrics->unserved, 1); }
static void refused(setup_t *w) { metrics_refused(w->queue, mono_now()); }
static void tracking_refused(setup_t *w) { metric_set(&w->metrics->tracking_refused, 1); }
static void no_log(setup_t *w) { metric_set(&w->metrics->audit_bad, 1), metrics_say(w->metrics, WHY_AUDIT, w, "disk full"); }
static void bad_config(setup_t *w) { health_set_refused(w->health, "F:7: no \"such\" key\n"); }

static const struct {
    void (*change)(setup_t *w);
    const char *check, *why; /* NULL: every check is ok */
    bool ready;
} ROWS[] = {
    {all_well, NULL, NULL, true},
    {stands_by, NULL, NULL, true},
    {hangs, "roles", "the auditor has not finished its first tick", false},
    {no_redis, "redis", "cannot reach Redis, or it refuses the connection: cannot connect", false},
    {neither, "lock", "neither leading nor standing by yet: the log says why", false},
    {unserved, "queues", "some queues are not being served", true},
    {refused, "queues", "Redis refuses commands for \\\"email\\\": ", true},
    {tracking_refused, "wakeups", "Redis refuses client tracking", true},
    {no_log, "audit", "the audit log cannot be written: disk full", true},
    {bad_config, "config", "F:7: no \\\"such\\\" key\"", true},
};

static size_t count(const char *text, const char *part) {
    size_t found = 0;
    for (; (text = strstr(text, part)); text++) found++;
    return found;
}

/* Reports a refused config and a change, each a text of so many digits and a letter of two bytes. Expects these endings in the
 * response. */
static void expect_told(size_t refused, const char *fault, size_t changed, const char *change) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    scoped(health_drop) health_t *health = health_new(metrics, "app", true);
    char text[4096];
    scoped(buffer_free) buffer_t json = {0};
    snprintf(text, sizeof text, "%0*d\xc3\xa9\n", (int)refused, 0);
    health_set_refused(health, text);
    snprintf(text, sizeof text, "%0*d\xc3\xa9", (int)changed, 7);
    health_set_in_effect(health, text);
    health_ready(health, &json);
    cr_expect(strstr(buffer_text(&json), fault), "%zu bytes: %s", refused, buffer_text(&json));
    cr_expect(strstr(buffer_text(&json), change), "%zu bytes: %s", changed, buffer_text(&json));
}

/* The cut is between characters, and the text says that there is more. */
Test(unit_health, long_texts_are_cut) {
    expect_told(1998, "0\xc3\xa9\"", 398, "7\xc3\xa9\"");
    expect_told(1999, "0 and more: the log has all\"", 399, "7 and more: the log has all\"");
    expect_told(3000, "0 and more: the log has all\"", 300, "7\xc3\xa9\"");
}

Test(unit_health, each_problem_fails_one_check_and_few_decide_readiness) {
    static const char *const checks[] = {"roles", "redis", "lock", "queues", "wakeups", "audit", "config"};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        setup_t w = {.metrics = metrics_new(1), .role = {.name = "auditor"}};
        const role_t *const roles[] = {&w.role};
        scoped(buffer_free) buffer_t json = {0};
        w.health = health_new(w.metrics, "app", true);
        w.queue = metrics_queue(w.metrics, "email");
        health_watch_roles(w.health, roles, 1);
        metric_set(&w.metrics->redis_up, 1);
        metric_set(&w.metrics->leading, 1);
        ROWS[i].change(&w);
        cr_expect_eq(health_ready(w.health, &json), ROWS[i].ready, "row %zu: %s", i, buffer_text(&json));
        const char *text = buffer_text(&json);
        cr_expect(strstr(text, ROWS[i].ready ? "{\"ready\": true, \"group\": \"app\"" : "{\"ready\": false, \"group\": \"app\""));
        cr_expect_eq(count(text, "\"ok\": false"), ROWS[i].check != NULL, "row %zu: %s", i, text);
        for (size_t c = 0; c < sizeof checks / sizeof *checks; c++) {
            bool wrong = ROWS[i].check && strcmp(checks[c], ROWS[i].check) == 0;
            char *head = kept_printf("{\"check\": \"%s\", \"ok\": %s", checks[c], wrong ? "false, \"why\": \"" : "true");
            const char *at = strstr(text, head);
            cr_expect(at && (!wrong || strncmp(at + strlen(head), ROWS[i].why, strlen(ROWS[i].why)) == 0), "row %zu, %s: %s", i,
                      head, text);
        }
        health_free(w.health);
        metrics_free(w.metrics);
    }
}

/* In a Cluster each shard has a leader of its own. */
Test(unit_health, a_reason_lasts_until_its_teller_takes_it_back) {
    static const struct {
        int teller;
        const char *says, *shown;
    } steps[] = {
        {0, "A is away", ": A is away"},
        {1, "B is away", ": A is away (and 1 more)"},
        {2, NULL, ": A is away (and 1 more)"},
        {0, "A is loading", ": A is loading (and 1 more)"},
        {0, NULL, ": B is away"},
        {1, NULL, ": the log says why"},
    };
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    const char tellers[3] = "";
    metrics_say(metrics, WHY_AUDIT, &tellers[0], "disk full");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        scoped(buffer_free) buffer_t told = {0};
        metrics_say(metrics, WHY_REDIS, &tellers[steps[i].teller], steps[i].says);
        metrics_tell(metrics, WHY_REDIS, &told);
        cr_expect_str_eq(buffer_text(&told), steps[i].shown, "step %zu", i);
    }
}
