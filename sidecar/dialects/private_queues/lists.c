// The private lists of a queue's workers: their names, and the job in progress in each.
//
// A scan reads each list once. The names come from a walk. The walk goes through a registry (a set, a hash or a list) or through
// all keys (SCAN). Steps of the walk alternate with reads of lists, so no request blocks Redis for long. A list that exists
// during the whole scan is always found.

#include "base/buffer.h"
#include "base/keyset.h"
#include "base/log.h"
#include "dialects/private_queues/internal.h"
#include "dialects/private_queues/scripts.h"
#include "queue/backup.h"
#include "redis/reply.h"

enum {
    PAGE = 64,          // lists of one request
    WALK = 500,         // keys or members of one step of the walk: about 0.6 ms of Redis for keys
    MAX_NAMES = 100000, // names of one scan, to bound memory; the next scan reads the rest
    BYTES = 1 << 20     // one request reads no further entry after this many bytes
};

static const char ROLE[] = "monitor";

// The source of the names.
typedef enum walk {
    WALK_NONE, // the registry is absent: there are no names
    WALK_SET,
    WALK_HASH,
    WALK_LIST,
    WALK_KEYS,
} walk_t;

static const struct {
    const char *type; // of the registry
    const char *command;
} walks[] = {[WALK_SET] = {"set", "SSCAN"}, [WALK_HASH] = {"hash", "HSCAN"}, [WALK_LIST] = {"list", "LRANGE"}};

// The key of a private list. The owner (the worker's name) follows in the same memory, after the NUL byte.
typedef struct private_name {
    char *key; // owned
    const char *owner;
} private_name_t;

typedef struct private_lists {
    const queue_config_t *queue; // borrowed
    char *match;                 // owned: the pattern, escaped for SCAN
    keymap_t reserved;           // digests of the keys that the config names
    walk_t walk;
    char cursor[24]; // where the walk continues
    bool walked;     // the walk has ended
    bool cut;        // the walk stopped at too many names; the next scan continues at the cursor
    private_name_t *names;
    size_t count;
    size_t next;     // index of the first name that no page has read
    size_t refused;  // lists of this scan that Redis refused to read
    keymap_t known;  // digests of the names
    size_t asked;    // lists in the current page
    bool stepped;    // the current page includes a step of the walk
    bool one_by_one; // Redis refused a page: read one list at a time to find the refused key
} private_lists_t;

// Keeps the one * and escapes the other special characters of SCAN (redis src/util.c, stringmatchlen).
static char *lists_scan_pattern(const char *pattern) {
    buffer_t out = {0};
    buffer_str(&out, "");
    for (const char *at = pattern; *at; at++) {
        if (strchr("?[]\\", *at)) buffer_str(&out, "\\");
        buffer_add(&out, at, 1);
    }
    return out.data;
}

static void *lists_open(const queue_keys_t *at) {
    private_lists_t *lists = mem_alloc(sizeof *lists);
    lists->queue = at->config;
    lists->match = lists_scan_pattern(private_config(at->config)->private);
    return lists;
}

static void lists_clear(private_lists_t *lists) {
    for (size_t i = 0; i < lists->count; i++) free(lists->names[i].key);
    lists->count = lists->next = lists->asked = 0;
    lists->stepped = false;
    keymap_free(&lists->known);
}

static void lists_close(void *self) {
    private_lists_t *lists = self;
    lists_clear(lists);
    keymap_free(&lists->reserved);
    free(lists->names);
    free(lists->match);
    free(lists);
}

// Keys that the config names for any queue are never private lists.
static void lists_load_reserved(private_lists_t *lists, const keyspace_t *keys) {
    for (size_t i = 0; i < keys->queue_count; i++) {
        redis_keys_t used = config_redis_keys(keys->queues[i].config);
        for (size_t k = 0; k < used.count; k++) {
            digest_t digest = digest_of(used.items[k].name, strlen(used.items[k].name));
            if (!used.items[k].pattern) keymap_put(&lists->reserved, digest.bytes);
        }
        config_redis_keys_free(&used);
    }
}

// *owner is the text that * of the pattern matches, or the name if there is no pattern. Borrowed from `name`.
static bool pattern_matches(const char *pattern, slice_t name, slice_t *owner) {
    const char *star = strchr(pattern, '*');
    *owner = name;
    if (!star) return true;
    size_t before = (size_t)(star - pattern);
    size_t behind = strlen(star + 1);
    if (name.len < before + behind || memcmp(name.data, pattern, before) != 0) return false;
    if (memcmp(name.data + name.len - behind, star + 1, behind) != 0) return false;
    *owner = (slice_t){name.data + before, name.len - before - behind};
    return true;
}

