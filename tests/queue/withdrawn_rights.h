/* The branches of all other scripts that write. */
#pragma once

#include "dialects/delayed_queue/scripts.h"
#include "dialects/failed/scripts.h"
#include "dialects/private_queues/scripts.h"
#include "dialects/sidekiq/scripts.h"
#include "dialects/stream/scripts.h"
#include "withdrawn_call.h"

/* Numbers of keys in a call of settle.lua: 10 is the list in progress, 11 ready, 12 a mark. */
#define SETTLE_WITH(count, delayed, dlq, recorded)                                                                               \
    count " " LOCK " sidecar:email:stamps email:errors sidecar:email:failures sidecar:email:meta " delayed " " dlq " " LOCK      \
          " " recorded " email:backup email T "
#define SETTLE       SETTLE_WITH("11", LOCK, LOCK, LOCK) "ms 9999 '' 0 0 0 "
#define SETTLE_LATER "delay 0 1 kind 10,11,0,9,1,d job digest '' stamp 5000 retried"
#define TEXT_SHA1    "372ea08cab33e71c02c651dbc83a474d32c676ea" /* of "text" */
#define STAMP        "1234567890123456789012345678"

#define REQUEUE_TO(letters, recorded)                                                                                            \
    "9 sidecar:email:requeued sidecar:email:failures sidecar:email:meta email sidecar:email:stamps sidecar:email:meta "          \
    "sidecar:email:requeued " letters " " recorded " event "
#define REQUEUE        REQUEUE_TO("sidecar:email:requeued", "sidecar:email:requeued")
#define REQUEUE_LETTER REQUEUE_TO("email:dead", "sidecar:email:recorded")

#define CANCEL         "4 email:delayed sidecar:email:failures sidecar:email:meta sidecar:email:stamps job 5 digest "
#define PROMOTE        "4 " LOCK " email:delayed email sidecar:email:meta T app 999 9 ms "
#define TRIM           "4 " LOCK " sidecar:email:failures sidecar:email:auditors sidecar:email:meta T "

static const withdrawn_call_t withdrawn_jobs[] = {
    {"a job that is made due",
     &script_jobs_run,
     {"ZADD email:delayed 4000000000000 job"},
     "1 email:delayed ms job 4000000000000",
     "done"},
    {"a cancelled job", &script_jobs_cancel, {"ZADD email:delayed 5 job"}, CANCEL "'' 0 9999 '' why kind failed", "done"},
    {"a cancelled job that waits for a retry",
     &script_jobs_cancel,
     {"ZADD email:delayed 5 job", "HSET sidecar:email:stamps digest stamp"},
     CANCEL "stamp 1 9999 '' why kind failed",
     "done"},
};

