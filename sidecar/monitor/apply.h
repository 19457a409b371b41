// Inside of the monitor: judges the jobs of one page of a pass, and carries the verdicts out.
#ifndef QS_MONITOR_APPLY_H
#define QS_MONITOR_APPLY_H

#include "base/json/json.h"
#include "dialects/dialect.h"
#include "monitor/scan.h"
#include "queue/call.h"

// Room for what a page may hold; used for one page after the other.
typedef struct judge_room judge_room_t;
judge_room_t *judge_room_new(void); // owned
void judge_room_free(judge_room_t *room);

// What judging needs beside the page: all borrowed.
typedef struct judge {
    const call_t *call;
    ward_t *ward;
    const dialect_ops_t *ops; // of this queue
    json_t *json;
    judge_room_t *room;
    bool standing; // the page was read without rotation: its jobs are near the tail
} judge_t;

// Judges each job of the page; no I/O. Returns how many of them need more than to be left alone.
size_t judge_meet(const judge_t *judge, const backup_page_t *page, const stamp_t *stamps, const stamp_raw_t *raws);

// Carries out what the last judge_meet found, for so many jobs; fenced. No reply may be awaited on the connection.
outcome_t judge_act(const judge_t *judge, size_t count);

#endif
