/* status_diagnose: most tests change one fact of a healthy group, to one side of a limit or the other. */
#include "base/json/json.h"
#include "queue/lock.h"
#include "status_fixture.h"
#include "tempdir.h"

#define SETTINGS "stream = { max_bytes = \"1MiB\"; min_copies = 1; }; http = { port = 8642; };"
#define QUEUES                                                                                                                   \
    "queues = ( { name = \"email\"; ready_limit = 100; alive_timeout = \"1h\"; on_failure = \"told\"; }, { name = \"sms\"; "     \
    "roles = [\"dispatcher\"]; "                                                                                                 \
    "alive_timeout = \"1h\"; }, { name = \"x$y\"; roles = [\"monitor\"]; heartbeat = \"x$y:*_alive\"; } );"

static snapshot_lock_t *first_lock(world_t *w) { return &w->s.snapshot.locks[0]; }
static snapshot_queue_t *first_queue(world_t *w) { return &w->s.snapshot.queues[0]; }
static sizes_t *first_sizes(world_t *w) { return &w->s.sizes[0]; }

static void copies(world_t *w, int64_t heard_ago_ms, size_t count) {
    static snapshot_copy_t all[2];
    for (size_t i = 0; i < count; i++) all[i] = (snapshot_copy_t){.heard_ms = NOW - heard_ago_ms};
    first_queue(w)->copies = all;
    first_queue(w)->copy_count = count;
}

static void set_preflight(world_t *w, preflight_level_t kind, size_t queue) {
    static char text[] = "delayed key \"d\" holds a list";
    w->s.preflight = mem_array(1, sizeof *w->s.preflight);
    w->s.preflight_count = 1;
    w->s.preflight[0] = (status_preflight_t){.kind = kind, .queue = queue, .text = text};
}

static void set_check(world_t *w, const char *name, const char *why) {
    w->s.local.count = 1;
    snprintf(w->s.local.checks[0].name, sizeof w->s.local.checks[0].name, "%s", name);
    snprintf(w->s.local.checks[0].why, sizeof w->s.local.checks[0].why, "%s", why);
}

static primary_view_t *primary(world_t *w) {
    static primary_view_t one;
    one = (primary_view_t){.address = "10.0.0.1:6379", .certificate_end_ms = -1, .replicas = -1, .good_replicas = -1};
    w->s.servers = (servers_t){.mode = REDIS_MODE_SINGLE, .primaries = &one, .primary_count = 1};
    return &one;
}

