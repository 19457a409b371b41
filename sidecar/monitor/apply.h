// Inside of the monitor: judges the jobs of one page of a pass, and carries the verdicts out.
#ifndef QS_MONITOR_APPLY_H
#define QS_MONITOR_APPLY_H

#include "dialects/dialect.h"
#include "monitor/scan.h"
#include "queue/call.h"

// Room for what a page may hold; used for one page after the other.
typedef struct apply_buffers apply_buffers_t;
apply_buffers_t *apply_buffers_new(void); // owned
void apply_buffers_free(apply_buffers_t *buffers);

// What judging needs beside the page: all borrowed.
typedef struct apply {
    const call_t *call;
    scan_t *scan;
    const dialect_ops_t *ops; // of this queue
    apply_buffers_t *buffers;
    bool standing; // the page was read without rotation: its jobs are near the tail
} apply_t;

// Judges each job of the page; no I/O. Returns how many of them need more than to be left alone.
size_t apply_classify(const apply_t *apply, const backup_page_t *page, const stamp_t *stamps, const stamp_raw_t *raws);

// Carries out what the last apply_classify found, for so many jobs; fenced. No reply may be awaited on the connection.
outcome_t apply_verdicts(const apply_t *apply, size_t count);

#endif
