#include "operate/status/checks.h"

#include "base/text/units.h"
#include "dialects/dialect.h"
#include "queue/lock.h"

// ---- The preflight.

// Results without a queue come first.
static int64_t check_preflight(const check_subject_t *x, buffer_t *what) {
    if (x->preflight->kind != (preflight_level_t)x->row->variant) return 0;
    buffer_str(what, x->preflight->text);
    return x->queue == CHECK_NO_QUEUE ? 2 : 1;
}

static int64_t check_heartbeats(const check_subject_t *x, buffer_t *what) {
    size_t second;
    return config_shared_heartbeat(x->s->config, &second, what);
}

// ---- Checks of a lock.

// Whether another finding says why no instance can lead or be ready: Redis is gone, takes no writes, or fails the preflight. For
// the lock of a queue only the queue's own primary counts.
static bool checks_explained(const check_subject_t *x) {
    const servers_t *servers = &x->s->servers;
    const size_t own = x->queue == CHECK_NO_QUEUE ? SIZE_MAX : x->s->places[x->queue].primary; // SIZE_MAX = all
    size_t refusing = 0, count = 0;
    if (!x->s->reached) return true;
    for (size_t i = 0; i < x->s->preflight_count; i++)
        if (x->s->preflight[i].kind == PREFLIGHT_REFUSED && (own == SIZE_MAX || own == x->s->preflight[i].primary)) return true;
    for (size_t i = 0; i < servers->primary_count; i++) {
        if (own != SIZE_MAX && own != i) continue;
        count++;
        refusing += *servers->primaries[i].refuses_writes != 0;
    }
    return refusing > 0 && refusing == count;
}

static int64_t check_no_leader(const check_subject_t *x, buffer_t *what) {
    if (checks_explained(x) || x->s->config->lock.lead == (x->row->variant == CHECK_NEVER_LEADS)) return 0;
    if (*x->lock->holder || *x->lock->error.text) return 0;
    buffer_printf(what, "no instance leads: the lock %s is free", x->lock_keys->key);
    const char *harm = NULL;
    for (size_t i = 0; i < x->s->config->queue_count && !harm; i++)
        harm = dialect_ops(x->s->config->queues[i].dialect)->leaderless_harm;
    if (harm) buffer_printf(what, "; %s", harm);
    return 1;
}

static int64_t check_lock_foreign(const check_subject_t *x, buffer_t *what) {
    if (!*x->lock->holder || checks_is_led(x->lock)) return 0;
    buffer_printf(what, "the lock %s holds \"%s\", which no sidecar wrote", x->lock_keys->key, x->lock->holder);
    return 1;
}

static int64_t check_clock_step(const check_subject_t *x, buffer_t *what) {
    int64_t ttl_ms = token_ttl_ms(x->lock->holder), left_ms = x->lock->pttl_ms == -1 ? INT64_MAX : x->lock->pttl_ms;
    if (!checks_is_led(x->lock) || left_ms <= ttl_ms) return 0;
    if (left_ms == INT64_MAX)
        buffer_str(what, "the lock never expires");
    else
        buffer_printf(what, "the lock expires in %s", duration_text(left_ms).text);
    buffer_printf(what, ", but its holder gave it %s", duration_text(ttl_ms).text);
    return left_ms;
}

static int64_t check_others(const check_subject_t *x, buffer_t *what) {
    if (x->lock->others <= 0) return 0;
    buffer_printf(what, "%s has %" PRId64 " queue%s that this config does not have", status_leader(x->lock), x->lock->others,
                  x->lock->others == 1 ? "" : "s");
    return x->lock->others;
}

static int64_t check_lock_fault(const check_subject_t *x, buffer_t *what) {
    buffer_str(what, x->lock->error.text);
    return what->len > 0;
}

// ---- The local instance.

// Whether the row handles the check `name`: by this name, or as the row without a name.
static bool checks_is_row_of(const status_check_t *row, const char *name) {
    for (size_t i = 0; i < status_check_count; i++)
        if (status_checks[i].scope == CHECK_LOCAL && status_checks[i].words && strcmp(status_checks[i].words, name) == 0)
            return row == &status_checks[i];
    return !row->words;
}