static void silent_sentinel(world_t *w) {
    static sentinel_view_t sentinels[] = {{.address = "10.0.0.1:26379", .primary = "10.0.0.1:6379"},
                                          {.address = "10.0.0.2:26379", .error = "10.0.0.2:26379: no reply"}};
    w->s.servers = (servers_t){.mode = REDIS_MODE_SENTINEL, .sentinels = sentinels, .sentinel_count = 2};
}
static void quarrel(world_t *w) { snprintf(w->s.servers.quarrel, sizeof w->s.servers.quarrel, "a says b, c says d"); }
static void certificate_ends(world_t *w) { primary(w)->certificate_end_ms = NOW + 14 * (int64_t)DAY; }
static void certificate_ended(world_t *w) { primary(w)->certificate_end_ms = NOW - 1; }
static void certificate_lasts(world_t *w) { primary(w)->certificate_end_ms = NOW + 14 * (int64_t)DAY + 1; }
static void no_replica(world_t *w) { primary(w)->replicas = 0; }
static void one_node(world_t *w) { snprintf(primary(w)->mode, 16, "cluster"); }
static void all_nodes(world_t *w) { one_node(w), w->s.servers.mode = REDIS_MODE_CLUSTER; }
static void lossy(world_t *w) { primary(w)->replicas = 1; }
static void vacant(world_t *w) { *first_lock(w) = (snapshot_lock_t){.pttl_ms = -2}; }
static void takes_no_writes(world_t *w) {
    snprintf(primary(w)->refuses_writes, 200, "MISCONF no disk");
    set_check(w, "lock", "neither leading nor standing by yet: MISCONF"), vacant(w);
}
static void not_lossy(world_t *w) { lossy(w), w->s.servers.primaries->good_replicas = 0; }
static void foreign_lock(world_t *w) { snprintf(first_lock(w)->holder, TOKEN_SIZE, "somebody"); }
static void lives_long(world_t *w) { first_lock(w)->pttl_ms = 5001; }
static void lives_as_long(world_t *w) { first_lock(w)->pttl_ms = 5000; }
static void lives_for_ever(world_t *w) { first_lock(w)->pttl_ms = -1; }
static void lock_refused(world_t *w) {
    redis_error_set(&first_lock(w)->error, OUTCOME_REFUSED, "\"sidecar:app:lock\": NOPERM"), *first_lock(w)->holder = '\0';
}
static void unserved(world_t *w) { first_queue(w)->served = false; }
static void more_queues(world_t *w) { first_lock(w)->others = 2; }
static void others(world_t *w) { snprintf(first_queue(w)->owner, 136, "others"), first_queue(w)->served = false; }
static void nobodys(world_t *w) { *first_queue(w)->owner = '\0'; }
static void bad_key(world_t *w) { redis_error_set(&first_queue(w)->error, OUTCOME_REFUSED, "\"sidecar:email:meta\": WRONGTYPE"); }
/* Nothing else is said of the queue. */
static void cut_off(world_t *w) {
    bad_key(w);
    w->s.places[0] = (status_place_t){.state = SLOT_CUT_OFF, .why = "its slot is gone"};
}
static void moving(world_t *w) {
    cut_off(w);
    w->s.places[0] = (status_place_t){.state = SLOT_MOVING, .why = "its slot moves"};
}
static void bad_count(world_t *w) { redis_error_set(&first_sizes(w)->error, OUTCOME_REFUSED, "\"email\" holds a hash"); }
static void late(world_t *w) { first_sizes(w)->next_due_ms = NOW - 15001, first_sizes(w)->delayed = 1204; }
static void late_enough(world_t *w) { first_sizes(w)->next_due_ms = NOW - 15000; }
static void late_without_leader(world_t *w) { late(w), vacant(w); }
static void late_and_full(world_t *w) { late(w), first_sizes(w)->ready = 100; }
static void late_nearly_full(world_t *w) { late(w), first_sizes(w)->ready = 99; }
static void grows(world_t *w) {
    first_queue(w)->grows_ms = 720000, first_queue(w)->grows_to = 5000, first_sizes(w)->ready = 5007;
}
static void grew(world_t *w) { grows(w), first_sizes(w)->ready = 4999; }
static void grows_to_limit(world_t *w) { late_and_full(w), first_queue(w)->grows_ms = 720000, first_queue(w)->grows_to = 100; }
static void late_of_no_dispatcher(world_t *w) { w->s.sizes[2].next_due_ms = NOW - HOUR; }
static void old(world_t *w) { first_sizes(w)->oldest_in_progress_ms = NOW - HOUR - 180001; }
static void old_enough(world_t *w) { first_sizes(w)->oldest_in_progress_ms = NOW - HOUR - 180000; }
static void old_of_no_monitor(world_t *w) { w->s.sizes[1].oldest_in_progress_ms = NOW - DAY; }
static void full(world_t *w) { first_sizes(w)->records = 10, first_sizes(w)->record_bytes = MIB - MIB / 20; }
static void nearly_full(world_t *w) { first_sizes(w)->records = 100, first_sizes(w)->record_bytes = MIB * 85 / 100; }
static void half_full(world_t *w) { first_sizes(w)->records = 100, first_sizes(w)->record_bytes = MIB * 79 / 100; }
static void trimmed(world_t *w, int64_t early_ms, int64_t age_ms) {
    first_queue(w)->trimmed_early = early_ms;
    snprintf(first_queue(w)->stream.trimmed, STREAM_ID_SIZE, "%lld-7", (long long)(NOW - age_ms));
}
static void trimmed_early(world_t *w) { trimmed(w, NOW - HOUR, 2 * HOUR); }
static void trimmed_in_time(world_t *w) { trimmed(w, 0, 2 * HOUR); }
static void trimmed_long_ago(world_t *w) { trimmed(w, NOW - HOUR, DAY); }
static void uncopied(world_t *w) { first_queue(w)->uncopied_ms = NOW - 60001; }
static void nearly_uncopied(world_t *w) { first_queue(w)->uncopied_ms = NOW - 60000; }
static void silent(world_t *w) { copies(w, DAY + 1, 2); }
static void heard(world_t *w) { copies(w, DAY, 2); }
static void behind(world_t *w) {
    copies(w, 7200000, 2);
    first_queue(w)->stream = (stream_ends_t){.length = 1};
    snprintf(first_queue(w)->stream.last, STREAM_ID_SIZE, "%lld-0", (long long)(NOW - 60001));
    snprintf(first_queue(w)->copies[0].position, STREAM_ID_SIZE, "%lld-1", (long long)(NOW - 60002));
    snprintf(first_queue(w)->copies[1].position, STREAM_ID_SIZE, "%s", first_queue(w)->stream.last);
}
static void behind_by_a_moment(world_t *w) {
    behind(w);
    snprintf(first_queue(w)->stream.last, STREAM_ID_SIZE, "%lld-0", (long long)(NOW - 60000));
}
static void behind_and_not_heard(world_t *w) {
    behind(w);
    first_queue(w)->copies[0].heard_ms--;
}
static void notification_lost(world_t *w) {
    snapshot_queue_t *queue = first_queue(w);
    queue->lost_ms = NOW - HOUR;
    snprintf(queue->lost_why, sizeof queue->lost_why, "it is full");
}
static void stale_unique(world_t *w) { first_queue(w)->stale_unique = 2; }
/* Told a second ago by the leader, or so long ago that it says nothing. */
static void told(world_t *w, const char *name, int number, int64_t valid_ms) {
    static char field[256];
    snprintf(field, sizeof field, "%d %lld %lld sample of %s", number, (long long)(NOW - HOUR), (long long)(NOW + valid_ms),
             name);
    for (int kind = 0; kind < ANOMALY_KINDS; kind++)
        if (strcmp(anomaly_name((anomaly_kind_t)kind), name) == 0) first_queue(w)->anomalies[kind] = field;
}
static void large_in_progress(world_t *w) { told(w, "large_in_progress", 2, 0); }
static void large_no_more(world_t *w) { told(w, "large_in_progress", 2, -1); }
static void large_delayed(world_t *w) {
    late(w), told(w, "large_delayed", 1, HOUR), first_sizes(w)->behind_large_ms = NOW - 15000;
}
static void large_alone(world_t *w) { large_delayed(w), first_sizes(w)->behind_large_ms = INT64_MAX; }
static void large_events(world_t *w) { told(w, "large_events", 1, HOUR); }
static void large_dead_letters(world_t *w) { told(w, "large_dead_letters", 1, HOUR); }
static void endless_heartbeats(world_t *w) { told(w, "endless_heartbeats", 1, HOUR); }
static void undated_jobs(world_t *w) { told(w, "undated_jobs", 12, HOUR); }
static void early_jobs(world_t *w) { told(w, "early_jobs", 1, HOUR); }
static void endless_retries(world_t *w) { told(w, "endless_retries", 2, HOUR); }
static void orphan_reports(world_t *w) { told(w, "orphan_reports", 1, HOUR); }
static void failed(world_t *w) {
    status_count(&w->s.recent[2], slice_text("failed"), slice_text("reported"), 3);
    status_count(&w->s.recent[2], slice_text("failed"), slice_text("new_reason"), 1);
    status_count(&w->s.recent[2], slice_text("retried"), slice_text("stalled"), 7);
}
static void retried(world_t *w) { status_count(&w->s.recent[0], slice_text("retried"), slice_text("stalled"), 7); }
static void last_id(world_t *w) { snprintf(first_queue(w)->stream.last, STREAM_ID_SIZE, STREAM_ID_MAX); }
static void redis_full(world_t *w) { w->s.snapshot.memory_used = 100; }
static void redis_full_of_records(world_t *w) {
    redis_full(w);
    for (size_t i = 0; i < w->s.snapshot.queue_count; i++) w->s.snapshot.queues[i].stream.bytes = 10 * (int64_t)(i + 1);
}
static void redis_nearly_full(world_t *w) { w->s.snapshot.memory_used = 95; }
static void redis_roomy(world_t *w) { w->s.snapshot.memory_used = 94; }
static void redis_unlimited(world_t *w) { w->s.snapshot.memory_most = 0; }
static void clocks(world_t *w) { w->s.wall_ms = NOW - 60001; }
static void clocks_near(world_t *w) { w->s.wall_ms = NOW + 60000; }
static void disabled_queue(world_t *w) { set_preflight(w, PREFLIGHT_QUEUE_DISABLED, 0); }
static void cannot_lead(world_t *w) { set_preflight(w, PREFLIGHT_REFUSED, SIZE_MAX); }
static void weakened(world_t *w) { set_preflight(w, PREFLIGHT_WARNING, SIZE_MAX); }
static void not_used(world_t *w) { set_preflight(w, PREFLIGHT_NOTE, 0); }
static void fact(world_t *w) { set_preflight(w, PREFLIGHT_FACT, SIZE_MAX); }
static void told_twice(world_t *w) { set_preflight(w, PREFLIGHT_QUEUE_REFUSED, 0), bad_key(w), bad_count(w); }
static void nobody_here(world_t *w) { w->s.local.state = LOCAL_SILENT; }
static void not_asked(world_t *w) { w->s.local = (local_instance_t){0}; }
static void audit_check_fails(world_t *w) { set_check(w, "audit", "the audit log cannot be written"); }
static void tracking_refused(world_t *w) { set_check(w, "wakeups", "Redis refuses client tracking"); }
static void refused(world_t *w) { set_check(w, "config", "line 7: no"); }
static void gaps(world_t *w) { w->s.log.open_gaps = 2; }
static void erased_texts(world_t *w) { w->s.log.unscrubbed = 1; }
static void no_log(world_t *w) { w->s.log = (status_log_t){.open_gaps = 2}; }
static void streamed(world_t *w) { failed(w), w->s.source = STATUS_FROM_STREAM; }
static void bad_type(world_t *w) { set_preflight(w, PREFLIGHT_QUEUE_REFUSED, 0); }
static void unresponsive(world_t *w) { w->s.local = (local_instance_t){.state = LOCAL_UNRESPONSIVE}; }
static void unrelated(world_t *w) {
    w->s.local = (local_instance_t){.state = LOCAL_UNRELATED, .why = "a sidecar of group \"x\" answers there"};
}
static void locked_log(world_t *w) { w->s.log = (status_log_t){.why = "permission denied"}; }
static void absent_log(world_t *w) { w->s.log = (status_log_t){.why = "there is none", .absent = true}; }
static void far(world_t *w) { first_sizes(w)->next_due_ms = NOW + 3652 * (int64_t)DAY + 1, first_sizes(w)->delayed = 2; }
static void far_and_odd(world_t *w) { w->s.sizes[2].next_due_ms = NOW + 3652 * (int64_t)DAY + 1; }
static void not_far(world_t *w) { first_sizes(w)->next_due_ms = NOW + 3652 * (int64_t)DAY; }
static void never(world_t *w) { first_sizes(w)->next_due_ms = INT64_MAX; }
static void set_heartbeat(world_t *w, const char *pattern) {
    free(w->config->queues[2].policy.heartbeat);
    w->config->queues[2].policy.heartbeat = mem_str(pattern);
}
static void heartbeats_meet(world_t *w) { set_heartbeat(w, "*_alive"); }
static void no_heartbeat(world_t *w) { set_heartbeat(w, "off"); }
static void gone(world_t *w) {
    w->s.reached = false;
    redis_error_set(&w->s.error, OUTCOME_DISCONNECTED, "cannot connect: Connection refused");
}
static void nothing(world_t *w) { (void)w; }

