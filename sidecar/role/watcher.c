#include "role/watcher.h"

#include "base/buffer.h"
#include "base/condition.h"
#include "base/log.h"
#include "redis/cluster/cluster.h"
#include "redis/sentinel/events.h"
#include "redis/sentinel/locator.h"

enum {
    SENTINEL_PERIOD_S = 10,
    CLUSTER_PERIOD_S = 60,
    LEAST_MS = 500, // between two asks that no event has caused
    LOOK_MS = 500,  // between two looks for events; a longer gap tells the other roles that the process was frozen
    CLUSTER_LEAST_MS = 250,
    DISAGREE_S = 5, // sentinels tell each other of a failover every 2 s
    REASON_SIZE = 512,
};

static const char ROLE[] = "watcher";

struct watcher {
    topology_t *topology;
    metrics_t *metrics;
    const atomic_bool *stop;
    sentinel_events_t *events; // NULL = no sentinels
    mono_t next;               // when to ask again
    mono_t earliest;
    mono_t disagree_since; // mono_never = the sentinels agree
    condition_t silent;    // sentinels that do not answer
    condition_t disagree;
    condition_t unknown; // why the primary is unknown
    bool unnamed;        // the slot of a queue has no primary; counts as a missing one
};

watcher_t *watcher_new(topology_t *topology, metrics_t *metrics, const role_t *role) {
    watcher_t *watcher = mem_alloc(sizeof *watcher);
    *watcher = (watcher_t){.topology = topology, .metrics = metrics, .stop = &role->stop, .disagree_since = mono_never()};
    if (topology_locator(topology)) {
        watcher->events = sentinel_events_new(topology_config(topology), &role->stop);
        if (!watcher->events) {
            free(watcher);
            return NULL;
        }
    }
    topology_wake_on_refresh(topology, role->wake_fd);
    return watcher;
}

static void watcher_count_unnamed(watcher_t *watcher, bool unnamed) {
    if (unnamed != watcher->unnamed) metric_add(&watcher->metrics->primaries_missing, unnamed ? 1 : -1);
    watcher->unnamed = unnamed;
}

void watcher_free(watcher_t *watcher) {
    if (!watcher) return;
    watcher_count_unnamed(watcher, false);
    metrics_say(watcher->metrics, WHY_REDIS, watcher, NULL);
    sentinel_events_free(watcher->events);
    condition_free(&watcher->silent);
    condition_free(&watcher->disagree);
    condition_free(&watcher->unknown);
    free(watcher);
}

// Faults of the sentinels, as texts of a line; "" = none.
typedef struct findings {
    address_t answered[SENTINELS_MAX];
    char silent[REASON_SIZE];
    char disagree[REASON_SIZE];
    size_t answered_count;
} findings_t;

static void findings_read(const sentinel_group_t *group, void *arg) {
    findings_t *findings = arg;
    size_t count;
    const sentinel_answer_t *answers = sentinel_group_answers(group, &count);
    for (size_t i = 0; i < count; i++) {
        if (answers[i].error.outcome == OUTCOME_OK)
            findings->answered[findings->answered_count++] = answers[i].sentinel;
        else if (!*findings->silent)
            snprintf(findings->silent, sizeof findings->silent, "%s", answers[i].error.text);
    }
    if (!sentinel_group_disagrees(group, findings->disagree, sizeof findings->disagree)) *findings->disagree = '\0';
}

// Returns whether the sentinels disagree, perhaps only until they have told each other.
static bool watcher_report_findings(watcher_t *watcher, const findings_t *findings, mono_t now) {
    metric_set(&watcher->metrics->sentinels_answering, (int64_t)findings->answered_count);
    if (!*findings->disagree)
        watcher->disagree_since = mono_never();
    else if (mono_diff(watcher->disagree_since, now) > 0)
        watcher->disagree_since = now;
    bool lasts = mono_diff(now, watcher->disagree_since) >= DISAGREE_S * NS_PER_S;
    if (condition_update_reason(&watcher->silent, findings->silent) == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "a sentinel does not answer", F_INT("answering", findings->answered_count),
                 F_STR("reason", findings->silent));
    if (condition_update_reason(&watcher->disagree, lasts ? findings->disagree : NULL) == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "the sentinels disagree; believing the first of these", F_STR("reason", findings->disagree));
    return *findings->disagree && !lasts;
}

static void watcher_ask_sentinels(watcher_t *watcher, mono_t now, redis_error_t *error) {
    findings_t findings = {.answered_count = 0};
    bool followed = false;
    shard_locate(topology_shard(watcher->topology, 0), now, watcher->stop, error);
    locator_inspect(topology_locator(watcher->topology), findings_read, &findings);
    if (atomic_load(watcher->stop)) return;
    bool unsettled = watcher_report_findings(watcher, &findings, now);
    for (size_t i = 0; i < findings.answered_count; i++)
        followed = sentinel_events_follow(watcher->events, &findings.answered[i]) || followed;
    if (followed || unsettled || error->outcome != OUTCOME_OK) watcher->next = watcher->earliest;
}

static void watcher_ask_nodes(watcher_t *watcher, mono_t now, redis_error_t *error) {
    cluster_refresh(watcher->topology, watcher->stop, error);
    // No role may have a connection whose loss would cause the next ask.
    watcher_count_unnamed(watcher, topology_lacks_slots(watcher->topology));
    if (error->outcome != OUTCOME_OK || watcher->unnamed) watcher->next = mono_add(now, LEAST_MS * NS_PER_MS);
}

static void watcher_ask(watcher_t *watcher, mono_t now) {
    redis_error_t error;
    bool cluster = topology_is_cluster(watcher->topology);
    watcher->earliest = mono_add(now, (cluster ? CLUSTER_LEAST_MS : LEAST_MS) * NS_PER_MS);
    watcher->next = mono_add(now, (cluster ? CLUSTER_PERIOD_S : SENTINEL_PERIOD_S) * NS_PER_S);
    if (cluster)
        watcher_ask_nodes(watcher, now, &error);
    else
        watcher_ask_sentinels(watcher, now, &error);
    if (atomic_load(watcher->stop)) return; // the stop has cut the requests short
    condition_change_t change = condition_update_reason(&watcher->unknown, error.text);
    if (change != CONDITION_UNCHANGED)
        metrics_say(watcher->metrics, WHY_REDIS, watcher, change == CONDITION_BEGAN ? error.text : NULL);
    if (change == CONDITION_BEGAN)
        log_error(ROLE, NULL, "cannot learn where the primary is", F_STR("reason", error.text));
    else if (change == CONDITION_ENDED)
        log_info(ROLE, NULL, "learned where the primary is");
}

// Reads the events. Asks at once after news, and after a time in which the process may have been frozen.
static void watcher_look(watcher_t *watcher, mono_t now) {
    if (sentinel_events_read(watcher->events) || topology_is_unwatched(watcher->topology, now))
        watcher->next = now;
    else
        topology_note_watched(watcher->topology, now);
}

void watcher_tick(void *self, role_wait_t *wait) {
    watcher_t *watcher = self;
    mono_t now = mono_now();
    if (watcher->events) watcher_look(watcher, now);
    if (topology_take_refresh(watcher->topology)) watcher->next = mono_min(watcher->next, watcher->earliest);
    if (mono_reached(watcher->next, now)) watcher_ask(watcher, now);
    wait->trouble = watcher->unknown.holds;
    wait->until = watcher->next;
    if (!watcher->events) return;
    wait->until = mono_min(wait->until, mono_add(now, LOOK_MS * NS_PER_MS));
    role_wait_fd(wait, sentinel_events_fd(watcher->events));
}
