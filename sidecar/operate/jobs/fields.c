#include "operate/jobs/jobs.h"

const field_t jobs_fields[JOBS_FIELDS] = {
    FIELD("queue", TEXT, jobs_item_t, queue),
    FIELD("state", TEXT, jobs_item_t, state),
    FIELD("job_id", TEXT, jobs_item_t, job),
    FIELD("type", TEXT, jobs_item_t, type),
    FIELD("worker", TEXT, jobs_item_t, worker),
    FIELD("key", TEXT, jobs_item_t, key),
    FIELD("due_at", TIME, jobs_item_t, due),
    FIELD("started_at", TIME, jobs_item_t, since),
    FIELD("created_at", TIME, jobs_item_t, created),
    FIELD("retries", COUNT, jobs_item_t, retries),
    FIELD("size", COUNT, jobs_item_t, size),
    FIELD("sha256", TEXT, jobs_item_t, sha256),
    FIELD("payload", BYTES, jobs_item_t, payload),
    FIELD("payload_encoding", ENCODING, jobs_item_t, payload_is_text),
    FIELD("payload_cut", FLAG, jobs_item_t, payload_cut),
};