static const withdrawn_call_t withdrawn_list[] = {
    {"a free lock",
     &script_acquire,
     {"DEL " LOCK, "HSET sidecar:app:queues sms t", "HSET sidecar:app:standbys me x", "HSET sidecar:sms:meta group others"},
     "5 " LOCK " sidecar:app:queues sidecar:app:standbys sidecar:email:meta sidecar:sms:meta T 60000 app me email sms",
     "integer"},
    {"a queue of a group without a leader",
     &script_claim,
     {"HSET sidecar:email:meta group gone"},
     "4 " LOCK " sidecar:email:meta sidecar:gone:lock sidecar:app:queues T app gone email",
     "integer"},
    {"a batch", &script_promote, {"ZADD email:delayed 1 a 2 b"}, PROMOTE "0 99 0 99 9 right", "moved"},
    {"a batch for workers that take from the left",
     &script_promote,
     {"ZADD email:delayed 1 a 2 b"},
     PROMOTE "0 99 0 99 9 left",
     "moved"},
    {"a batch with an oversized job", &script_promote, {"ZADD email:delayed 1 a 2 large"}, PROMOTE "0 2 0 99 9 right", "moved"},
    {"a new and a changed stamp",
     &script_stamp,
     {"HSET sidecar:email:stamps 1 " STAMP},
     "3 " LOCK " sidecar:email:stamps sidecar:email:meta T 0 '' '' 1 " STAMP " new",
     "stamped"},
    {"a sentinel",
     &script_push_marker,
     {"RPUSH email:backup job"},
     "3 " LOCK " email:backup sidecar:email:sentinel T '' 0123456789abcdef0123456789abcdef sentinel",
     "pushed"},
    {"a stamp of no job", &script_prune, {"HSET email:errors job text"}, "2 " LOCK " email:errors T value job text", "pruned"},
    {"old entries and auditors",
     &script_trim,
     {"XADD sidecar:email:failures 1-1 f v", "XADD sidecar:email:failures 1-2 f v",
      "XADD sidecar:email:failures 9999999999999-1 f v", "HSET sidecar:email:auditors me 9-9~99999999999999 gone 9-9~1"},
     TRIM "0 1 1 9 999 99999999999999 999",
     "trimmed"},
    {"an entry with an id of the future",
     &script_trim,
     {"XADD sidecar:email:failures 9999999999999-1 f v"},
     TRIM "0 0 1 9 999 99999999999999 999",
     "trimmed"},
    {"an acknowledgement",
     &script_acknowledge,
     {"XADD sidecar:email:failures 7-7 f v"},
     "3 sidecar:email:auditors sidecar:email:failures sidecar:email:meta me 5-5",
     NULL},
    {"an acknowledgement after one of an earlier stream",
     &script_acknowledge,
     {"XADD sidecar:email:failures 7-7 f v", "HSET sidecar:email:auditors me 9-9~1 you 9-9~1"},
     "3 sidecar:email:auditors sidecar:email:failures sidecar:email:meta me 5-5",
     NULL},
    {"a retry",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE "'' 0 1 kind 10,11,0,9,1,r job digest '' stamp retried",
     "settled"},
    {"a retry for workers that take from the left",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE "'' 0 1 kind 10,11,0,9,1,rl job digest '' stamp retried",
     "settled"},
    {"a retry without a record",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE_WITH("11", LOCK, LOCK, LOCK) "ms 0 '' 0 0 0 '' 0 1 kind 10,11,0,9,1,r job digest '' stamp retried",
     "unrecorded"},
    {"a retry of a reported job",
     &script_settle,
     {"RPUSH email:backup job", "HSET email:errors job text"},
     SETTLE "report 0 1 kind 10,11,0,9,1,rx job digest '' stamp " TEXT_SHA1 " retried",
     "settled"},
    {"a later retry",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE_WITH("11", "email:delayed", LOCK, LOCK) "ms 9999 '' 0 0 0 " SETTLE_LATER,
     "settled"},
    {"a later retry of bytes that are delayed",
     &script_settle,
     {"RPUSH email:backup job", "ZADD email:delayed 5 job"},
     SETTLE_WITH("11", "email:delayed", LOCK, LOCK) "s 9999 '' 0 0 0 " SETTLE_LATER,
     "settled"},
    {"an end",
     &script_settle,
     {"RPUSH email:backup job", "HSET sidecar:email:stamps digest " STAMP},
     SETTLE "'' 0 1 kind 10,11,0,9,1,ep job digest " STAMP " '' failed",
     "settled"},
    {"an end of a reported job",
     &script_settle,
     {"RPUSH email:backup job", "HSET email:errors job text"},
     SETTLE "report 0 1 kind 10,11,0,9,1,exp job digest '' '' " TEXT_SHA1 " failed",
     "settled"},
    {"an end with a dead letter",
     &script_settle,
     {"RPUSH email:backup job"},
     SETTLE_WITH("11", LOCK, "email:dead",
                 "sidecar:email:recorded") "ms 9999 '' 0 0 0 '' 0 1 kind 10,11,0,9,1,ep job digest '' '' failed",
     "settled"},
    {"a requeue", &script_requeue, {0}, REQUEUE "requeued me 0 job '' 9 - right kind requeued", "done"},
    {"a requeue for workers that take from the left",
     &script_requeue,
     {0},
     REQUEUE "requeued me 0 job '' 9 - left kind requeued",
     "done"},
    {"a requeue with a stamp", &script_requeue, {0}, REQUEUE "requeued me 0 job digest 9 - right kind requeued", "done"},
    {"a requeue of a dead letter",
     &script_requeue,
     {"RPUSH email:dead job", "EVAL redis.call('ZADD',KEYS[1],1,redis.sha1hex('job')) 1 sidecar:email:recorded"},
     REQUEUE_LETTER "requeued me 0 job '' 9 - right kind requeued",
     "done"},
    {"a requeue of one of two dead letters",
     &script_requeue,
     {"RPUSH email:dead job job"},
     REQUEUE_LETTER "requeued me 0 job '' 9 - right kind requeued",
     "done"},
    {"a requeue once more",
     &script_requeue,
     {"HSET sidecar:email:requeued event discarded"},
     REQUEUE "requeued me 1 job digest 9 - right kind requeued",
     "done"},
    {"a discard", &script_requeue, {0}, REQUEUE "discarded me 0 job digest 9 - right kind discarded", "done"},
};

