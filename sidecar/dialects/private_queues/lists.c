#include "dialects/private_queues/lists.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/keyset.h"
#include "base/log.h"
#include "dialects/private_queues/config.h"
#include "dialects/private_queues/scripts.h"
#include "redis/reply.h"

static const char ROLE[] = "monitor";

// The source of the names.
typedef enum walk {
    WALK_NONE, // the registry is absent: there are no names
    WALK_KEYS,
    WALK_SET,
    WALK_HASH,
    WALK_LIST,
} walk_t;

// The key of a private list. The name of the owner follows after the NUL byte.
typedef struct private_name {
    char *key; // owned
    const char *owner;
} private_name_t;

struct private_lists {
    const queue_config_t *queue; // borrowed
    char *match;                 // owned: the pattern as SCAN takes it
    char **reserved;             // owned, sorted: keys that the config names
    size_t reserved_count;
    walk_t walk;
    char cursor[24]; // where the walk continues
    bool walked;     // the walk has ended
    bool cut;        // the walk stopped at too many names; the next scan continues at the cursor
    private_name_t *names;
    size_t count;
    size_t room;
    size_t next;            // index of the first name that no page has read
    keymap_t known;         // digests of the names
    size_t asked;           // lists in the current page
    bool stepped;           // the current page includes a step of the walk
    bool one_by_one;        // Redis refused a page: read one list at a time to find the culprit
    const keyspace_t *keys; // borrowed
};

static int lists_compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

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

private_lists_t *private_lists_new(const queue_keys_t *at) {
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

void private_lists_free(private_lists_t *lists) {
    if (!lists) return;
    lists_clear(lists);
    for (size_t i = 0; i < lists->reserved_count; i++) free(lists->reserved[i]);
    free(lists->reserved);
    free(lists->names);
    free(lists->match);
    free(lists);
}

// The keys of all queues.
static void lists_load_reserved(private_lists_t *lists, const keyspace_t *keys) {
    size_t room = 0;
    for (size_t i = 0; i < keys->queue_count; i++) {
        redis_keys_t used = config_redis_keys(keys->queues[i].config);
        char **grown = mem_array(room + used.count + 1, sizeof *grown);
        if (room) memcpy(grown, lists->reserved, room * sizeof *grown);
        free(lists->reserved);
        lists->reserved = grown;
        for (size_t k = 0; k < used.count; k++)
            if (!used.items[k].pattern) lists->reserved[room++] = mem_str(used.items[k].name);
        config_redis_keys_free(&used);
    }
    lists->reserved_count = room;
    if (room) qsort(lists->reserved, room, sizeof *lists->reserved, lists_compare_texts);
}

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

bool private_lists_take(private_lists_t *lists, const keyspace_t *keys, slice_t name, slice_t *owner) {
    static const char OURS[] = "sidecar:";
    if (!lists->reserved) lists_load_reserved(lists, keys);
    if (name.len == 0 || memchr(name.data, '\0', name.len) ||
        !pattern_matches(private_config(lists->queue)->private, name, owner))
        return false;
    if (name.len >= sizeof OURS - 1 && memcmp(name.data, OURS, sizeof OURS - 1) == 0) return false;
    char *text = mem_printf("%.*s", (int)name.len, name.data);
    bool taken = lists->reserved_count &&
                 bsearch(&text, lists->reserved, lists->reserved_count, sizeof *lists->reserved, lists_compare_texts);
    free(text);
    return !taken;
}

static void lists_add(private_lists_t *lists, const keyspace_t *keys, const redisReply *reply) {
    slice_t name = reply_slice(reply);
    slice_t owner;
    if (!private_lists_take(lists, keys, name, &owner)) return;
    digest_t digest = digest_of(name.data, name.len);
    int64_t *met = keymap_put(&lists->known, digest.bytes);
    if (++*met > 1) return;
    if (lists->count == lists->room) {
        size_t room = lists->room * 2 + 64;
        private_name_t *grown = mem_array(room, sizeof *grown);
        if (lists->count) memcpy(grown, lists->names, lists->count * sizeof *grown);
        free(lists->names);
        lists->names = grown;
        lists->room = room;
    }
    char *key = mem_alloc(name.len + owner.len + 2);
    memcpy(key, name.data, name.len);
    memcpy(key + name.len + 1, owner.data, owner.len);
    lists->names[lists->count++] = (private_name_t){key, key + name.len + 1};
}

// ---- The beginning of a scan.

void private_look_append(const call_t *call, void *self) {
    private_lists_t *lists = self;
    conn_t *conn = call->conn;
    lists_clear(lists);
    if (!lists->cut) snprintf(lists->cursor, sizeof lists->cursor, "0");
    lists->walked = lists->cut = lists->one_by_one = false;
    request_append(conn, "HLEN", call_queue(call)->stamps);
    request_append(conn, "TIME");
    if (*private_config(lists->queue)->registry) request_append(conn, "TYPE", private_config(lists->queue)->registry);
}

static bool lists_read_stamps(conn_t *conn, const char *key, backup_look_t *out, redis_error_t *error) {
    redisReply *reply;
    if (conn_read(conn, 0, &reply, error) == OUTCOME_OK) {
        out->stamps = reply_int(reply);
        freeReplyObject(reply);
    } else {
        redis_error_t named = *error;
        redis_error_set(error, named.outcome, "%s: %s", key, named.text);
    }
    return error->outcome != OUTCOME_DISCONNECTED;
}

static bool lists_read_time(conn_t *conn, backup_look_t *out, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) {
        out->now = reply_number(reply_at(reply, 0)) * 1000 + reply_number(reply_at(reply, 1)) / 1000;
        freeReplyObject(reply);
    } else if (error.outcome > worst->outcome) {
        *worst = error;
    }
    return worst->outcome != OUTCOME_DISCONNECTED;
}

