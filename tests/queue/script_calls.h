/* One call of each script, as text, for tests that call all scripts. */
#pragma once

#include "dialects/bull/scripts.h"
#include "dialects/bull_tasks/scripts.h"
#include "dialects/bullmq/scripts.h"
#include "dialects/delayed_queue/scripts.h"
#include "dialects/failed/scripts.h"
#include "dialects/private_queues/scripts.h"
#include "dialects/sidekiq/scripts.h"
#include "dialects/stream/scripts.h"
#include "queue/scripts.h"

/* The arguments of EVAL for each script, in an order in which each script has work. */
static const struct {
    const script_t *script;
    const char *arguments;
} CALLS[] = {
    {&script_acquire, "4 sidecar:app:lock sidecar:app:queues sidecar:app:standbys sidecar:email:meta T 1000 app me email"},
    {&script_renew, "1 sidecar:app:lock T 60000"},
    {&script_claim, "4 sidecar:app:lock sidecar:sms:meta sidecar:others:lock sidecar:app:queues T app others sms"},
    {&script_promote, "4 sidecar:app:lock email:delayed email sidecar:email:meta T app 999 9 ms 0 99 0 99 2 right"},
    {&script_next_due, "1 sms:delayed 0"},
    {&script_elsewhere, "1 email:delayed 0"},
    {&script_sizes, "1 email:delayed due"},
    {&script_stream_ends, "2 sidecar:email:failures sidecar:email:meta '' ''"},
    {&script_acknowledge, "3 sidecar:email:auditors sidecar:email:failures sidecar:email:meta me 5-5"},
    {&script_trim, "4 sidecar:app:lock sidecar:email:failures sidecar:email:auditors sidecar:email:meta T 0 0 1 9 999 9999 999"},
    {&script_history, "2 sidecar:app:lock sidecar:email:history T 0 0 counted"},
    {&script_stamp, "3 sidecar:app:lock sidecar:email:stamps sidecar:email:meta T digest old new"},
    {&script_push_marker, "3 sidecar:app:lock email:backup sidecar:email:sentinel T 1 random entry"},
    {&script_settle,
     "11 sidecar:app:lock sidecar:email:stamps email:errors sidecar:email:failures sidecar:email:meta sidecar:app:lock "
     "sidecar:app:lock sidecar:app:lock sidecar:app:lock email:backup email T ms 9999 told 0 0 0 - 0 1 kind 10,11,0,9,1,r job "
     "digest "
     "old new retried"},
    {&script_reports, "1 email:errors 0 0 10 1000"},
    {&script_list_end, "2 email:backup email:errors 1 0 10 8 1000"},
    {&script_list_page, "1 email:backup 0 10 8 1000 1"},
    {&script_prune, "2 sidecar:app:lock email:errors T value job text"},
    {&script_stream_texts, "1 sidecar:email:failures - 9 9"},
    {&script_erase, "3 sidecar:email:requeued sidecar:email:failures sidecar:email:meta event me 0 1 5-5 e event e2 kind erased"},
    {&script_requeue,
     "9 sidecar:email:requeued sidecar:email:failures sidecar:email:meta sms sidecar:sms:stamps sidecar:sms:meta "
     "sidecar:email:requeued sidecar:email:requeued "
     "sidecar:email:requeued event requeued me 0 job digest 9 - right kind requeued"},
    {&script_jobs_page, "2 email:delayed email:errors zset - 10 100 9999 1000 99 9 99 -inf - -1 0 0 0 - 0"},
    {&script_jobs_run, "1 email:delayed ms later"},
    {&script_jobs_cancel,
     "4 email:delayed sidecar:email:failures sidecar:email:meta sidecar:email:stamps job3 2 digest3 stamp3 1 "
     "9999 told why kind failed"},
    {&script_bull_promote, "9 sidecar:app:lock b:delayed b:wait b:paused b:meta-paused b:priority b:active sidecar:b:meta "
                           "sidecar:b:aside T app 9 0 b: 9 9"},
    {&script_bullmq_promote,
     "12 sidecar:app:lock b:delayed b:wait b:paused b:bullmq b:prioritized b:pc b:marker b:events b:active "
     "sidecar:b:meta sidecar:b:aside T app 9 b: 9"},
    {&script_bull_mark, "5 sidecar:app:lock b:stalled b:active b:stalled-check sidecar:b:meta T 9 9 0 9"},
    {&script_bull_stalled, "4 b:stalled b:stalled-check sidecar:b:meta b:active b: 9 begin 9 0 9 99 99 name"},
    {&script_bull_settle, "12 sidecar:app:lock b:stalled b:active b:wait b:paused b:meta-paused b:failed sidecar:b:recorded "
                          "sidecar:b:failures sidecar:b:meta b:1 b:1:lock T 9 told 0 9 0 1 kind 1 - r - - x"},
    {&script_bullmq_settle, "13 sidecar:app:lock b:stalled b:active b:wait b:paused b:bullmq b:marker b:events b:repeat "
                            "sidecar:b:failures sidecar:b:meta b:1 b:1:lock T 9999 told 0 9 0 1 kind 1 - r - - x"},
    {&script_failed_seen, "3 sidecar:app:lock b:failed sidecar:b:recorded T 600000 9 5 1 0"},
    {&script_failed_page, "2 b:failed sidecar:b:recorded b: -inf 0 9 9 99 99 1 name"},
    {&script_failed_events, "3 sidecar:app:lock b:events sidecar:b:meta T 1-1 9 99 job error event failed"},
    {&script_failed_record,
     "5 sidecar:app:lock b:failed sidecar:b:recorded sidecar:b:failures sidecar:b:meta T 1 5 5 1 9999 told kind failed"},
    {&script_bull_requeue, "12 sidecar:b:requeued sidecar:b:failures sidecar:b:meta b:1 b:1:lock b:failed b:wait b:paused "
                           "b:meta-paused b:active b:delayed b:id event me 0 1 - 0 1 9 2 name n kind requeued"},
    {&script_bullmq_requeue,
     "21 sidecar:b:requeued sidecar:b:failures sidecar:b:meta b:1 b:1:lock b:failed b:wait b:paused b:meta "
     "b:active b:delayed b:id b:prioritized b:pc b:marker b:events b:waiting-children b:p b:p:u b:p:f b:p:d "
     "event me 0 1 - 0 - 9 2 name n kind requeued"},
    {&script_sidekiq_requeue,
     "6 sidecar:b:requeued sidecar:b:failures sidecar:b:meta queue:b queues dead event me 0 new b old 9 kind requeued"},
    {&script_sidekiq_promote, "5 sidecar:app:lock schedule sidecar:b:meta queues queue:b T app 9 999 0 9999 1 b"},
    {&script_sidekiq_work, "3 h:1:a h:1:a:work h:1:a:workers 10000 999 9999 9 0"},
    {&script_sidekiq_settle,
     "10 sidecar:app:lock h:1:a h:1:a:work queue:b queues dead sidecar:b:stamps sidecar:b:failures sidecar:b:meta "
     "sidecar:b:recorded T 10000 t1 value job b digest - new 9999 told kind retried"},
    {&script_private_tails, "1 queue-a 99 99"},
    {&script_dead_letters, "3 sidecar:app:lock dlq sidecar:email:recorded T 0 9 99 99 9 1"},
    {&script_record_once,
     "4 sidecar:app:lock sidecar:email:recorded sidecar:email:failures sidecar:email:meta T mark 9999 told kind failed"},
    {&script_delayed_promote,
     "6 sidecar:app:lock de_delayed_events de_events sidecar:d:meta sidecar:d:aside de_x T app 9 9 99 9 70 9 1 "
     "9 9 X"},
    {&script_delayed_requeue,
     "6 sidecar:d:requeued sidecar:d:failures sidecar:d:meta de_delayed_events de_events sidecar:d:meta event me 0 X###1 {} 9 X "
     "kind requeued"},
    {&script_delayed_serve, "2 sidecar:app:lock sidecar:d:meta T X"},
    {&script_delayed_reschedule,
     "5 sidecar:app:lock de_delayed_events de_events sidecar:d:meta sidecar:d:aside T x 5 0 9 99 9 10 1000"},
    {&script_quarantine_read, "3 sidecar:d:aside de_delayed_events de_events 0 9 99 9"},
    {&script_quarantine_settle, "6 sidecar:app:lock sidecar:d:aside de_delayed_events de_events sidecar:d:failures "
                                "sidecar:d:meta T 9 told 0 1 kind X###1 - end - 0 0 "
                                "- 0 - - x"},
    {&script_stream_promote, "4 sidecar:app:lock email:delayed mail sidecar:mail:meta T app 9 ms 99 0 99 2 workers data"},
    {&script_stream_group, "3 mail mail:errors sidecar:mail:stamps workers"},
    {&script_stream_page, "2 mail mail:errors workers - + 0 9 999 99 999 -"},
    {&script_stream_unread, "1 mail (0-0 9 99 999"},
    {&script_stream_settle,
     "8 sidecar:app:lock sidecar:mail:stamps mail:errors sidecar:mail:failures sidecar:mail:meta mail mail:delayed "
     "mail:dead T ms 9999 told workers 0 9 data 0 1 kind r 5-5 w1 1 digest - new - 0 0 retried"},
    {&script_stream_requeue,
     "6 sidecar:mail:requeued sidecar:mail:failures sidecar:mail:meta mail sidecar:mail:stamps sidecar:mail:meta "
     "event me 0 digest workers 9 2 data job kind requeued"},
    {&script_probe, "1 sidecar:preflight-x 0 HSET LPUSH XADD"},
    {&script_break_stale_lock, "1 sidecar:app:lock T 60000"},
    {&script_release, "1 sidecar:app:lock T sidecar:app:vacant app"},
};
