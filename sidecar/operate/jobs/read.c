#include <math.h>

#include "base/utf8.h"
#include "operate/jobs/jobs.h"
#include "queue/stamps.h"

enum {
    PAGE_BYTES = 256 * 1024, // of one reply; the entry that exceeds them is the last one
    WHOLE_BYTES = 64 * 1024, // of a payload that is read whole: in a larger one no id is looked for
    LAST_BYTES = 1024,       // of the last entry of a page: with all of it the next page begins exactly there
    EXAMINE = 20000,         // entries of a request; most end earlier, by time
    ALL_MS = 86400000,       // 1970-01-01 in any time zone: people type it for all jobs, and a score may be below it
};

static const char *const WORDS[] = {[JOBS_DELAYED] = "delayed", [JOBS_READY] = "ready", [JOBS_IN_PROGRESS] = "in-progress"};

struct jobs_reader {
    const keyspace_t *keys;
    size_t queue;
    const jobs_query_t *query;
    const dialect_ops_t *ops;
    char **parts; // the keys that have the jobs; owned, with its items
    bool *zsets;  // of each part: it is a zset; owned
    size_t part_count, part;
    const scan_ops_t
        *walk;          // the dialect finds the jobs: each worker has a list of its own, or there is no list; NULL = the parts
    void *lists;        // its state; NULL = not begun
    jobs_place_t place; // where a part was left; of a walk: the number of jobs that were read
    backup_status_t status; // knows the markers in a backup list
    bool has_status, ended, rotated, missing, stopped;
    int64_t skip;                 // jobs of a walk that were read before
    int64_t found;                // jobs given to the caller
    char sha256[DIGEST_HEX_SIZE]; // of the job that the caller gets
    // Of the page that is being read.
    backup_page_t page; // the jobs that may have a stamp
    stamp_t stamps[BACKUP_PAGE];
    stamp_raw_t raws[BACKUP_PAGE];
};

static const queue_keys_t *reader_queue(const jobs_reader_t *reader) { return &reader->keys->queues[reader->queue]; }

static bool reader_wants_key(jobs_state_t state, redis_key_size_t size) {
    switch (state) {
    case JOBS_DELAYED: return size == SIZE_DELAYED;
    case JOBS_READY: return size == SIZE_READY;
    case JOBS_IN_PROGRESS: return size == SIZE_BACKUP || size == SIZE_ACTIVE;
    }
    return false;
}

static void reader_add_part(jobs_reader_t *reader, const redis_key_t *key) {
    for (size_t i = 0; i < reader->part_count; i++)
        if (strcmp(reader->parts[i], key->name) == 0) return;
    reader->parts = mem_grown(reader->parts, reader->part_count, sizeof *reader->parts);
    reader->zsets = mem_grown(reader->zsets, reader->part_count, sizeof *reader->zsets);
    reader->zsets[reader->part_count] = key->type && strcmp(key->type, "zset") == 0;
    reader->parts[reader->part_count++] = mem_str(key->name);
}

static void reader_find_parts(jobs_reader_t *reader) {
    redis_keys_t keys = config_redis_keys(reader_queue(reader)->config);
    for (size_t i = 0; i < keys.count; i++)
        if (reader_wants_key(reader->query->state, keys.items[i].size)) reader_add_part(reader, &keys.items[i]);
    config_redis_keys_free(&keys);
    const scan_ops_t *scan = reader->ops->scan && reader->ops->scan->open ? reader->ops->scan : NULL;
    if (reader->query->state == JOBS_READY) reader->walk = reader->ops->jobs->ready;
    if (reader->query->state == JOBS_IN_PROGRESS)
        reader->walk = reader->ops->jobs->in_progress ? reader->ops->jobs->in_progress : scan;
    reader->ended = !jobs_has_state(reader);
}

static void reader_begin_part(jobs_reader_t *reader) {
    buffer_t bytes = reader->place.bytes;
    buffer_clear(&bytes);
    reader->place = (jobs_place_t){.place = -1, .bytes = bytes};
}

// Only what jobs_cursor wrote: it must come out the same, with numbers that a script can hold.
static bool reader_parse_cursor(jobs_reader_t *reader, const char *cursor) {
    static const int64_t most = INT64_C(1) << 53;
    long long place, size;
    jobs_place_t *at = &reader->place;
    if (sscanf(cursor, "%zu_%lld_%lf_%lld_%40[0-9a-f]", &reader->part, &place, &at->score, &size, at->id) != 5) return false;
    if (place < -1 || place > most || size < -1 || size > most || isnan(at->score)) return false;
    at->place = place;
    at->size = size;
    reader->skip = place + 1;
    // Redis may find the lists in another order than before.
    reader->missing = reader->walk && !reader->walk->go_to && reader->skip > 0;
    buffer_t again = {0};
    jobs_cursor(reader, &again);
    bool same = strcmp(buffer_text(&again), cursor) == 0;
    buffer_free(&again);
    return same && (reader->walk || reader->part < reader->part_count);
}