static const struct {
    const char *name;
    void (*change)(world_t *w);
    const char *code; /* NULL = no finding */
    status_severity_t severity;
    const char *queue;       /* NULL = the finding names no queue */
    const char *what, *next; /* parts of its texts; NULL = not checked */
} ROWS[] = {
    {"well", nothing, NULL, 0, NULL, NULL, NULL},
    {"no leader", vacant, "no_leader", STATUS_FAULT, NULL, "sidecar:app:lock is free", "queue-sidecar run"},
    {"foreign lock", foreign_lock, "lock_foreign", STATUS_FAULT, NULL, "holds \"somebody\"", "DEL sidecar:app:lock"},
    {"lives long", lives_long, "clock_step", STATUS_WARNING, NULL, "expires in 5.0 s", "pod-1/1"},
    {"lives as long", lives_as_long, NULL, 0, NULL, NULL, NULL},
    {"lives for ever", lives_for_ever, "clock_step", STATUS_WARNING, NULL, "never expires", "standby"},
    {"lock refused", lock_refused, "lock_fault", STATUS_FAULT, NULL, "NOPERM", "check -c"},
    {"unserved", unserved, "unserved", STATUS_FAULT, "email", "pod-1/1 does not serve this queue", "`group`"},
    {"more queues", more_queues, "more_queues", STATUS_NOTE, NULL, "pod-1/1 has 2 queues that this config", "the same queues"},
    {"others", others, "other_group", STATUS_FAULT, "email", "group \"others\" owns this queue", "one of the two"},
    {"nobody's yet", nobodys, NULL, 0, NULL, NULL, NULL},
    {"bad key", bad_key, "key_fault", STATUS_FAULT, "email", "WRONGTYPE", "check -c"},
    {"bad count", bad_count, "key_fault", STATUS_FAULT, "email", "holds a hash", "check -c"},
    {"late", late, "overdue", STATUS_FAULT, "email", "15 s late; 1,204 in delayed", "log of pod-1/1"},
    {"late enough", late_enough, NULL, 0, NULL, NULL, NULL},
    {"late without leader", late_without_leader, "no_leader", STATUS_FAULT, NULL, "no instance leads", NULL},
    {"grows", grows, "ready_grows", STATUS_WARNING, "email", "ready has only grown for 12 min: 5,007 jobs wait", "workers"},
    {"grew", grew, NULL, 0, NULL, NULL, NULL},
    {"grows to its limit", grows_to_limit, "ready_limit", STATUS_WARNING, "email", "ready_limit is 100", "workers"},
    {"late and full", late_and_full, "ready_limit", STATUS_WARNING, "email", "ready holds 100 and ready_limit is 100", "workers"},
    {"late, nearly full", late_nearly_full, "overdue", STATUS_FAULT, "email", "15 s late", NULL},
    {"late, no dispatcher", late_of_no_dispatcher, NULL, 0, NULL, NULL, NULL},
    {"old", old, "too_old", STATUS_WARNING, "email", "in progress for 63 min, but alive_timeout is 60 min", "alive_kills"},
    {"old enough", old_enough, NULL, 0, NULL, NULL, NULL},
    {"old, no monitor", old_of_no_monitor, NULL, 0, NULL, NULL, NULL},
    {"stream full", full, "stream_full", STATUS_FAULT, "email", "no job can end: 10 records", "stream.max_bytes"},
    {"stream out of ids", last_id, "stream_last_id", STATUS_FAULT, "email", "highest possible", "DEL sidecar:email:failures"},
    {"stream nearly full", nearly_full, "stream_fills", STATUS_WARNING, "email", "nearly full", "stream.max_bytes"},
    {"stream half full", half_full, NULL, 0, NULL, NULL, NULL},
    {"stream trimmed early", trimmed_early, "trimmed_early", STATUS_NOTE, "email",
     "back only 2 h: the records of stream.retain (24 h) take more than half of stream.max_bytes (1.0 MiB), or Redis was nearly "
     "full",
     "import FILE"},
    {"stream trimmed in time", trimmed_in_time, NULL, 0, NULL, NULL, NULL},
    {"stream trimmed long ago", trimmed_long_ago, NULL, 0, NULL, NULL, NULL},
    {"uncopied", uncopied, "uncopied", STATUS_WARNING, "email", "stream.min_copies (1) audit logs; 0 logs are active", "log"},
    {"nearly uncopied", nearly_uncopied, NULL, 0, NULL, NULL, NULL},
    {"silent logs", silent, "silent_log", STATUS_NOTE, "email", "2 of 2 audit logs have been silent, the longest for 24 h",
     "within the hour"},
    {"logs heard", heard, NULL, 0, NULL, NULL, NULL},
    {"logs behind", behind, "behind", STATUS_NOTE, "email", "1 of 2 audit logs lacks the newest record, which is 60 s old",
     "log"},
    {"logs behind by a moment", behind_by_a_moment, NULL, 0, NULL, NULL, NULL},
    {"logs behind, not heard", behind_and_not_heard, NULL, 0, NULL, NULL, NULL},
    {"notification lost", notification_lost, "notifications_lost", STATUS_WARNING, "email", "it is full", "worker takes"},
    {"stale unique ids", stale_unique, "stale_unique", STATUS_WARNING, "email",
     "2 ids are in the sets of unique tasks, but no task", "Push the task again only if it has not run"},
    {"large in progress", large_in_progress, "large_in_progress", STATUS_WARNING, "email",
     "2 jobs in progress are larger than max_payload, such as sample of large_in_progress; first seen 60 min ago", "max_payload"},
    {"large no more", large_no_more, NULL, 0, NULL, NULL, NULL},
    {"large in delayed", large_delayed, "large_delayed", STATUS_WARNING, "email", "1 due job is larger", "max_payload"},
    {"large, alone", large_alone, "large_delayed", STATUS_WARNING, "email", "1 due job is larger", "max_payload"},
    {"large events", large_events, "large_delayed", STATUS_WARNING, "email", "1 event is larger", "max_payload"},
    {"large dead letters", large_dead_letters, "large_dead_letters", STATUS_WARNING, "email", "1 dead letter", "max_payload"},
    {"heartbeats without TTL", endless_heartbeats, "endless_heartbeats", STATUS_WARNING, "email",
     "1 job is kept in progress by a heartbeat without a TTL", "SET KEY WORKER EX 30"},
    {"jobs without a date", undated_jobs, "undated_jobs", STATUS_WARNING, "email", "12 jobs have no time", "created_path"},
    {"jobs that run early", early_jobs, "early_jobs", STATUS_WARNING, "email", "1 promotion of a job", "now + delay"},
    {"equal jobs", endless_retries, "endless_retries", STATUS_WARNING, "email", "2 retries beyond", "end_duplicates"},
    {"reports without jobs", orphan_reports, "orphan_reports", STATUS_WARNING, "email", "1 report without its job",
     "log of pod-1/1"},
    {"failed", failed, "failures", STATUS_NOTE, "x$y", "4 final failures in the last hour: 3 reported, 1 other",
     "audit list -c {config} --queue 'x$y' --since 1h"},
    {"retried", retried, NULL, 0, NULL, NULL, NULL},
    {"redis full", redis_full, "redis_full", STATUS_FAULT, NULL, "100 bytes of its maxmemory, 100 bytes", "maxmemory"},
    {"redis full of records", redis_full_of_records, "redis_full", STATUS_FAULT, NULL,
     "100 bytes; failure streams hold 60 bytes of it: sidecar:x$y:failures 30 bytes, sidecar:sms:failures 20 bytes", "maxmemory"},
    {"redis nearly full", redis_nearly_full, "redis_full", STATUS_WARNING, NULL, "95 bytes", "maxmemory"},
    {"redis roomy", redis_roomy, NULL, 0, NULL, NULL, NULL},
    {"redis without limit", redis_unlimited, NULL, 0, NULL, NULL, NULL},
    {"clocks", clocks, "clocks", STATUS_NOTE, NULL, "60 s apart", "NTP"},
    {"clocks near", clocks_near, NULL, 0, NULL, NULL, NULL},
    {"disabled queue", disabled_queue, "preflight", STATUS_FAULT, "email", "holds a list", "check -c"},
    {"cannot lead", cannot_lead, "preflight", STATUS_FAULT, NULL, "holds a list", "check -c"},
    {"weakened", weakened, "preflight", STATUS_WARNING, NULL, "holds a list", "check -c"},
    {"not used", not_used, "other_keys", STATUS_NOTE, "email", "holds a list", "check -c"},
    {"fact", fact, NULL, 0, NULL, NULL, NULL},
    {"told twice", told_twice, "preflight", STATUS_FAULT, "email", "holds a list", NULL},
    {"nobody here", nobody_here, "no_answer", STATUS_NOTE, NULL, "no instance answers", "its log"},
    {"not asked", not_asked, NULL, 0, NULL, NULL, NULL},
    {"audit check fails", audit_check_fails, "not_ready", STATUS_FAULT, NULL, "(audit): the audit log cannot be written",
     "log of the instance"},
    {"tracking refused", tracking_refused, "not_ready", STATUS_WARNING, NULL, "(wakeups): Redis refuses client tracking",
     "Least privilege"},
    {"config refused", refused, "config_refused", STATUS_FAULT, NULL, "refuses the newest config: line 7: no", "SIGHUP"},
    {"gaps", gaps, "gaps", STATUS_NOTE, NULL, "has 2 gaps", "audit import"},
    {"erased texts", erased_texts, "erased_texts", STATUS_NOTE, NULL, "may still be in the file", "says what is in the way"},
    {"no log", no_log, NULL, 0, NULL, NULL, NULL},
    {"failed, by streams", streamed, "failures", STATUS_NOTE, "x$y", "4 final failures in the last hour: 3 reported, 1 other",
     "XREVRANGE 'sidecar:x$y:failures' + -"},
    {"bad type", bad_type, "preflight", STATUS_FAULT, "email", "holds a list", "rename or delete it"},
    {"mute", unresponsive, "mute", STATUS_WARNING, NULL, "does not answer", "kill -CONT"},
    {"another one here", unrelated, "another", STATUS_WARNING, NULL, "http.port: a sidecar of group \"x\"", "port of its own"},
    {"log of others", locked_log, "log_unreadable", STATUS_NOTE, NULL, "permission denied", "user"},
    {"no file", absent_log, NULL, 0, NULL, NULL, NULL},
    {"far", far, "score_unit", STATUS_WARNING, "email", "2 delayed jobs falls due in 3652 d", "score_unit"},
    {"far, of an odd name", far_and_odd, "score_unit", STATUS_WARNING, "x$y", "falls due in 3652 d", "ZRANGE 'x$y:delayed' 0 0"},
    {"not far", not_far, NULL, 0, NULL, NULL, NULL},
    {"never", never, NULL, 0, NULL, NULL, NULL},
    {"a sentinel is silent", silent_sentinel, "sentinels", STATUS_WARNING, NULL,
     "1 of 2 sentinels names no primary: 10.0.0.2:26379: no reply", "redis.sentinels"},
    {"sentinels disagree", quarrel, "sentinels", STATUS_WARNING, NULL, "disagree about the primary: a says b, c says d",
     "SENTINEL"},
    {"certificate ends", certificate_ends, "certificate_ends", STATUS_WARNING, NULL, "of 10.0.0.1:6379 ends in 14 d", "Renew"},
    {"certificate has ended", certificate_ended, "certificate_ends", STATUS_WARNING, NULL, "has ended", "Renew"},
    {"certificate lasts", certificate_lasts, NULL, 0, NULL, NULL, NULL},
    {"one node of a Cluster", one_node, "one_node", STATUS_NOTE, NULL, "10.0.0.1:6379 is one node of a Cluster", "redis.mode"},
    {"all nodes of a Cluster", all_nodes, NULL, 0, NULL, NULL, NULL},
    {"a failover loses", lossy, "failover_loses", STATUS_NOTE, NULL, "a failover of 10.0.0.1:6379 may lose",
     "min-replicas-to-write"},
    {"writes wait for a replica", not_lossy, NULL, 0, NULL, NULL, NULL},
    {"writes refused", takes_no_writes, "writes_refused", STATUS_FAULT, NULL,
     "Redis at 10.0.0.1:6379 takes no writes: MISCONF no disk", "disk is full"},
    {"no replica", no_replica, NULL, 0, NULL, NULL, NULL},
    {"slot moves", moving, "slot", STATUS_WARNING, "email", "its slot moves", "the move"},
    {"slot cut off", cut_off, "slot", STATUS_FAULT, "email", "its slot is gone", "promote its replica"},
    {"heartbeats meet", heartbeats_meet, "heartbeat_shared", STATUS_WARNING, NULL,
     "queues email and x$y have heartbeats in common (\"*_alive\")", "email:*_alive"},
    {"no heartbeat", no_heartbeat, NULL, 0, NULL, NULL, NULL},
    {"redis gone", gone, "redis_unreachable", STATUS_FAULT, NULL, "Connection refused", "redis"},
};

