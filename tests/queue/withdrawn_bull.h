/* The branches of the scripts of Bull and BullMQ. */
#pragma once

#include "dialects/bull/scripts.h"
#include "dialects/bull_tasks/scripts.h"
#include "dialects/bullmq/scripts.h"
#include "dialects/failed/scripts.h"
#include "withdrawn_call.h"

#define BULL_REQUEUE                                                                                                             \
    "12 sidecar:video:requeued sidecar:video:failures sidecar:video:meta bull:video:7 bull:video:7:lock bull:video:failed "      \
    "bull:video:wait bull:video:paused bull:video:meta-paused bull:video:active bull:video:delayed bull:video:id event me 0 7 "

#define BULLMQ_REQUEUE                                                                                                           \
    "21 sidecar:video:requeued sidecar:video:failures sidecar:video:meta bull:video:7 bull:video:7:lock bull:video:failed "      \
    "bull:video:wait bull:video:paused bull:video:meta bull:video:active bull:video:delayed bull:video:id "                      \
    "bull:video:prioritized bull:video:pc bull:video:marker bull:video:events bull:video:waiting-children bull:video:p "         \
    "bull:video:p:unsuccessful bull:video:p:failed bull:video:p:dependencies event me 0 7 "

#define BULL_PROMOTE                                                                                                             \
    "9 " LOCK " bull:video:delayed bull:video:wait bull:video:paused bull:video:meta-paused bull:video:priority "                \
    "bull:video:active sidecar:video:meta sidecar:video:aside T app 100 0 bull:video: 9 999"
#define BULLMQ_PROMOTE                                                                                                           \
    "12 " LOCK " bull:video:delayed bull:video:wait bull:video:paused bull:video:meta bull:video:prioritized bull:video:pc "     \
    "bull:video:marker bull:video:events bull:video:active sidecar:video:meta sidecar:video:aside T app 100 bull:video: 9"
#define BULL_MARK "5 " LOCK " bull:video:stalled bull:video:active bull:video:stalled-check sidecar:video:meta T "
#define BULL_SETTLE(count, more)                                                                                                 \
    count " " LOCK " bull:video:stalled bull:video:active bull:video:wait bull:video:paused bull:video:meta-paused "             \
          "bull:video:failed sidecar:video:recorded sidecar:video:failures sidecar:video:meta bull:video:7 "                     \
          "bull:video:7:lock " more "T 999 '' 0 9 0 1 kind 7 "
#define BULLMQ_SETTLE(count, more)                                                                                               \
    count " " LOCK " bull:video:stalled bull:video:active bull:video:wait bull:video:paused bull:video:meta bull:video:marker "  \
          "bull:video:events bull:video:repeat sidecar:video:failures sidecar:video:meta bull:video:7 "                          \
          "bull:video:7:lock " more "T 999 '' 0 9 0 1 kind 7 "