jobs_reader_t *jobs_open(const keyspace_t *keys, size_t queue, const jobs_query_t *query, const char *cursor) {
    jobs_reader_t *reader = mem_alloc(sizeof *reader);
    *reader = (jobs_reader_t){.keys = keys, .queue = queue, .query = query};
    reader->ops = dialect_ops(reader_queue(reader)->config->dialect);
    reader_find_parts(reader);
    reader_begin_part(reader);
    if (!cursor || reader_parse_cursor(reader, cursor)) return reader;
    jobs_close(reader);
    return NULL;
}

static void reader_close_lists(jobs_reader_t *reader) {
    if (reader->lists) reader->walk->close(reader->lists);
    reader->lists = NULL;
}

void jobs_rewind(jobs_reader_t *reader) {
    reader_close_lists(reader);
    reader_begin_part(reader);
    reader->part = 0;
    reader->skip = 0;
    reader->ended = !jobs_has_state(reader);
    reader->rotated = reader->missing = false;
}

void jobs_close(jobs_reader_t *reader) {
    if (!reader) return;
    reader_close_lists(reader);
    for (size_t i = 0; i < reader->part_count; i++) free(reader->parts[i]);
    free(reader->parts);
    free(reader->zsets);
    backup_page_free(&reader->page);
    buffer_free(&reader->status.marker);
    buffer_free(&reader->place.bytes);
    free(reader);
}

bool jobs_has_state(const jobs_reader_t *reader) { return reader->walk || reader->part_count > 0; }
bool jobs_ended(const jobs_reader_t *reader) { return reader->ended; }
bool jobs_rotated(const jobs_reader_t *reader) { return reader->rotated; }
bool jobs_missing(const jobs_reader_t *reader) { return reader->missing; }
bool jobs_is_behind(const jobs_reader_t *reader) {
    return reader->walk && !reader->ended && reader->place.place + 1 < reader->skip;
}

void jobs_cursor(const jobs_reader_t *reader, buffer_t *out) {
    const jobs_place_t *at = &reader->place;
    const int64_t place = jobs_is_behind(reader) ? reader->skip - 1 : at->place;
    buffer_printf(out, "%zu_%" PRId64 "_%.17g_%" PRId64 "_%s", reader->part, place, at->score, at->size, *at->id ? at->id : "0");
}

// ---- Items.

static int64_t reader_due_ms(const jobs_reader_t *reader, double score) {
    const promote_ops_t *promote = reader->ops->promote;
    int64_t us = promote && reader->query->state == JOBS_DELAYED ? promote->due_us(reader_queue(reader)->config, score) : 0;
    return us <= 0 ? 0 : us == INT64_MAX ? INT64_MAX : us / 1000 + (us % 1000 > 0);
}

static bool reader_wants(const jobs_reader_t *reader, const jobs_item_t *item) {
    const jobs_query_t *query = reader->query;
    if (query->type && !slice_is(item->type, query->type)) return false;
    if (query->since_ms > ALL_MS && item->due < query->since_ms) return false;
    return !query->until_ms || item->due < query->until_ms;
}

// Gives the job to the caller. `job` NULL: the payload is cut, and nothing of it is known.
static void reader_give(jobs_reader_t *reader, jobs_item_t *item, const job_t *job, slice_t payload, const stamp_t *stamp,
                        jobs_item_fn *fn, void *self) {
    static const stamp_t none = {0};
    item->stamp = stamp ? stamp : &none;
    item->queue = slice_text(reader_queue(reader)->config->name);
    item->state = slice_text(WORDS[reader->query->state]);
    item->due = reader_due_ms(reader, item->score);
    item->retries = -1;
    if (job) {
        item->job = slice_text(job->id);
        item->type = slice_text(job->type);
        item->created = job->created_ms ? job->created_ms : item->stamp->born_us / 1000;
        item->retries = job->retries_in_job >= 0 ? job->retries_in_job : item->stamp->retries;
        item->digest = &job->digest;
    }
    if (reader->query->state == JOBS_IN_PROGRESS) item->since = job && job->executed_ms ? job->executed_ms : item->stamp->seen;
    *reader->sha256 = '\0';
    if (job && !item->entry_cut) digest_hex(&job->digest, reader->sha256);
    item->sha256 = slice_text(reader->sha256);
    item->payload = utf8_head(payload, JOBS_HEAD_BYTES);
    item->payload_is_text = utf8_is_valid(item->payload.data, item->payload.len);
    item->payload_cut = (int64_t)item->payload.len < item->size;
    if (!reader_wants(reader, item)) return;
    reader->found++;
    if (!fn(self, item)) reader->stopped = true;
}

