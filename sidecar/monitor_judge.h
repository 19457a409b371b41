// Inside of the monitor: judges the jobs of one page of a pass, and carries the verdicts out.
#ifndef QS_MONITOR_JUDGE_H
#define QS_MONITOR_JUDGE_H

#include "base/json.h"
#include "queue/keys.h"
#include "ward.h"

// Room for what a page may hold; used for one page after the other.
typedef struct judge_room judge_room_t;
judge_room_t *judge_room_new(void); // owned
void judge_room_free(judge_room_t *room);

// What judging needs beside the page: all borrowed.
typedef struct judge {
    conn_t *conn;
    const keyspace_t *keys;
    size_t queue;
    const char *token;
    ward_t *ward;
    json_t *json;
    judge_room_t *room;
    bool standing; // the page was read without rotation: its jobs are near the tail
} judge_t;

// The page's stamps have been read; no reply is awaited on the connection. *fenced: the lock is not ours any more.
outcome_t judge_page(const judge_t *judge, const backup_page_t *page, const stamp_t *stamps, const stamp_raw_t *raws,
                     bool *fenced, fault_t *fault);

#endif