#define KMQUEUE_SETTLE(count, mark)                                                                                              \
    count " " LOCK " sidecar:w:stamps sidecar:w:errors sidecar:w:failures sidecar:w:meta " LOCK " " LOCK " " LOCK " " LOCK       \
          " back_up_queue_1 worker1_queue " mark "T ms 9999 '' 0 0 0 "
#define KMQUEUE_REQUEUE                                                                                                          \
    "9 sidecar:w:requeued sidecar:w:failures sidecar:w:meta worker1_queue sidecar:w:stamps sidecar:w:meta worker1_queue_unique " \
    "sidecar:w:requeued sidecar:w:requeued event "

static const withdrawn_call_t withdrawn_kmqueue[] = {
    {"an end of a unique task",
     &script_settle,
     {"RPUSH back_up_queue_1 task", "SADD worker1_queue_unique id"},
     KMQUEUE_SETTLE("12", "worker1_queue_unique ") "mark 0 1 kind 10,11,12,9,1,ep task digest '' '' id failed",
     "settled"},
    {"a retry without a stamp",
     &script_settle,
     {"RPUSH back_up_queue_1 task", "HSET sidecar:w:stamps digest " STAMP},
     KMQUEUE_SETTLE("11", "") "again 0 1 kind 10,11,0,9,1,rf task digest " STAMP " - again retried",
     "settled"},
    {"a requeue of a unique task",
     &script_requeue,
     {0},
     KMQUEUE_REQUEUE "requeued me 0 task '' 9 id right kind requeued",
     "done"},
    {"a requeue of a unique task once more",
     &script_requeue,
     {"SADD worker1_queue_unique id"},
     KMQUEUE_REQUEUE "requeued me 1 task '' 9 id right kind requeued",
     "done"},
};

#define PRIVATE_SETTLE(dlq, done, recorded)                                                                                      \
    "11 " LOCK " sidecar:f:stamps sidecar:f:errors sidecar:f:failures sidecar:f:meta " LOCK " " dlq " " done " " recorded        \
    " queue-1 fight-requests T ms 9999 '' 0 0 0 "

#define LETTERS "3 " LOCK " fights-dlq sidecar:f:recorded T 0 9 99 999 "