static void reader_read_job(const jobs_reader_t *reader, slice_t bytes, job_t *out) {
    const queue_config_t *queue = reader_queue(reader)->config;
    const scan_ops_t *scan = reader->walk ? reader->walk : reader->ops->scan;
    if (scan && scan->read)
        scan->read(queue, bytes, out);
    else
        job_read(&queue->policy, bytes, out);
}

// ---- A zset or a list.

static bool reader_has_stamps(const jobs_reader_t *reader) {
    return reader->ops->scan && reader_queue(reader)->config->policy.roles & ROLE_MONITOR;
}

static outcome_t reader_read_status(jobs_reader_t *reader, const call_t *call) {
    const scan_ops_t *scan = reader->ops->scan;
    if (reader->has_status || reader->query->state != JOBS_IN_PROGRESS || !scan || !scan->rotation) return OUTCOME_OK;
    backup_status_append(call, scan->rotation, NULL, false);
    if (backup_status_read(call, scan->rotation, false, &reader->status) != OUTCOME_OK) return call->error->outcome;
    reader->has_status = true;
    return OUTCOME_OK;
}

static bool reader_is_marker(const jobs_reader_t *reader, slice_t entry) {
    return reader->has_status && reader->status.rotation->kind_of(&reader->status, entry) != ENTRY_JOB;
}

static jobs_range_t reader_range(const jobs_reader_t *reader, int64_t most) {
    const jobs_query_t *query = reader->query;
    const queue_config_t *queue = reader_queue(reader)->config;
    const jobs_ops_t *ops = reader->ops->jobs;
    const double per_ms = queue->policy.score_unit == SCORE_S ? 1000 : 1;
    jobs_range_t range = {.key = reader->parts[reader->part],
                          .zset = reader->zsets[reader->part],
                          .count = most && most < BACKUP_PAGE ? most : BACKUP_PAGE,
                          .examine = EXAMINE,
                          .most = PAGE_BYTES,
                          .whole = query->whole ? queue->policy.max_payload : WHOLE_BYTES,
                          .head = JOBS_HEAD_BYTES + 4,
                          .longest = query->whole ? queue->policy.max_payload : LAST_BYTES,
                          .least = -(double)INFINITY,
                          .below = (double)INFINITY,
                          .texts = query->texts,
                          .text_count = query->text_count};
    if (ops->changes && query->since_ms > ALL_MS) range.least = (double)query->since_ms / per_ms;
    if (ops->changes && query->until_ms) range.below = (double)query->until_ms / per_ms;
    if (ops->details) ops->details(queue, query->state, &range);
    return range;
}

static void reader_give_page(jobs_reader_t *reader, const jobs_page_t *found, jobs_item_fn *fn, void *self) {
    const jobs_ops_t *ops = reader->ops->jobs;
    jobs_entry_t entry;
    job_t job;
    size_t stamped = 0;
    for (size_t i = 0; i < found->count; i++) {
        jobs_page_entry(found, i, &entry);
        slice_t bytes = entry.values[0], payload = bytes;
        if (reader_is_marker(reader, bytes)) continue;
        bool known = ops->read || !entry.cut;
        jobs_item_t item = {.key = slice_text(reader->parts[reader->part]),
                            .size = entry.size,
                            .entry = bytes,
                            .entry_cut = entry.cut,
                            .score = entry.score};
        size_t at = stamped;
        if (ops->read)
            ops->read(reader_queue(reader)->config, reader->query->state, &entry, &job, &payload);
        else if (known)
            reader_read_job(reader, bytes, &job);
        bool has_stamp = stamped < reader->page.count && !entry.cut;
        stamped += has_stamp;
        if (has_stamp) item.stamp_bytes = (slice_t){(const char *)reader->raws[at].bytes, reader->raws[at].len};
        reader_give(reader, &item, known ? &job : NULL, payload, has_stamp ? &reader->stamps[at] : NULL, fn, self);
    }
}

static outcome_t reader_read_stamps(jobs_reader_t *reader, const call_t *call, const jobs_page_t *found) {
    int64_t now_us = 0;
    jobs_entry_t entry;
    backup_page_clear(&reader->page);
    if (!reader_has_stamps(reader)) return OUTCOME_OK;
    for (size_t i = 0; i < found->count; i++) {
        jobs_page_entry(found, i, &entry);
        if (!entry.cut && !reader_is_marker(reader, entry.values[0])) backup_page_add(&reader->page, entry.values[0]);
    }
    stamps_append(call, &reader->page);
    return stamps_read(call, &reader->page, reader->stamps, reader->raws, &now_us);
}

// A scan reads longer lists in place.
static bool reader_may_rotate(const jobs_reader_t *reader) {
    int64_t most = reader->keys->config->monitor.rotation, half = JOBS_SORTED_MAX / 2;
    return reader->has_status && reader->status.entries <= (most < half ? most : half);
}

