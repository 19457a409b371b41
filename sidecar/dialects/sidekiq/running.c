// The jobs that processes run, for people: a walk through the processes, which reads each one's jobs in pages.
#include "dialects/sidekiq/internal.h"
#include "queue/backup.h"
#include "redis/reply.h"

enum { PAGE_BYTES = 1 << 20 }; // of jobs that one read returns, and one more step

typedef struct running {
    const queue_config_t *queue; // borrowed
    char **processes;            // their keys; owned, with its items
    size_t count, next;
    char list_cursor[SIDEKIQ_CURSOR]; // of the list of processes
    bool listed;                      // it was read to its end
    char cursor[SIDEKIQ_CURSOR];      // of the jobs of the next process
    redisReply *reply;                // jobs that were read; owned
    size_t given;                     // of these, the ones that a page has had or left out
    int64_t now_ms;
    size_t wanted; // jobs of the page
} running_t;

static void *running_open(const queue_keys_t *at) {
    running_t *walk = mem_alloc(sizeof *walk);
    *walk = (running_t){.queue = at->config};
    // The entry of the other zset shows the same queues: their jobs count once.
    walk->listed = sidekiq_config(at->config)->set != SIDEKIQ_SCHEDULE;
    return walk;
}

static void running_close(void *self) {
    running_t *walk = self;
    for (size_t i = 0; i < walk->count; i++) free(walk->processes[i]);
    free(walk->processes);
    conn_reply_free(walk->reply);
    free(walk);
}

static void running_status_append(const call_t *call, void *self) {
    (void)self;
    request_append(call->conn, "TIME");
}

static outcome_t running_status_read(const call_t *call, void *self, backup_status_t *out) {
    running_t *walk = self;
    *call->error = (redis_error_t){0};
    *out = (backup_status_t){.config = walk->queue, .open = true};
    redisReply *time = conn_read_next(call->conn, NULL, call->error);
    walk->now_ms = out->now = reply_time_ms(time);
    conn_reply_free(time);
    return call->error->outcome;
}

// The entries of the page before are no longer used.
static void running_page_append(const call_t *call, void *self, size_t count) {
    running_t *walk = self;
    walk->wanted = count;
    if (walk->reply && walk->given < sidekiq_work_count(walk->reply)) return;
    conn_reply_free(walk->reply);
    walk->reply = NULL;
    if (walk->listed && walk->next == walk->count) return;
    if (walk->listed) {
        const sidekiq_page_t page = {walk->processes[walk->next], SIDEKIQ_LIVING, PAGE_BYTES, (int64_t)count, walk->cursor};
        sidekiq_work_append(call->conn, walk->queue, &page);
    } else {
        sidekiq_processes_append(call->conn, walk->queue, walk->list_cursor);
    }
    request_end(call->conn);
}

static void running_add_process(running_t *walk, slice_t name) {
    char *key = sidekiq_process_key(walk->queue, name, walk->processes, walk->count, sizeof *walk->processes);
    if (!key) return;
    walk->processes = mem_grown(walk->processes, walk->count, sizeof *walk->processes);
    walk->processes[walk->count++] = key;
}

static void running_read_list(running_t *walk, const redisReply *reply) {
    const redisReply *names = reply_at(reply, 1);
    for (size_t i = 0; names && names->type == REDIS_REPLY_ARRAY && i < names->elements; i++)
        running_add_process(walk, reply_slice(names->element[i]));
    snprintf(walk->list_cursor, sizeof walk->list_cursor, "%s", reply_text(reply_at(reply, 0)));
    walk->listed = sidekiq_cursor_ended(walk->list_cursor);
}

// The set of processes may name keys of other types: those run no jobs.
static void running_read_work(running_t *walk, redisReply *reply) {
    walk->reply = reply;
    walk->given = 0;
    snprintf(walk->cursor, sizeof walk->cursor, "%s", reply_text(reply_at(reply, 7)));
    if (sidekiq_cursor_ended(walk->cursor)) walk->next++;
}

static void running_add(const running_t *walk, size_t index, size_t process, backup_page_t *page) {
    sidekiq_work_t work = {0};
    if (!sidekiq_work_read(sidekiq_config(walk->queue), sidekiq_work_value(walk->reply, index), &work)) {
        buffer_free(&work.payload);
        return;
    }
    buffer_str(&work.payload, ""); // an empty one has memory, too
    page->made[page->made_count++] = work.payload.data;
    pending_entry_t *pending = &page->pending[page->count];
    entry_t *entry = backup_page_add(page, (slice_t){work.payload.data, work.payload.len});
    int64_t since_ms = work.run_at > 0 && work.run_at < 9e12 ? (int64_t)(work.run_at * 1000) : 0;
    *pending = (pending_entry_t){.idle_ms = walk->now_ms - since_ms, .deliveries = since_ms > 0};
    entry->digest = work.stamp;
    entry->from = reply_text(reply_at(walk->reply, 2));
    entry->owner = walk->processes[process] + strlen(walk->queue->prefix);
    entry->pending = pending;
}

static outcome_t running_page_read(const call_t *call, void *self, backup_page_t *page) {
    running_t *walk = self;
    *call->error = (redis_error_t){0};
    if (!page->pending) page->pending = mem_array(BACKUP_PAGE, sizeof *page->pending);
    if (!walk->reply && (!walk->listed || walk->next < walk->count)) {
        redisReply *reply = conn_read_next(call->conn, NULL, call->error);
        if (!reply) return call->error->outcome;
        if (walk->listed) {
            running_read_work(walk, reply);
        } else {
            running_read_list(walk, reply);
            freeReplyObject(reply);
        }
    }
    size_t read = walk->reply ? sidekiq_work_count(walk->reply) : 0;
    size_t process = walk->next - sidekiq_cursor_ended(walk->cursor); // the one that the reply is of
    while (walk->given < read && page->count < walk->wanted) running_add(walk, walk->given++, process, page);
    page->ended = walk->listed && walk->next == walk->count && walk->given >= read;
    return call->error->outcome;
}

static void running_read(const queue_config_t *queue, slice_t bytes, job_t *out) {
    (void)queue;
    sidekiq_job_describe(bytes, out);
}

const scan_ops_t sidekiq_running = {.open = running_open,
                                    .close = running_close,
                                    .status_append = running_status_append,
                                    .status_read = running_status_read,
                                    .page_append = running_page_append,
                                    .page_read = running_page_read,
                                    .read = running_read};