static void expect_part(const char *row, const world_t *w, const char *text, const char *part) {
    if (!part) return;
    const char *mark = strstr(part, "{config}");
    char *whole =
        mark ? mem_printf("%.*s%s%s", (int)(mark - part), part, w->config->path, mark + strlen("{config}")) : mem_str(part);
    cr_assert_not_null(strstr(text, whole), "%s: no \"%s\" in \"%s\"", row, whole, text);
    free(whole);
}

Test(unit_status, each_trouble_is_found_alone_and_at_its_boundary) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        scoped(end) world_t w = well(SETTINGS QUEUES);
        ROWS[i].change(&w);
        scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
        const status_finding_t *first = found.items;
        cr_assert_eq(found.count, ROWS[i].code ? 1 : 0, "%s: %zu findings, %s", ROWS[i].name, found.count,
                     found.count ? first->what : "");
        int code = ROWS[i].change == gone ? CLI_REDIS_UNREACHABLE : !ROWS[i].code || ROWS[i].severity == STATUS_NOTE ? 0 : 1;
        cr_assert_eq(status_exit(&w.s, &found), code, "%s", ROWS[i].name);
        if (ROWS[i].code) {
            cr_assert_str_eq(first->code, ROWS[i].code, "%s", ROWS[i].name);
            cr_assert_eq(first->severity, ROWS[i].severity, "%s", ROWS[i].name);
            cr_assert_eq(first->queue_count, ROWS[i].queue ? 1 : 0, "%s", ROWS[i].name);
            if (ROWS[i].queue) cr_assert_str_eq(w.keys->queues[first->queues[0]].config->name, ROWS[i].queue);
            expect_part(ROWS[i].name, &w, first->what, ROWS[i].what);
            expect_part(ROWS[i].name, &w, first->next, ROWS[i].next);
            cr_assert_gt(strlen(first->why), 10, "%s", ROWS[i].name);
            cr_assert_null(strchr(first->next, '{'), "%s: %s", ROWS[i].name, first->next);
        }
    }
}