#define BULLMQ_STALLED "SADD bull:video:stalled 7", "RPUSH bull:video:active 7", "HSET bull:video:7 name x stc 1"
#define BULL_STALLED   "SADD bull:video:stalled 7", "RPUSH bull:video:active 7", "HSET bull:video:7 name x stalledCounter 1"
static const withdrawn_call_t withdrawn_bull[] = {
    {"a job without a priority",
     &script_bull_promote,
     {"ZADD bull:video:delayed 5 7", "HSET bull:video:7 name x priority 0", "RPUSH bull:video:active 7"},
     BULL_PROMOTE,
     "moved"},
    {"jobs with priorities, one of them behind another",
     &script_bull_promote,
     {"ZADD bull:video:delayed 5 7 6 8", "HSET bull:video:7 name x priority 3", "HSET bull:video:8 name x priority 2",
      "RPUSH bull:video:wait 1"},
     BULL_PROMOTE,
     "moved"},
    {"a list that is built anew",
     &script_bull_promote,
     {"EVAL for~i=1,40~do~redis.call('ZADD',KEYS[1],i,i)redis.call('HSET','bull:video:'..i,'name','x','priority',i%3)end 1 "
      "bull:video:delayed",
      "RPUSH bull:video:wait 77 78"},
     BULL_PROMOTE,
     "moved"},
    {"an id without a job",
     &script_bull_promote,
     {"ZADD bull:video:delayed 5 7 6 8", "HSET bull:video:7 name x priority 0"},
     BULL_PROMOTE,
     "moved"},
    {"jobs of BullMQ with and without a priority",
     &script_bullmq_promote,
     {"ZADD bull:video:delayed 5 7 6 8", "HSET bull:video:7 name x priority 0", "HSET bull:video:8 name x priority 2"},
     BULLMQ_PROMOTE,
     "moved"},
    {"an id without a job in BullMQ",
     &script_bullmq_promote,
     {"ZADD bull:video:delayed 5 7 6 8", "HSET bull:video:7 name x priority 0"},
     BULLMQ_PROMOTE,
     "moved"},
    {"an interval begins",
     &script_bull_mark,
     {"RPUSH bull:video:active 7 8", "SADD bull:video:stalled 5"},
     BULL_MARK "30000 99999 0 9",
     "marked"},
    {"an interval goes on",
     &script_bull_mark,
     {"SET bull:video:stalled-check sidecar", "HSET sidecar:video:meta marked 5"},
     BULL_MARK "9999999999999 99999 0 9",
     "held"},
    {"a failure of a worker",
     &script_failed_record,
     {"ZADD bull:video:failed 5 7"},
     "5 " LOCK " bull:video:failed sidecar:video:recorded sidecar:video:failures sidecar:video:meta T 7 5 '' 1 99 '' kind failed",
     "settled"},
    {"a failure whose job is gone",
     &script_failed_record,
     {0},
     "5 " LOCK
     " bull:video:failed sidecar:video:recorded sidecar:video:failures sidecar:video:meta T 7 '' '' '' 99 '' kind failed",
     "settled"},
    {"the first look at failures",
     &script_failed_seen,
     {"ZADD bull:video:failed 9999999999999 7"},
     "3 " LOCK " bull:video:failed sidecar:video:recorded T 600000 9 '' 1 0",
     "seen"},
    {"a later look at failures",
     &script_failed_seen,
     {"ZADD sidecar:video:recorded 1 7:1 5 :seen 500 8:500", "ZADD bull:video:failed 1 9"},
     "3 " LOCK " bull:video:failed sidecar:video:recorded T 1 9 1000 1 0",
     "seen"},
    {"a mark of a job that is finished",
     &script_bull_settle,
     {"SADD bull:video:stalled 7"},
     BULL_SETTLE("12", "") "1 r '' '' retried",
     "gone"},
    {"a retry", &script_bull_settle, {BULL_STALLED}, BULL_SETTLE("12", "") "1 r '' '' retried", "settled"},
    {"an end of a stalled job",
     &script_bull_settle,
     {BULL_STALLED, "SET bull:video:de:1 7"},
     BULL_SETTLE("13", "bull:video:de:1 ") "1 ed why message failed",
     "settled"},
    {"an end of a job that Bull removes",
     &script_bull_settle,
     {BULL_STALLED, "RPUSH bull:video:7:logs x"},
     BULL_SETTLE("13", "bull:video:7:logs ") "1 ex why message failed",
     "settled"},
    {"an end of an active id without a job",
     &script_bull_settle,
     {"SADD bull:video:stalled 7", "RPUSH bull:video:active 7"},
     BULL_SETTLE("12", "") "'' b why '' failed",
     "settled"},
    {"a retry in BullMQ", &script_bullmq_settle, {BULLMQ_STALLED}, BULLMQ_SETTLE("13", "") "1 r why '' retried", "settled"},
    {"a retry of a job in BullMQ that stalled too often, into a paused queue",
     &script_bullmq_settle,
     {BULLMQ_STALLED, "HSET bull:video:meta paused 1"},
     BULLMQ_SETTLE("13", "") "1 rf why '' retried",
     "settled"},
    {"an end of an active id without a job in BullMQ",
     &script_bullmq_settle,
     {"SADD bull:video:stalled 7", "RPUSH bull:video:active 7"},
     BULLMQ_SETTLE("13", "") "'' b why '' failed",
     "settled"},
    {"an end of an id without a job",
     &script_quarantine_settle,
     {"ZADD sidecar:video:aside 1 7", "ZADD bull:video:delayed 5 7"},
     "7 " LOCK
     " sidecar:video:aside bull:video:delayed bull:video:delayed sidecar:video:failures sidecar:video:meta bull:video:7 "
     "T 99 '' 0 1 kind 7 5 end '' 0 7 '' '' '' '' failed",
     "settled"},
    {"a requeue",
     &script_bull_requeue,
     {"HSET bull:video:7 name x stalledCounter 5 failedReason y", "ZADD bull:video:failed 5 7"},
     BULL_REQUEUE "'' 0 1 9 2 name x kind requeued",
     "done"},
    {"a requeue to the tail of a paused queue",
     &script_bull_requeue,
     {"HSET bull:video:7 name x failedReason y", "ZADD bull:video:failed 5 7", "SET bull:video:meta-paused 1"},
     BULL_REQUEUE "'' 1 1 9 2 name x kind requeued",
     "done"},
    {"a requeue of a job that is gone",
     &script_bull_requeue,
     {"SET bull:video:id 3"},
     BULL_REQUEUE "'' 0 1 9 4 name x stalledCounter 5 kind requeued",
     "done"},
    {"a requeue in BullMQ",
     &script_bullmq_requeue,
     {"HSET bull:video:7 name x failedReason y", "ZADD bull:video:failed 5 7"},
     BULLMQ_REQUEUE "'' 0 '' 9 2 name x kind requeued",
     "done"},
    {"a requeue of a child with a priority in BullMQ",
     &script_bullmq_requeue,
     {"HSET bull:video:7 name x priority 3 parentKey bull:video:p", "ZADD bull:video:failed 5 7", "HSET bull:video:p name x",
      "ZADD bull:video:p:unsuccessful 1 bull:video:7", "HSET bull:video:meta version bullmq:6.7.0"},
     BULLMQ_REQUEUE "'' 0 bull:video:p 9 2 name x kind requeued",
     "done"},
    {"a requeue of a child whose failure its parent ignores in BullMQ",
     &script_bullmq_requeue,
     {"HSET bull:video:7 name x parentKey bull:video:p", "ZADD bull:video:failed 5 7", "HSET bull:video:p name x",
      "HSET bull:video:p:failed bull:video:7 why", "HSET bull:video:meta paused 1"},
     BULLMQ_REQUEUE "'' 1 bull:video:p 9 2 name x kind requeued",
     "done"},
    {"a requeue of a job that is gone in BullMQ",
     &script_bullmq_requeue,
     {"SET bull:video:id 3"},
     BULLMQ_REQUEUE "'' 0 '' 9 4 name x atm 5 kind requeued",
     "done"},
};
