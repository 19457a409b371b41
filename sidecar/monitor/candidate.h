// The jobs of one page that need an action.
#pragma once

#include "base/buffer.h"
#include "base/pace.h"
#include "model/job.h"
#include "monitor/scan/scan.h"
#include "queue/call.h"

// Memory for one page. The next page uses the same memory.
typedef struct apply_buffers apply_buffers_t;

// Every member is borrowed.
typedef struct apply {
    const call_t *call;
    scan_t *scan;
    apply_buffers_t *buffers;
    pace_t *pace;
    const backup_page_t *page;
    bool from_tail;    // the first job of the page is the nearest to an end of its list; otherwise the last one is
    int64_t births_us; // now, in us by Redis's clock: the birth of a reported job that has no stamp
} apply_t;

// A job whose verdict apply_verdicts must carry out.
typedef struct candidate {
    const entry_t *entry;
    const stamp_raw_t *raw;
    observation_t observation;
    verdict_t verdict;
    const worker_report_t *report; // borrowed from the report table
    bool known;                    // `job` is filled
    job_t job;
    bool removed;    // a settle has removed the job from the list
    char *heartbeat; // owned; NULL = none
    settle_where_t where;
    settle_ask_t ask;
    buffer_t again; // the bytes of a retry
    event_t event;
    char id[EVENT_ID_SIZE];
    char sha256[DIGEST_HEX_SIZE];
} candidate_t;