// Adds a key if it may be a worker's list and is not known yet.
static void lists_add(private_lists_t *lists, slice_t name) {
    static const char SIDECAR[] = "sidecar:";
    slice_t owner;
    if (name.len == 0 || memchr(name.data, '\0', name.len)) return;
    if (!pattern_matches(private_config(lists->queue)->private, name, &owner)) return;
    if (name.len >= sizeof SIDECAR - 1 && memcmp(name.data, SIDECAR, sizeof SIDECAR - 1) == 0) return;
    digest_t digest = digest_of(name.data, name.len);
    if (keymap_find(&lists->reserved, digest.bytes)) return;
    int64_t *seen = keymap_put(&lists->known, digest.bytes);
    if (++*seen > 1) return;
    char *key = mem_alloc(name.len + owner.len + 2);
    memcpy(key, name.data, name.len);
    memcpy(key + name.len + 1, owner.data, owner.len);
    lists->names = mem_grown(lists->names, lists->count, sizeof *lists->names);
    lists->names[lists->count++] = (private_name_t){key, key + name.len + 1};
}

// ---- The beginning of a scan.

static void lists_restart_walk(private_lists_t *lists) { snprintf(lists->cursor, sizeof lists->cursor, "0"); }

static void lists_status_append(const call_t *call, void *self) {
    private_lists_t *lists = self;
    const char *registry = private_config(lists->queue)->registry;
    lists_clear(lists);
    if (!lists->reserved.count) lists_load_reserved(lists, call->keys);
    if (!lists->cut) lists_restart_walk(lists);
    lists->walked = lists->cut = lists->one_by_one = false;
    lists->refused = 0;
    request_append(call->conn, "HLEN", call_queue(call)->stamps);
    request_append(call->conn, "TIME");
    if (*registry) request_append(call->conn, "TYPE", registry);
}

static void lists_read_registry(conn_t *conn, private_lists_t *lists, redis_error_t *worst) {
    walk_t walk = WALK_LIST;
    redisReply *type = conn_read_next(conn, NULL, worst);
    if (!type) return;
    while (walk != WALK_NONE && !reply_is(type, walks[walk].type)) walk--;
    if (walk != lists->walk) lists_restart_walk(lists);
    lists->walk = walk;
    if (walk == WALK_NONE && !reply_is(type, "none") && worst->outcome < OUTCOME_REFUSED)
        redis_error_set(worst, OUTCOME_REFUSED, "%s is a %s, but must be a set, a hash or a list of names",
                        private_config(lists->queue)->registry, reply_text(type));
    freeReplyObject(type);
}

static outcome_t lists_status_read(const call_t *call, void *self, backup_status_t *out) {
    private_lists_t *lists = self;
    redis_error_t *error = call->error;
    *out = (backup_status_t){.config = lists->queue};
    *error = (redis_error_t){0};
    out->stamps = conn_read_int(call->conn, call_queue(call)->stamps, error);
    redisReply *time = conn_read_next(call->conn, NULL, error);
    out->now = reply_time_ms(time);
    conn_reply_free(time);
    if (*private_config(lists->queue)->registry)
        lists_read_registry(call->conn, lists, error);
    else
        lists->walk = WALK_KEYS;
    lists->walked = lists->walk == WALK_NONE;
    // The walk knows the number of lists only at its end. So estimate: the jobs of the last scan, plus a page.
    out->entries = lists->walked ? 0 : out->stamps + BACKUP_PAGE;
    out->open = true;
    return error->outcome;
}

// ---- Pages.

static void lists_append_tails(const call_t *call, const private_lists_t *lists) {
    conn_t *conn = call->conn;
    request_script(conn, &script_private_tails, (int)lists->asked);
    for (size_t i = 0; i < lists->asked; i++) request_text(conn, lists->names[lists->next + i].key);
    request_int(conn, call_queue(call)->config->policy.max_payload, BYTES);
    request_end(conn);
}

static void lists_append_step(conn_t *conn, const private_lists_t *lists) {
    const char *registry = private_config(lists->queue)->registry;
    char number[24];
    if (lists->walk == WALK_LIST) {
        snprintf(number, sizeof number, "%lld", strtoll(lists->cursor, NULL, 10) + WALK - 1);
        request_append(conn, "LRANGE", registry, lists->cursor, number);
        return;
    }
    snprintf(number, sizeof number, "%d", WALK);
    if (lists->walk == WALK_KEYS)
        request_append(conn, "SCAN", lists->cursor, "MATCH", lists->match, "COUNT", number, "TYPE", "list");
    else
        request_append(conn, walks[lists->walk].command, registry, lists->cursor, "COUNT", number);
}

static void lists_page_append(const call_t *call, void *self, size_t count) {
    private_lists_t *lists = self;
    size_t left = lists->count - lists->next;
    lists->asked = left < count ? left : count;
    if (lists->asked > PAGE) lists->asked = PAGE;
    if (lists->asked > 1 && lists->one_by_one) lists->asked = 1;
    lists->stepped = !lists->walked && left - lists->asked < PAGE && lists->count < MAX_NAMES;
    if (lists->asked) lists_append_tails(call, lists);
    if (lists->stepped) lists_append_step(call->conn, lists);
}