static outcome_t reader_step_part(jobs_reader_t *reader, const call_t *call, int64_t most, jobs_item_fn *fn, void *self) {
    jobs_page_t found;
    const jobs_range_t range = reader_range(reader, most);
    const int64_t place = reader->place.place;
    if (reader_read_status(reader, call) != OUTCOME_OK) return call->error->outcome;
    jobs_page_append(call, &range, &reader->place);
    outcome_t outcome = jobs_page_read(call, &range, &reader->place, &found);
    if (outcome == OUTCOME_OK) outcome = reader_read_stamps(reader, call, &found);
    if (outcome == OUTCOME_OK) reader_give_page(reader, &found, fn, self);
    bool moved = found.missing || reader->place.place - found.examined != place;
    reader->rotated |= moved && reader_may_rotate(reader);
    if (outcome == OUTCOME_OK && found.ended) {
        reader->ended = ++reader->part == reader->part_count;
        reader_begin_part(reader);
    }
    reader->missing |= found.missing;
    jobs_page_free(&found);
    return outcome;
}

// ---- Lists of workers.

static bool item_has_text(const jobs_query_t *query, slice_t bytes) {
    for (size_t i = 0; i < query->text_count; i++)
        if (memmem(bytes.data, bytes.len, query->texts[i], strlen(query->texts[i]))) return true;
    return query->text_count == 0;
}

static void reader_give_tails(jobs_reader_t *reader, jobs_item_fn *fn, void *self) {
    job_t job;
    for (size_t i = 0; i < reader->page.count; i++) {
        const entry_t *entry = &reader->page.entries[i];
        if (reader->place.place + 1 < reader->skip || !item_has_text(reader->query, entry->bytes)) {
            reader->place.place++;
            continue;
        }
        jobs_item_t item = {.key = slice_text(entry->from),
                            .worker = slice_text(entry->owner),
                            .size = (int64_t)entry->bytes.len,
                            .entry = entry->bytes};
        reader_read_job(reader, entry->bytes, &job);
        if (entry->pending && entry->pending->deliveries) job.executed_ms = reader->status.now - entry->pending->idle_ms;
        reader->place.place++;
        reader_give(reader, &item, &job, entry->bytes, &reader->stamps[i], fn, self);
    }
}

static outcome_t reader_step_walk(jobs_reader_t *reader, const call_t *call, int64_t most, jobs_item_fn *fn, void *self) {
    const scan_ops_t *scan = reader->walk;
    int64_t now_us = 0;
    if (!reader->lists) {
        reader->lists = scan->open(reader_queue(reader));
        reader->place.place = -1;
        scan->status_append(call, reader->lists);
        if (scan->status_read(call, reader->lists, &reader->status) != OUTCOME_OK) return call->error->outcome;
        if (scan->go_to && scan->go_to(reader->lists, reader->place.id)) reader->place.place = reader->skip - 1;
    }
    backup_page_clear(&reader->page);
    scan->page_append(call, reader->lists, most && most < BACKUP_PAGE ? (size_t)most : BACKUP_PAGE);
    if (scan->page_read(call, reader->lists, &reader->page) != OUTCOME_OK) return call->error->outcome;
    stamps_append(call, &reader->page);
    if (stamps_read(call, &reader->page, reader->stamps, reader->raws, &now_us) != OUTCOME_OK) return call->error->outcome;
    reader_give_tails(reader, fn, self);
    if (scan->place) scan->place(reader->lists, reader->place.id);
    reader->ended = reader->page.ended;
    return OUTCOME_OK;
}

outcome_t jobs_step(jobs_reader_t *reader, conn_t *conn, int64_t most, jobs_item_fn *fn, void *self, redis_error_t *error) {
    const call_t call = {.conn = conn, .keys = reader->keys, .queue = reader->queue, .error = error};
    *error = (redis_error_t){0};
    if (reader->ended) return OUTCOME_OK;
    if (reader->walk) return reader_step_walk(reader, &call, most, fn, self);
    return reader_step_part(reader, &call, most, fn, self);
}

outcome_t jobs_read(jobs_reader_t *reader, conn_t *conn, int64_t most, mono_t deadline, jobs_item_fn *fn, void *self,
                    redis_error_t *error) {
    outcome_t outcome = OUTCOME_OK;
    *error = (redis_error_t){0};
    reader->found = 0;
    reader->stopped = false;
    while (outcome == OUTCOME_OK && !reader->ended && !reader->stopped && (!most || reader->found < most)) {
        outcome = jobs_step(reader, conn, most ? most - reader->found : 0, fn, self, error);
        if (mono_diff(mono_now(), deadline) >= 0) break;
    }
    return outcome;
}