static const withdrawn_call_t withdrawn_private_queues[] = {
    {"old marks",
     &script_dead_letters,
     {"RPUSH fights-dlq job", "EVAL redis.call('ZADD',KEYS[1],1,redis.sha1hex('job'),2,'gone') 1 sidecar:f:recorded"},
     LETTERS "5 9",
     "letters"},
    {"a record",
     &script_record_once,
     {0},
     "4 " LOCK " sidecar:f:recorded sidecar:f:failures sidecar:f:meta T mark 99 '' kind failed",
     "settled"},
    {"a job that was done before",
     &script_settle,
     {"RPUSH queue-1 job", "SADD fights-done id", "HSET sidecar:f:stamps digest " STAMP},
     PRIVATE_SETTLE(LOCK, "fights-done", LOCK) "done 0 1 kind 10,11,0,-1,0,ro job digest " STAMP " stamp id retried",
     "dropped"},
    {"an end with a dead letter",
     &script_settle,
     {"RPUSH queue-1 job", "HSET sidecar:f:stamps digest " STAMP},
     PRIVATE_SETTLE("fights-dlq", LOCK, "sidecar:f:recorded") "'' 0 1 kind 10,11,0,-1,0,ep job digest " STAMP " '' failed",
     "settled"},
};

#define STREAM_READ                                                                                                              \
    "XGROUP CREATE mail workers 0 MKSTREAM", "XADD mail 5-5 data job", "XREADGROUP GROUP workers w1 STREAMS mail >"
#define STREAM_SETTLE                                                                                                            \
    "8 " LOCK                                                                                                                    \
    " sidecar:mail:stamps mail:errors sidecar:mail:failures sidecar:mail:meta mail mail:delayed mail:dead T ms 9999 '' workers "
#define STREAM_ENTRY " '' data 0 1 kind "

static const withdrawn_call_t withdrawn_stream[] = {
    {"due jobs",
     &script_stream_promote,
     {"XGROUP CREATE mail workers 0 MKSTREAM", "ZADD mail:delayed 1 a 2 b"},
     "4 " LOCK " mail:delayed mail sidecar:mail:meta T app 9 ms 99 0 99 2 workers data",
     "moved"},
    {"due jobs beside an oversized one",
     &script_stream_promote,
     {"XGROUP CREATE mail workers 0 MKSTREAM", "ZADD mail:delayed 1 a 2 large 3 b"},
     "4 " LOCK " mail:delayed mail sidecar:mail:meta T app 9 ms 3 0 99 2 workers data",
     "moved"},
    {"a retry",
     &script_stream_settle,
     {STREAM_READ},
     STREAM_SETTLE "0" STREAM_ENTRY "r 5-5 w1 1 digest '' stamp '' 0 0 retried",
     "settled"},
    {"a retry with a delay",
     &script_stream_settle,
     {STREAM_READ},
     STREAM_SETTLE "0" STREAM_ENTRY "r 5-5 w1 1 digest '' stamp '' 5000 0 retried",
     "settled"},
    {"an end of a reported entry",
     &script_stream_settle,
     {STREAM_READ, "HSET mail:errors 5-5 text", "HSET sidecar:mail:stamps digest " STAMP},
     STREAM_SETTLE "0" STREAM_ENTRY "e 5-5 w1 1 digest " STAMP " '' " TEXT_SHA1 " 0 0 failed",
     "settled"},
    {"an end of a deleted entry",
     &script_stream_settle,
     {STREAM_READ, "XDEL mail 5-5"},
     STREAM_SETTLE "0" STREAM_ENTRY "u 5-5 w1 1 digest '' '' '' 0 0 failed",
     "settled"},
    {"a requeue",
     &script_stream_requeue,
     {"XGROUP CREATE mail workers 0 MKSTREAM"},
     "6 sidecar:mail:requeued sidecar:mail:failures sidecar:mail:meta mail sidecar:mail:stamps sidecar:mail:meta event me 0 "
     "digest workers 9 2 "
     "data job kind requeued",
     "done"},
};

#define DELAYED_QUARANTINE                                                                                                       \
    "7 " LOCK " sidecar:e:aside de_delayed_events de_events sidecar:e:failures sidecar:e:meta de_c T 99 '' 0 1 kind C###1 5 "

#define DELAYED_PROMOTE                                                                                                          \
    "6 " LOCK " de_delayed_events de_events sidecar:e:meta sidecar:e:aside de_c T app 9 9 9999 999 70 9 1 10 1000 C"