static int64_t check_local(const check_subject_t *x, buffer_t *what) {
    const status_log_t *log = &x->s->log;
    const char *name = x->local->name;
    if (!*x->local->why || !checks_is_row_of(x->row, name)) return 0;
    if (!x->row->words && checks_explained(x)) return 0;
    if (strcmp(name, "config") == 0)
        buffer_printf(what, "the local instance refuses the newest config: %s", x->local->why);
    else
        buffer_printf(what, "the local instance reports trouble (%s): %s", name, x->local->why);
    if (strcmp(name, "audit") == 0 && !log->readable && *log->why) buffer_printf(what, ". The local audit log: %s", log->why);
    return 1;
}

#define MEMORY_WHY "A full Redis refuses writes of producers and workers, or evicts jobs if its policy allows that."
#define MEMORY_NEXT                                                                                                              \
    "Raise maxmemory, or find out what fills Redis: redis-cli --bigkeys. Records of failures go once stream.min_copies audit "   \
    "logs have them"
#define VERIFY     ". To verify: queue-sidecar check -c {config} --redis"
#define LARGE_NEXT "Raise `max_payload` of this queue, or remove the job from its key"
#define ITS_LOG    "Repair the named key, right or setting; the log of the instance has more"

// Rows of one severity are in the order in which to act.
const status_check_t status_checks[] = {
    {CHECK_SERVER, STATUS_FAULT, "writes_refused", check_servers,
     "No instance can lead. Nothing is promoted, retried or ended, and workers cannot take jobs. Nothing is lost.",
     .next = "Make Redis take writes: " SERVERS_WRITES_REMEDY, .servers = servers_refuse_writes},
    {CHECK_SERVER, STATUS_FAULT, "redis_full", check_memory, MEMORY_WHY, .next = MEMORY_NEXT, .variant = CHECK_FULL},
    {CHECK_SERVER, STATUS_WARNING, "redis_full", check_memory, MEMORY_WHY, .next = MEMORY_NEXT},
    {CHECK_SERVER, STATUS_WARNING, "heartbeat_shared", check_heartbeats,
     "If two of their jobs have the same id, a dead worker's job stays in progress while the other job lives, and a living "
     "worker can lose its job.",
     .next = "Give each queue its own `heartbeat`, such as \"email:*_alive\", and let its workers write that key: "
             "docs/worker-contract.md tells how, without a gap. If they write none, set it to \"off\""},
    {CHECK_PREFLIGHT, STATUS_WARNING, "preflight", check_preflight, "A promise of docs/promises.md may not hold.",
     .next = "Repair the named key, right or setting" VERIFY, .variant = PREFLIGHT_WARNING},
    {CHECK_PREFLIGHT, STATUS_NOTE, "other_keys", check_preflight,
     "The sidecar goes on. It serves only the keys that the config names.",
     .next = "Look whether the application should be so. If keys are missing or others are there, compare its names with those "
             "of the "
             "config: queue-sidecar check -c {config}",
     .variant = PREFLIGHT_NOTE},
    {CHECK_PREFLIGHT, STATUS_FAULT, "preflight", check_preflight,
     "Work that needs it stops for this queue; all other work goes on.",
     .next = "Do what the line above says. A key of the wrong type: find out who writes it, then rename or delete it, or correct "
             "its name in the config. The leader tries again every 5 s, without a restart" VERIFY,
     .variant = PREFLIGHT_QUEUE_REFUSED},
    {CHECK_PREFLIGHT, STATUS_FAULT, "preflight", check_preflight,
     "No instance can become leader. A leader that already leads goes on until it ends or loses the lock.",
     .next = "Repair the named key, right or setting: rename or delete a key of the wrong type, grant a missing right" VERIFY,
     .variant = PREFLIGHT_REFUSED},
    {CHECK_PREFLIGHT, STATUS_FAULT, "preflight", check_preflight, "This queue is not served; the others are.",
     .next = "Repair the named key, right or setting. The leader checks again every 5 s, without a restart" VERIFY,
     .variant = PREFLIGHT_QUEUE_DISABLED},
    {CHECK_LOCK, STATUS_FAULT, "no_leader", check_no_leader,
     "Due jobs wait in delayed, and jobs of dead workers stay in progress. Workers go on.",
     .next = "Start an instance: queue-sidecar run -c {config}. If one runs, its log says why it does not lead; so does "
             "queue-sidecar check -c {config} --redis"},
    {CHECK_LOCK, STATUS_FAULT, "no_leader", check_no_leader,
     "Due jobs wait in delayed, and jobs of dead workers stay in progress. Workers go on. This config has lock.lead = false.",
     .next = "Start an instance of this group whose config has lock.lead = true. If one runs, its log says why it does not lead",
     .variant = CHECK_NEVER_LEADS},
    {CHECK_LOCK, STATUS_FAULT, "lock_foreign", check_lock_foreign, "No instance can lead while this key exists.",
     .next = "Find out who writes this key, then: redis-cli DEL {lock}"},
    {CHECK_LOCK, STATUS_WARNING, "clock_step", check_clock_step,
     "Somebody changed the key, or the clock of Redis's host was set back. If this leader dies, a standby takes over only after "
     "it has seen this lock twice, one TTL apart.",
     .next = "Do nothing while {leader} lives: a standby removes the lock by itself. Check the clock of Redis's host (NTP)"},
    {CHECK_LOCK, STATUS_FAULT, "lock_fault", check_lock_fault, "No instance leads, or the leader is unknown.",
     .next = "Rename or delete a key of the wrong type, or grant the right: queue-sidecar check -c {config} --redis"},
    {CHECK_QUEUE, STATUS_FAULT, "slot", check_slot,
     "Its jobs stand still until a node serves the slot. The sidecar goes on by itself then.",
     .next = "Repair that node, or promote its replica: redis-cli CLUSTER NODES, CLUSTER FAILOVER", .variant = SLOT_CUT_OFF},
    {CHECK_QUEUE, STATUS_WARNING, "slot", check_slot, "Its due and stalled jobs wait until the move is done.",
     .next = "Complete the move, or take it back: redis-cli --cluster fix", .variant = SLOT_MOVING},
    {CHECK_QUEUE, STATUS_FAULT, "other_group", check_other_group,
     "Only the leader of that group serves it, with the settings of that group.",
     .next = "Take the queue out of one of the two configs. When the other group has no leader any more, this group "
             "takes over the queue within a TTL"},
    {CHECK_QUEUE, STATUS_FAULT, "unserved", check_unserved,
     "The leader runs with another config, so no instance promotes or watches the jobs of this queue.",
     .next = "Give all instances of the group the same queues (a rollout may still be under way), or give these instances "
             "another `group`. If the leader refuses the queue, the leader's log names it"},
    {CHECK_QUEUE, STATUS_FAULT, "key_fault", check_key_fault, "The sidecar cannot use this queue, or part of it.",
     .next = "Rename or delete a key of the wrong type, or grant the right: queue-sidecar check -c {config} --redis names each"},
    {CHECK_QUEUE, STATUS_FAULT, "overdue", check_overdue, "Delayed jobs run late, and nothing else moves them.",
     .next = "Search the log of {leader} for this queue: a refused key, or a Redis that is full or slow"},
    {CHECK_QUEUE, STATUS_WARNING, "ready_limit", check_ready_limit, "Workers take fewer jobs than fall due.",
     .next = "Start more workers, find out why they are slow, or raise `ready_limit`"},
    {CHECK_QUEUE, STATUS_WARNING, "ready_grows", check_ready_grows, "Workers take fewer jobs than arrive, or none.",
     .next = "See that workers run and read this list: queue-sidecar check -c {config} prints its name. If they do, restart "
             "workers that hang, or start more workers"},
    {CHECK_QUEUE, STATUS_FAULT, "stream_full", check_stream,
     "Jobs that should end stay in progress; retries go on without a record.",
     .next = "Make instances copy the stream: their logs say why they do not, and `audit.path` must be writable. Or lower "
             "stream.min_copies to the number of instances, or raise stream.max_bytes. If the column AUDIT is `copied`, search "
             "the log of {leader} for `trim`",
     .variant = CHECK_FULL},
    {CHECK_QUEUE, STATUS_FAULT, "stream_last_id", check_last_id,
     "Jobs that should end stay in progress; retries go on without a record.",
     .next =
         "When the column AUDIT is `copied`, delete the stream: redis-cli DEL {failures}. The next record begins a new stream; "
         "audit logs keep their rows and note a gap"},
    {CHECK_QUEUE, STATUS_WARNING, "stream_fills", check_stream, "When the stream is full, no job can end.",
     .next = "See that stream.min_copies audit logs copy the stream: copied records make room. Or raise stream.max_bytes"},
    {CHECK_QUEUE, STATUS_WARNING, "uncopied", check_uncopied, "Redis keeps these records until enough audit logs have them.",
     .next = "Search the logs of the instances for `audit log`. If there are fewer instances than stream.min_copies, lower that"},
    {CHECK_QUEUE, STATUS_WARNING, "notifications_lost", check_notifications,
     "Nobody was told of these failures; their records are complete.",
     .next = "See that a worker takes the notifications, that the list is used for nothing else, and that the user of the leader "
             "has the rights: queue-sidecar check -c {config} --redis"},
    {CHECK_QUEUE, STATUS_WARNING, "too_old", check_too_old,
     "Its worker still sends a heartbeat (and alive_kills is off), or no scan has reached the job.",
     .next = "If its worker hangs, end the worker, or set `alive_kills`. Otherwise search the log of {leader} for this queue"},
    {CHECK_QUEUE, STATUS_WARNING, "stale_unique", check_stale_unique,
     "KMQueue refuses every new task with such an id. A worker died before it noted the task, which is lost; or it died after "
     "the "
     "task was done, before it removed the id.",
     .next = "Find out whether each task has run. Then remove its id: redis-cli SREM LIST_unique ID. Push the task again only if "
             "it has not run",
     .adds_up = true},
    {CHECK_QUEUE, STATUS_WARNING, "score_unit", check_score_unit,
     "Its score probably has another unit than `score_unit`, so these jobs never run.",
     .next = "Look at a score: redis-cli ZRANGE {delayed} 0 0 WITHSCORES. Set `score_unit` to what producers write, and restart"},
    {CHECK_QUEUE, STATUS_WARNING, "large_in_progress", check_anomaly, "It is neither retried nor ended if its worker dies.",
     .next = LARGE_NEXT, .variant = ANOMALY_large_in_progress,
     .words = "job in progress is larger than max_payload|jobs in progress are larger than max_payload"},
    {CHECK_QUEUE, STATUS_WARNING, "large_delayed", check_anomaly, "It is due and stays in delayed; other jobs pass it.",
     .next = LARGE_NEXT, .variant = ANOMALY_large_delayed,
     .words = "due job is larger than max_payload|due jobs are larger than max_payload"},
    {CHECK_QUEUE, STATUS_WARNING, "large_delayed", check_anomaly, "It is neither sent again nor ended.", .next = LARGE_NEXT,
     .variant = ANOMALY_large_events, .words = "event is larger than max_payload|events are larger than max_payload"},
    {CHECK_QUEUE, STATUS_WARNING, "large_dead_letters", check_anomaly, "It gets no record in the audit log.", .next = LARGE_NEXT,
     .variant = ANOMALY_large_dead_letters,
     .words = "dead letter is larger than max_payload|dead letters are larger than max_payload"},
    {CHECK_QUEUE, STATUS_WARNING, "endless_heartbeats", check_anomaly,
     "Such a heartbeat never ends. If its worker is dead, the job does not come back.",
     .next =
         "If the worker is dead, delete the key: the job comes back after two scans. Let workers set heartbeat and TTL in one "
         "command, such as SET KEY WORKER EX 30",
     .variant = ANOMALY_endless_heartbeats,
     .words = "job is kept in progress by a heartbeat without a TTL|jobs are kept in progress by heartbeats without a TTL"},
    {CHECK_QUEUE, STATUS_WARNING, "undated_jobs", check_anomaly,
     "For such a job alive_timeout counts from when a scan first saw it, so it may live for longer.",
     .next = "Look at such a job: `created_path` must lead to a number, the time since 1970 in `score_unit`",
     .variant = ANOMALY_undated_jobs, .words = "job has no time at created_path|jobs have no time at created_path"},
    {CHECK_QUEUE, STATUS_WARNING, "early_jobs", check_anomaly,
     "The job ran at once: its score is a delay in place of a time, or has another unit than `score_unit`.",
     .next =
         "Let producers write the time at which the job is due: now + delay, in `score_unit`. If all of them write seconds, set "
         "`score_unit` to \"s\", and restart",
     .variant = ANOMALY_early_jobs,
     .words = "promotion of a job whose score is no time in score_unit|promotions of jobs whose score is no time in score_unit"},
    {CHECK_QUEUE, STATUS_WARNING, "endless_retries", check_anomaly,
     "Equal jobs look alike. While two of them are in progress none is ended, so a job that always fails is retried for ever.",
     .next = "Put an id into each job, so that no two are equal. Or set `end_duplicates`", .variant = ANOMALY_endless_retries,
     .words = "retry beyond retry_times because of an equal job|retries beyond retry_times because of equal jobs"},
    {CHECK_QUEUE, STATUS_WARNING, "orphan_reports", check_anomaly,
     "The reported failure was neither recorded nor retried. Most likely a worker changes the bytes of its jobs.",
     .next =
         "Search the log of {leader} for `removed a report`: it has the text. Let workers report the exact bytes that they took "
         "(docs/worker-contract.md)",
     .variant = ANOMALY_orphan_reports, .words = "report without its job was removed|reports without their jobs were removed"},
    {CHECK_QUEUE, STATUS_NOTE, "failures", check_failures, "These jobs do not run again by themselves.",
     .next = "queue-sidecar audit list -c {config} --queue {queue} --since 1h", .adds_up = true},
    {CHECK_QUEUE, STATUS_NOTE, "failures", check_failures, "These jobs do not run again by themselves.",
     .next = "Beside an instance whose audit log has them: queue-sidecar audit list -c {config} --queue {queue} --since 1h. From "
             "Redis: redis-cli XREVRANGE {failures} + - COUNT 10",
     .variant = STATUS_FROM_STREAM, .adds_up = true},
    {CHECK_QUEUE, STATUS_NOTE, "trimmed_early", check_trimmed_early,
     "Enough audit logs have the trimmed records. The log of an instance that was away for longer has a gap instead.",
     .next = "If such an instance has gaps, fill them from the log of another one: queue-sidecar audit import FILE. To keep "
             "records for longer, raise stream.max_bytes"},
    {CHECK_QUEUE, STATUS_NOTE, "behind", check_behind, "The instances of these logs have ended, or cannot write.",
     .next = "If their pods are gone, do nothing. Otherwise search the log of each instance for `audit log`"},
    {CHECK_QUEUE, STATUS_NOTE, "silent_log", check_silent_log, "A log that has been silent for a day no longer counts as a copy.",
     .next = "If the pods of these logs are gone, do nothing: the leader removes their entries within the hour"},
    {CHECK_SERVER, STATUS_NOTE, "clocks", check_clocks,
     "Jobs fall due by Redis's clock. By the other clock, in producers and logs, they seem early or late.",
     .next = "Set the wrong clock (NTP)"},
    {CHECK_HERE, STATUS_FAULT, "redis_unreachable", check_connection,
     "The state of the queues is unknown. An instance that has lost Redis can do nothing either.",
     .next = "See that Redis runs, and that the section `redis` of the config has the right address, user and password"},
    {CHECK_HERE, STATUS_WARNING, "sentinels", check_servers, "With fewer sentinels than the quorum no failover happens.",
     .next = "See that they run, and that redis.sentinels and redis.sentinel_* fit them" VERIFY,
     .servers = servers_sentinels_silent},
    {CHECK_HERE, STATUS_WARNING, "sentinels", check_servers,
     "The highest epoch is believed. A failover may be under way, or one of them monitors other servers.",
     .next = "If it lasts, repair that sentinel: SENTINEL REMOVE and SENTINEL MONITOR, or its configuration",
     .servers = servers_sentinels_quarrel},
    {CHECK_HERE, STATUS_WARNING, "certificate_ends", check_servers, "When it has ended, every new connection fails.",
     .next = "Renew it. Redis loads it at CONFIG SET tls-cert-file or at its start, the sidecar at each connect",
     .servers = servers_certificate_ends},
    {CHECK_LOCK, STATUS_NOTE, "more_queues", check_others,
     "An instance of this config copies no failures of those queues, and would not serve them if it led.",
     .next = "Give all instances of the group the same queues; a rollout may still be under way"},
    {CHECK_HERE, STATUS_NOTE, "one_node", check_servers, "Queues whose slots other nodes have are not served.",
     .next = "Set redis.mode to \"cluster\": one node names all others", .servers = servers_one_node},
    {CHECK_HERE, STATUS_NOTE, "failover_loses", check_servers,
     "A job that such a write removed may run again, and one that it added is gone.",
     .next = "Set min-replicas-to-write to 1 on all servers, if writes may wait while no replica keeps up",
     .servers = servers_failover_loses},
    {CHECK_HERE, STATUS_WARNING, "mute", check_instance,
     "It is stopped, hangs, or gets no processor time; or another program has that port.",
     .next = "Look at the process (state T is stopped: kill -CONT). If this lasts, restart it; if it led, another one takes over",
     .variant = LOCAL_UNRESPONSIVE, .words = "the local instance does not answer on http.port:"},
    {CHECK_HERE, STATUS_WARNING, "another", check_instance,
     "The state of this group's instance is unknown, and probes of that port ask the other process.",
     .next = "Give each program on this machine a port of its own; if the group was changed, restart the instance",
     .variant = LOCAL_UNRELATED, .words = "http.port:"},
    {CHECK_HERE, STATUS_NOTE, "no_answer", check_instance, "The state of an instance on this machine is unknown.",
     .next = "If no instance runs on this machine, do nothing. Otherwise look at its log", .variant = LOCAL_SILENT,
     .words = "no instance answers on http.port:"},
    {CHECK_LOCAL, STATUS_FAULT, "not_ready", check_local, "This role works again only after its tick returns.",
     .next = "Look at its log and at what that role waits for (a disk, a name server); if it lasts, restart the instance",
     .words = "roles"},
    {CHECK_LOCAL, STATUS_FAULT, "not_ready", check_local, "The instance can neither lead nor stand by.", .next = ITS_LOG},
    {CHECK_LOCAL, STATUS_FAULT, "not_ready", check_local,
     "Redis refuses some work on these queues; the instance leads or stands by all the same.",
     .next = "Solve the findings about these queues, here or in: queue-sidecar check -c {config} --redis", .words = "queues"},
    {CHECK_LOCAL, STATUS_WARNING, "not_ready", check_local, "Jobs come late, by up to the interval of polling.",
     .next =
         "Grant the rights under \"Least privilege\" in docs/acl.md; some services have no CLIENT TRACKING (docs/services.md)",
     .words = "wakeups"},
    {CHECK_LOCAL, STATUS_FAULT, "not_ready", check_local, "Its audit log lacks the newest records; the records wait in Redis.",
     .next = ITS_LOG, .words = "audit"},
    {CHECK_LOCAL, STATUS_FAULT, "config_refused", check_local, "The instance continues with its previous config.",
     .next = "Correct the file; queue-sidecar check names each fault. The instance reads the file again by itself, or at SIGHUP",
     .words = "config"},
    {CHECK_HERE, STATUS_NOTE, "log_unreadable", check_log_unreadable,
     "Failures are counted from the failure streams, and `audit` commands do not work on this machine.",
     .next = "Run this command as the user of the sidecar; if you are that user, remove the named cause"},
    {CHECK_HERE, STATUS_NOTE, "gaps", check_gaps,
     "Some final failures may be missing in this log; other instances may have them.",
     .next = "List the gaps: queue-sidecar audit list --kind gap. Fill them from the log of another instance: queue-sidecar "
             "audit import FILE"},
    {CHECK_HERE, STATUS_NOTE, "erased_texts", check_erased_texts,
     "The instance rewrites the file when no erasure has come for 5 s, 5 min after the first one at the latest.",
     .next = "Wait. If this stays for 5 min, the log of the instance says what is in the way, or no instance runs"},
};
const size_t status_check_count = sizeof status_checks / sizeof *status_checks;