/* The table of findings in docs/status.md, inside `readme`, with a NUL behind its last row. */
static const char *table_of(char *readme) {
    char *table = strstr(readme, "\n| finding (`code`) |"), *rest = table ? strstr(table, "\n\n") : NULL;
    cr_assert(rest, "docs/status.md has no table of findings");
    rest[1] = '\0';
    return strstr(table + 1, "\n| `"); /* behind its head */
}

static bool is_found(slice_t code) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].code && slice_is(code, ROWS[i].code)) return true;
    return false;
}

Test(unit_status, docs_status_lists_exactly_these_codes) {
    char *readme = temp_read("docs/status.md");
    const char *table = table_of(readme);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (!ROWS[i].code) continue;
        char *code = mem_printf("`%s`", ROWS[i].code);
        const char *at = strstr(table, code), *line = at;
        while (line && line > table && *line != '\n') line--;
        cr_expect(at && !memchr(line + 3, '|', (size_t)(at - line - 3)),
                  "no row of the findings in docs/status.md begins with %s", code);
        free(code);
    }
    for (const char *line = table; line && line[1]; line = strchr(line + 1, '\n')) {
        const char *end = strchr(line + 3, '|');
        for (const char *at = strchr(line, '`'); at && at < end; at = strchr(strchr(at + 1, '`') + 1, '`')) {
            const slice_t code = {at + 1, (size_t)(strchr(at + 1, '`') - at - 1)};
            cr_expect(is_found(code), "no test finds %.*s", (int)code.len, code.data);
        }
    }
}

