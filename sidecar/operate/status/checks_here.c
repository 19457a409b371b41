// Checks of this machine (its connection, whether an instance answers, and its audit log) and of Redis's servers.
#include "base/text/units.h"
#include "operate/status/checks.h"

enum {
    CLOCK_OFFSET_MS = 60000, // largest difference between the clocks of Redis and this machine
    WARN_FROM_PERCENT = 95,  // of maxmemory
};

int64_t check_connection(const check_subject_t *x, buffer_t *what) {
    if (x->s->reached) return 0;
    char *why = redis_error_without(&x->s->error, x->s->target);
    buffer_printf(what, "Redis at %s: %s", x->s->target, why);
    free(why);
    return 1;
}

int64_t check_instance(const check_subject_t *x, buffer_t *what) {
    buffer_printf(what, "%s %s", x->row->words, x->s->local.why);
    return x->s->local.state == (local_state_t)x->row->variant;
}

int64_t check_log_unreadable(const check_subject_t *x, buffer_t *what) {
    const status_log_t *log = &x->s->log;
    buffer_printf(what, "the local audit log cannot be read: %s", log->why);
    return !log->readable && !log->absent && *log->why;
}

int64_t check_gaps(const check_subject_t *x, buffer_t *what) {
    const status_log_t *log = &x->s->log;
    if (!log->readable || log->open_gaps <= 0) return 0;
    buffer_printf(what, "the local audit log has %s %s: the log was lost, or Redis trimmed records before this log had them",
                  count_text(log->open_gaps).text, log->open_gaps == 1 ? "gap" : "gaps");
    return log->open_gaps;
}

int64_t check_erased_texts(const check_subject_t *x, buffer_t *what) {
    const status_log_t *log = &x->s->log;
    if (!log->readable || log->unscrubbed <= 0) return 0;
    buffer_str(what, "parts of erased texts may still be in the file of the local audit log");
    return log->unscrubbed;
}

typedef struct named_stream {
    int64_t bytes;
    const char *key;
} named_stream_t;

static int named_stream_by_bytes(const void *a, const void *b) {
    int64_t x = ((const named_stream_t *)a)->bytes, y = ((const named_stream_t *)b)->bytes;
    return (x < y) - (x > y);
}

// Names the largest failure streams.
static void checks_name_streams(const status_t *s, buffer_t *what) {
    enum { NAMED = 3 };
    const size_t count = s->snapshot.queue_count;
    named_stream_t *streams = mem_array(count + 1, sizeof *streams);
    int64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        streams[i] = (named_stream_t){s->snapshot.queues[i].stream.bytes, s->keys->queues[i].failures};
        total += streams[i].bytes;
    }
    qsort(streams, count, sizeof *streams, named_stream_by_bytes);
    if (total > 0) buffer_printf(what, "; failure streams hold %s of it", size_text(total).text);
    for (size_t i = 0; i < count && i < NAMED && streams[i].bytes > 0; i++)
        buffer_printf(what, "%s %s %s", i ? "," : ":", streams[i].key, size_text(streams[i].bytes).text);
    free(streams);
}

int64_t check_memory(const check_subject_t *x, buffer_t *what) {
    const int64_t used = x->s->snapshot.memory_used, most = x->s->snapshot.memory_most;
    if (most <= 0 || (double)used * 100 < (double)most * WARN_FROM_PERCENT || (used >= most) != (x->row->variant == CHECK_FULL))
        return 0;
    buffer_printf(what, "Redis uses %s of its maxmemory, %s", size_text(used).text, size_text(most).text);
    checks_name_streams(x->s, what);
    return 1;
}

int64_t check_clocks(const check_subject_t *x, buffer_t *what) {
    int64_t apart = llabs(x->s->wall_ms - x->s->snapshot.now_ms);
    if (apart <= CLOCK_OFFSET_MS || x->s->snapshot.now_ms <= 0) return 0; // 0 = Redis's time is unknown
    buffer_printf(what, "the clocks of Redis and of this machine are %s apart", duration_text(apart).text);
    return apart;
}

int64_t check_servers(const check_subject_t *x, buffer_t *what) { return x->row->servers(&x->s->servers, x->s->wall_ms, what); }

int64_t check_slot(const check_subject_t *x, buffer_t *what) {
    const status_place_t *place = &x->s->places[x->queue];
    if (place->state != (slot_state_t)x->row->variant) return 0;
    buffer_str(what, place->why);
    return 1;
}