static void lists_add_tail(private_lists_t *lists, const redisReply *reply, size_t at, backup_page_t *page) {
    int64_t nth = reply_int(reply_at(reply, at)) - 1;
    const redisReply *tail = reply_at(reply, at + 1);
    const redisReply *sha1 = reply_at(reply, at + 3);
    if (nth < 0 || nth >= (int64_t)lists->asked || !reply_is_text(tail)) return;
    const private_name_t *name = &lists->names[lists->next + (size_t)nth];
    if (reply_len(sha1)) {
        page->large++;
        page->large_from = name->key;
        log_warn(ROLE, lists->queue->name, "left a job larger than max_payload in a private list", F_STR("list", name->key),
                 F_INT("bytes", reply_int(reply_at(reply, at + 2))), F_STR("sha1", reply_text(sha1)),
                 F_INT("max_payload", lists->queue->policy.max_payload));
        return;
    }
    entry_t *entry = backup_page_add(page, reply_slice(tail));
    entry->from = name->key;
    entry->owner = name->owner;
}

// One refused key, such as one that the registry names and the ACL forbids, must not stop the other lists. Read one list at a
// time and skip the refused key.
static outcome_t lists_skip_refused(private_lists_t *lists, redis_error_t *error) {
    if (error->outcome != OUTCOME_REFUSED) return error->outcome;
    if (lists->asked == 1) {
        char *reason = mem_printf("%s: %s", lists->names[lists->next].key, error->text);
        log_error(ROLE, lists->queue->name, "cannot read a private list", F_STR("reason", reason));
        free(reason);
        lists->next++;
        lists->refused++;
    }
    lists->one_by_one = true;
    return redis_error_set(error, OUTCOME_OK, "%s", "");
}

static outcome_t lists_read_tails(conn_t *conn, private_lists_t *lists, backup_page_t *page, redis_error_t *error) {
    redisReply *reply;
    conn_expect_job(conn);
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return lists_skip_refused(lists, error);
    page->replies[page->reply_count++] = reply;
    int64_t read = reply_int(reply_at(reply, 0));
    if (read < 1 || read > (int64_t)lists->asked)
        return redis_error_set(error, OUTCOME_REFUSED, "private_tails: unexpected reply");
    for (size_t at = 1; at + 3 < reply->elements && page->count < (size_t)read; at += 4) lists_add_tail(lists, reply, at, page);
    page->vacant = (size_t)read - page->count;
    lists->next += (size_t)read;
    return OUTCOME_OK;
}

static void lists_read_step(conn_t *conn, private_lists_t *lists, redis_error_t *worst) {
    conn_expect_job(conn); // HSCAN sends the values of a hash too, which may be as large as jobs
    redisReply *reply = conn_read_next(conn, NULL, worst);
    if (!reply) return;
    bool paged = lists->walk == WALK_LIST;
    const redisReply *names = paged ? reply : reply_at(reply, 1);
    size_t found = names && names->type == REDIS_REPLY_ARRAY ? names->elements : 0;
    size_t stride = lists->walk == WALK_HASH ? 2 : 1; // skip the values of a hash
    for (size_t i = 0; i < found; i += stride) lists_add(lists, reply_slice(names->element[i]));
    if (paged)
        snprintf(lists->cursor, sizeof lists->cursor, "%lld", strtoll(lists->cursor, NULL, 10) + WALK);
    else
        snprintf(lists->cursor, sizeof lists->cursor, "%s", reply_text(reply_at(reply, 0)));
    lists->walked = paged ? found < WALK : strcmp(lists->cursor, "0") == 0;
    freeReplyObject(reply);
}

static outcome_t lists_page_read(const call_t *call, void *self, backup_page_t *page) {
    private_lists_t *lists = self;
    redis_error_t *error = call->error;
    *error = (redis_error_t){0};
    if (lists->asked && lists_read_tails(call->conn, lists, page, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
    if (lists->stepped) lists_read_step(call->conn, lists, error);
    lists->cut = !lists->walked && lists->count >= MAX_NAMES;
    page->ended = lists->next == lists->count && (lists->walked || lists->cut);
    // Without the right to read lists a scan finds no job, and at its end the monitor would forget the stamps of all jobs.
    if (page->ended && lists->refused && lists->refused == lists->count)
        redis_error_set(error, OUTCOME_REFUSED, "Redis refuses to read every private list");
    return error->outcome;
}

// ---- Settles.

// A job without an id has its digest as id (model/job.h). No worker puts that digest into `dedup`.
static bool job_has_id(const job_t *job) {
    char hex[DIGEST_HEX_SIZE];
    digest_hex(&job->digest, hex);
    return strcmp(hex, job->id) != 0;
}

// `depth` is 1: settle the job only while it is the last entry.
static void private_settle(const queue_keys_t *keys, const entry_t *entry, const job_t *job, bool retry, settle_where_t *out,
                           buffer_t *again) {
    (void)retry;
    (void)again;
    out->from = entry->from;
    out->depth = 1;
    if (*private_config(keys->config)->dedup && job_has_id(job)) {
        out->done = private_config(keys->config)->dedup;
        out->done_id = slice_text(job->id);
    }
    if (*keys->config->dlq) out->recorded = keys->recorded;
}

const scan_ops_t private_scan = {
    .of_worker = true,
    .open = lists_open,
    .close = lists_close,
    .status_append = lists_status_append,
    .status_read = lists_status_read,
    .page_append = lists_page_append,
    .page_read = lists_page_read,
    .settle = private_settle,
};