static const withdrawn_call_t withdrawn_delayed_queue[] = {
    {"events that are due",
     &script_delayed_promote,
     {"ZADD de_delayed_events 1 C###1 2 C###2",
      "HSET de_events C###1 {\"payload\":{},\"type\":\"C\",\"attempt\":1,\"logContext\":{}}"},
     DELAYED_PROMOTE,
     "moved"},
    {"an event that is no envelope",
     &script_delayed_promote,
     {"ZADD de_delayed_events 1 C###1", "HSET de_events C###1 {}"},
     DELAYED_PROMOTE,
     "moved"},
    {"an end of a quarantined event",
     &script_quarantine_settle,
     {"ZADD sidecar:e:aside 1 C###1", "ZADD de_delayed_events 5 C###1", "HSET de_events C###1 {}"},
     DELAYED_QUARANTINE "end {} 0 0 {2} '' '' '' failed",
     "settled"},
    {"a push of a quarantined event",
     &script_quarantine_settle,
     {"ZADD sidecar:e:aside 1 C###1", "ZADD de_delayed_events 5 C###1", "HSET de_events C###1 {}"},
     DELAYED_QUARANTINE "push {} 7 0 {2} 9 .5 '' ''",
     "settled"},
    {"a last page of events of the future",
     &script_delayed_reschedule,
     {"ZADD sidecar:e:aside 9999999999999 C###1", "ZADD de_delayed_events 9999999999999.25 C###1 9999999999999.5 C###2",
      "HSET de_events C###1 {} C###2 {}", "HSET sidecar:e:meta sent 9999999999999"},
     "5 " LOCK " de_delayed_events de_events sidecar:e:meta sidecar:e:aside T '' '' 0 9 99 9 10 1000",
     "settled"},
    {"a requeue",
     &script_delayed_requeue,
     {0},
     "6 sidecar:e:requeued sidecar:e:failures sidecar:e:meta de_delayed_events de_events sidecar:e:meta event me 0 C###1 {} 9 C "
     "kind requeued",
     "done"},
};

static const withdrawn_call_t withdrawn_sidekiq[] = {
    {"a promotion in Sidekiq",
     &script_sidekiq_promote,
     {"ZADD schedule 5 {\"queue\":\"default\"}", "LPUSH queue:mailers before"},
     "6 " LOCK " schedule sidecar:video:meta queues queue:default queue:mailers T app 9 999 0 9999 1 default mailers",
     "moved"},
    {"a job of a process that is gone comes back",
     &script_sidekiq_settle,
     {"HSET h:1:a:work t1 value", "HSET h:1:a beat 1", "PEXPIRE h:1:a 9000", "PEXPIRE h:1:a:work 9000"},
     "10 " LOCK " h:1:a h:1:a:work queue:default queues dead sidecar:video:stamps sidecar:video:failures sidecar:video:meta "
     "sidecar:video:recorded T 10000 t1 value job default digest '' new 9999 '' kind retried",
     "settled"},
    {"a job of a process that is gone ends",
     &script_sidekiq_settle,
     {"HSET h:1:a:work t1 value", "HSET h:1:a beat 1", "PEXPIRE h:1:a 9000", "PEXPIRE h:1:a:work 9000"},
     "10 " LOCK " h:1:a h:1:a:work queue:default queues dead sidecar:video:stamps sidecar:video:failures sidecar:video:meta "
     "sidecar:video:recorded T 10000 t1 value job default digest '' '' 9999 '' kind failed",
     "settled"},
    {"a requeue in Sidekiq",
     &script_sidekiq_requeue,
     {"ZADD dead 5 old", "LPUSH queue:default before"},
     "6 sidecar:video:requeued sidecar:video:failures sidecar:video:meta queue:default queues dead event me 0 new default old 9 "
     "kind "
     "requeued",
     "done"},
};