Test(unit_status, faults_come_first_and_findings_are_counted) {
    scoped(end) world_t w = well(SETTINGS QUEUES);
    failed(&w), lives_long(&w), full(&w), gaps(&w), clocks(&w);
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
    static const char *const order[] = {"stream_full", "clock_step", "failures", "clocks", "gaps"};
    cr_assert_eq(found.count, 5);
    for (size_t i = 0; i < 5; i++) cr_assert_str_eq(found.items[i].code, order[i]);
    cr_assert(found.of[STATUS_FAULT] == 1 && found.of[STATUS_WARNING] == 1 && found.of[STATUS_NOTE] == 3);
}

/* An operator acts on these texts, so they must be true. */
Test(unit_status, findings_name_the_parts_that_still_work) {
    static const struct {
        preflight_level_t kind;
        const char *check, *why;
    } rows[] = {{PREFLIGHT_QUEUE_REFUSED, NULL, "all other work goes on"},
                {PREFLIGHT_QUEUE_DISABLED, NULL, "This queue is not served"},
                {PREFLIGHT_REFUSED, NULL, "A leader that already leads goes on"},
                {0, "queues", "leads or stands by all the same"},
                {0, "roles", "This role works again only"},
                {0, "audit", "wait"},
                {0, "lock", "neither lead nor stand by"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(end) world_t w = well(SETTINGS QUEUES);
        if (rows[i].check)
            set_check(&w, rows[i].check, "x");
        else
            set_preflight(&w, rows[i].kind, 0);
        scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
        cr_assert_eq(found.count, 1);
        cr_assert_not_null(strstr(found.items[0].why, rows[i].why), "%s", found.items[0].why);
    }
}

#define LONG                                                                                                                     \
    "a-queue-with-a-name-that-nobody-would-give-it-if-he-had-to-read-it-at-three-at-night-but-128-bytes-are-allowed-so-"         \
    "here-it-is."

/* Many findings at once. */
static world_t many_findings(void) {
    world_t w =
        well("queues = ( { name = \"" LONG "\"; ready_limit = 100; }, { name = \"\xc3\xa4\\\"q\"; }, { name = \"r\"; } );");
    late_and_full(&w), lives_long(&w), nearly_full(&w), silent(&w), clocks(&w), gaps(&w), audit_check_fails(&w), failed(&w),
        redis_full(&w);
    w.s.sizes[1] = (sizes_t){.now_ms = NOW, .delayed = INT64_C(123456789), .next_due_ms = INT64_MAX, .error.text = "no\x1b[2J"};
    w.s.recent[1] = (status_recent_t){.retried = STATUS_UNKNOWN, .failed = STATUS_UNKNOWN};
    return w;
}

static size_t width_of(const char *line, size_t len) {
    size_t width = 0;
    for (size_t i = 0; i < len; i++) width += ((unsigned char)line[i] & 0xc0) != 0x80;
    return width;
}

Test(unit_status, text_fits_and_cuts_long_names_visibly) {
    static const size_t widths[] = {80, 100, 120, 200};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t rows = 0; rows <= 24; rows += 12) {
            scoped(end) world_t w = many_findings();
            scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
            const status_view_t view = {.width = widths[i], .rows = rows, .utc = true};
            scoped(buffer_free) buffer_t out = {0};
            size_t lines = 0;
            status_text(&w.s, &found, &view, &out);
            for (const char *at = buffer_text(&out); *at; at += strcspn(at, "\n") + 1, lines++)
                cr_assert_leq(width_of(at, strcspn(at, "\n")), widths[i], "%s", at);
            cr_assert(rows == 0 || lines <= rows, "%zu lines: %s", lines, buffer_text(&out));
            cr_assert_null(strchr(buffer_text(&out), '\x1b'), "an escape sequence in a text of Redis is printed");
            cr_assert(rows || strstr(buffer_text(&out), "…"), "%s", buffer_text(&out)); /* a small screen ends before the name */
            cr_assert(rows || strstr(buffer_text(&out), "123.5M"), "%s", buffer_text(&out));
        }
}