static walk_t lists_walk(const redisReply *type) {
    static const struct {
        const char *type;
        walk_t walk;
    } walks[] = {{"set", WALK_SET}, {"hash", WALK_HASH}, {"list", WALK_LIST}};
    for (size_t i = 0; i < sizeof walks / sizeof *walks; i++)
        if (reply_is(type, walks[i].type)) return walks[i].walk;
    return WALK_NONE;
}

static void lists_read_registry(conn_t *conn, private_lists_t *lists, redis_error_t *worst) {
    const char *registry = private_config(lists->queue)->registry;
    redisReply *reply;
    redis_error_t error;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) {
        walk_t before = lists->walk;
        lists->walk = lists_walk(reply);
        if (lists->walk != before) snprintf(lists->cursor, sizeof lists->cursor, "0");
        if (lists->walk == WALK_NONE && !reply_is(reply, "none"))
            redis_error_set(&error, OUTCOME_REFUSED, "%s holds a %s where a set, a hash or a list of names is wanted", registry,
                            reply_text(reply));
        freeReplyObject(reply);
    }
    if (error.outcome > worst->outcome) *worst = error;
}

outcome_t private_look_read(const call_t *call, void *self, backup_look_t *out) {
    private_lists_t *lists = self;
    conn_t *conn = call->conn;
    redis_error_t *error = call->error;
    *out = (backup_look_t){.config = lists->queue};
    *error = (redis_error_t){0};
    if (!lists_read_stamps(conn, call_queue(call)->stamps, out, error) || !lists_read_time(conn, out, error))
        return error->outcome;
    lists->walk = *private_config(lists->queue)->registry ? lists->walk : WALK_KEYS;
    if (lists->walk != WALK_KEYS) lists_read_registry(conn, lists, error);
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
    request_int(conn, call_queue(call)->config->policy.max_payload, PRIVATE_BYTES);
    request_end(conn);
}

static void lists_append_step(conn_t *conn, const private_lists_t *lists) {
    switch (lists->walk) {
    case WALK_NONE: return;
    case WALK_KEYS: request_begin(conn, "SCAN"); break;
    case WALK_SET: request_begin(conn, "SSCAN"); break;
    case WALK_HASH: request_begin(conn, "HSCAN"); break;
    case WALK_LIST: request_begin(conn, "LRANGE"); break;
    }
    if (lists->walk != WALK_KEYS) request_text(conn, private_config(lists->queue)->registry);
    request_text(conn, lists->cursor);
    if (lists->walk == WALK_LIST) {
        request_int(conn, strtoll(lists->cursor, NULL, 10) + PRIVATE_WALK - 1);
    } else {
        if (lists->walk == WALK_KEYS) {
            request_text(conn, "MATCH", lists->match);
        }
        request_text(conn, "COUNT");
        request_int(conn, PRIVATE_WALK);
        if (lists->walk == WALK_KEYS) {
            request_text(conn, "TYPE", "list");
        }
    }
    request_end(conn);
}

void private_page_append(const call_t *call, void *self, size_t skip, size_t count) {
    private_lists_t *lists = self;
    (void)skip; // lists->next
    size_t left = lists->count - lists->next;
    lists->keys = call->keys;
    lists->asked = left < count ? left : count;
    if (lists->asked > PRIVATE_PAGE) lists->asked = PRIVATE_PAGE;
    if (lists->asked > 1 && lists->one_by_one) lists->asked = 1;
    lists->stepped = !lists->walked && left - lists->asked < PRIVATE_PAGE && lists->count < PRIVATE_MOST;
    if (lists->asked) lists_append_tails(call, lists);
    if (lists->stepped) lists_append_step(call->conn, lists);
}

static void lists_log_large(const private_lists_t *lists, const private_name_t *name, int64_t size, const char *sha1) {
    log_warn(ROLE, lists->queue->name, "left a job in a private list that is larger than max_payload", F_STR("list", name->key),
             F_INT("bytes", size), F_STR("sha1", sha1), F_INT("max_payload", lists->queue->policy.max_payload));
}

static void lists_add_tail(private_lists_t *lists, const redisReply *reply, size_t at, backup_page_t *page) {
    int64_t nth = reply_int(reply_at(reply, at)) - 1;
    const redisReply *tail = reply_at(reply, at + 1);
    const redisReply *sha1 = reply_at(reply, at + 3);
    if (nth < 0 || nth >= (int64_t)lists->asked || !reply_is_text(tail)) return;
    const private_name_t *name = &lists->names[lists->next + (size_t)nth];
    if (reply_len(sha1)) {
        page->large++;
        lists_log_large(lists, name, reply_int(reply_at(reply, at + 2)), reply_text(sha1));
        return;
    }
    entry_t *entry = &page->entries[page->count++];
    *entry = (entry_t){.bytes = reply_slice(tail), .kind = ENTRY_JOB, .from = name->key, .owner = name->owner};
    entry->digest = digest_of(entry->bytes.data, entry->bytes.len);
    page->bytes += entry->bytes.len;
    page->jobs++;
}

// One refused key, such as a name in the registry without rights, must not stop the other lists. Read one list at a time and
// skip the refused key.
static outcome_t lists_skip_refused(private_lists_t *lists, redis_error_t *error) {
    if (error->outcome != OUTCOME_REFUSED) return error->outcome;
    if (lists->asked == 1) {
        char *reason = mem_printf("%s: %s", lists->names[lists->next].key, error->text);
        log_error(ROLE, lists->queue->name, "cannot read a private list", F_STR("reason", reason));
        free(reason);
        lists->next++;
    }
    lists->one_by_one = true;
    return redis_error_set(error, OUTCOME_OK, "%s", "");
}

static outcome_t lists_read_tails(conn_t *conn, private_lists_t *lists, backup_page_t *page, redis_error_t *error) {
    redisReply *reply;
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return lists_skip_refused(lists, error);
    page->replies[page->reply_count++] = reply;
    int64_t read = reply_int(reply_at(reply, 0));
    if (read < 1 || read > (int64_t)lists->asked)
        return redis_error_set(error, OUTCOME_REFUSED, "private_tails: unexpected reply");
    for (size_t at = 1; at + 3 < reply->elements; at += 4) lists_add_tail(lists, reply, at, page);
    page->vacant = (size_t)read - page->count;
    lists->next += (size_t)read;
    return OUTCOME_OK;
}

static outcome_t lists_read_step(conn_t *conn, private_lists_t *lists, redis_error_t *error) {
    redisReply *reply;
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    bool paged = lists->walk == WALK_LIST;
    const redisReply *names = paged ? reply : reply_at(reply, 1);
    size_t found = names && names->type == REDIS_REPLY_ARRAY ? names->elements : 0;
    size_t apart = lists->walk == WALK_HASH ? 2 : 1; // skip the values of a hash
    for (size_t i = 0; i < found; i += apart) lists_add(lists, lists->keys, names->element[i]);
    if (paged)
        snprintf(lists->cursor, sizeof lists->cursor, "%lld", strtoll(lists->cursor, NULL, 10) + PRIVATE_WALK);
    else
        snprintf(lists->cursor, sizeof lists->cursor, "%s", reply_text(reply_at(reply, 0)));
    lists->walked = paged ? found < PRIVATE_WALK : strcmp(lists->cursor, "0") == 0;
    freeReplyObject(reply);
    return OUTCOME_OK;
}

outcome_t private_page_read(const call_t *call, void *self, size_t skip, size_t count, backup_page_t *page) {
    private_lists_t *lists = self;
    conn_t *conn = call->conn;
    redis_error_t *error = call->error;
    redis_error_t of_step = {0};
    (void)skip;
    (void)count;
    *error = (redis_error_t){0};
    if (lists->asked && lists_read_tails(conn, lists, page, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
    if (lists->stepped && lists_read_step(conn, lists, &of_step) != OUTCOME_OK && of_step.outcome > error->outcome)
        *error = of_step;
    lists->cut = !lists->walked && lists->count >= PRIVATE_MOST;
    page->ended = lists->next == lists->count && (lists->walked || lists->cut);
    return error->outcome;
}