Test(unit_status, json_is_valid_for_any_name_and_fault) {
    scoped(end) world_t w = many_findings();
    scoped(status_findings_free) status_findings_t found = status_diagnose(&w.s, NULL);
    scoped(buffer_free) buffer_t out = {0};
    json_value_t value;
    status_json(&w.s, &found, NULL, &out);
    slice_t json = {buffer_text(&out), out.len};
    cr_assert(json_pick(json, NULL, 0), "%s", buffer_text(&out));
    cr_assert_eq(json_find(json, "/queues/1/name", &value), JSON_FOUND);
    cr_assert(slice_is(value.raw, "\xc3\xa4\\\"q"), "%s", buffer_text(&out));
    cr_assert_eq(json_find(json, "/queues/1/next_due", &value), JSON_FOUND);
    cr_assert_eq(value.type, JSON_NULL, "a job that is never due has a due time");
    cr_assert_eq(json_find(json, "/queues/1/failed_last_hour_by_reason/reported", &value), JSON_FOUND);
    cr_assert_eq(value.type, JSON_NULL, "an unknown count is not null");
    gone(&w);
    buffer_clear(&out);
    status_json(&w.s, &found, NULL, &out);
    json = (slice_t){buffer_text(&out), out.len};
    cr_assert(json_pick(json, NULL, 0), "%s", buffer_text(&out));
}
