#include "http/api/answers/share.h"

#include "base/json/json.h"
#include "base/log.h"
#include "redis/reply.h"

enum {
    KEPT_MS = 3600000, // from the last report on
    EVERY_MS = 1000,
    LOST_MS = 15000, // without a report
    PAUSE = 4,       // times what the last report took, so that a Redis that hangs takes little time from the answer
};

static const char ROLE[] = "api";

// Both are in one slot of a Cluster.
typedef struct share_keys {
    char *state; // string: the answer as JSON, of a TTL that each report renews; owned
    char *stop;  // string: exists if the answer is to stop; owned
} share_keys_t;

struct share {
    const char *id;
    share_keys_t keys;
    queue_shards_t *shards; // owned
    mono_t due;             // when to report next
    buffer_t written;       // what Redis has; empty = nothing; owned
    bool refused;           // once, and the log has it
};

static share_keys_t share_keys(const config_t *config, const char *id) {
    char *state = keyspace_answer_of(config->group, id);
    return (share_keys_t){state, mem_printf("%s:stop", state)};
}

static void share_keys_free(share_keys_t *keys) {
    free(keys->state);
    free(keys->stop);
}

// ---- Of the thread that carries the answer out.

share_t *share_new(const config_t *config, const char *id, const atomic_bool *quit) {
    share_t *share = mem_alloc(sizeof *share);
    *share = (share_t){.id = id, .keys = share_keys(config, id), .shards = shards_new(config, "queue-sidecar-answer", quit)};
    return share;
}

void share_free(share_t *share) {
    if (!share) return;
    share_keys_free(&share->keys);
    shards_free(share->shards);
    buffer_free(&share->written);
    free(share);
}

bool share_is_due(const share_t *share) { return mono_reached(share->due, mono_now()); }

static void share_append_set(conn_t *conn, const char *key, slice_t value) {
    request_begin(conn, "SET", key);
    request_bytes(conn, value.data, value.len);
    request_text(conn, "PX");
    request_int(conn, KEPT_MS);
    request_end(conn);
}

static bool share_send(share_t *share, conn_t *conn, slice_t state, redis_error_t *error) {
    bool same = slice_equal(state, (slice_t){buffer_text(&share->written), share->written.len});
    if (same) {
        request_begin(conn, "PEXPIRE", share->keys.state);
        request_int(conn, KEPT_MS);
        request_end(conn);
    } else {
        share_append_set(conn, share->keys.state, state);
    }
    request_append(conn, "EXISTS", share->keys.stop);
    redisReply *reply = conn_read_next(conn, share->keys.state, error);
    bool written = reply && (!same || reply_int(reply) == 1); // somebody may have removed the key
    conn_reply_free(reply);
    if (!same || !written) buffer_clear(&share->written);
    if (!same && written) buffer_add(&share->written, state.data, state.len);
    return conn_read_int(conn, share->keys.stop, error) > 0;
}

bool share_write(share_t *share, slice_t state) {
    redis_error_t error;
    conn_t *conn;
    mono_t begin = mono_now();
    bool stop = shards_connect(share->shards, keyspace_slot(share->keys.state), &conn, &error) == OUTCOME_OK &&
                share_send(share, conn, state, &error);
    share->due = mono_add(mono_now(), EVERY_MS * NS_PER_MS + PAUSE * mono_diff(mono_now(), begin));
    if (error.outcome != OUTCOME_OK && !share->refused)
        log_warn(ROLE, NULL, "other instances do not know this answer", F_STR("answer", share->id), F_STR("reason", error.text));
    share->refused |= error.outcome != OUTCOME_OK;
    return stop;
}

// ---- Of the other instances.

// Replaces the state "running" with "lost". Appends nothing if this is no answer.
static void share_tell(slice_t state, int64_t age_ms, buffer_t *out, bool *running) {
    json_pick_t picks[] = {{.pointer = "/state"}, {.pointer = "/error"}};
    if (!json_pick(state, picks, 2) || picks[0].found != JSON_FOUND || picks[1].found != JSON_FOUND) return;
    *running = slice_is(picks[0].value.raw, "running");
    if (!*running || age_ms <= LOST_MS) {
        buffer_add(out, state.data, state.len);
        return;
    }
    char *why =
        mem_printf("\"the instance that carries it out has not reported for %" PRId64
                   " s: it has ended, or cannot reach Redis. Start it again: without `again` it leaves out what is done\"",
                   age_ms / 1000);
    json_splice(state, (json_cut_t[]){{picks[0].value.raw, slice_text("lost")}, {picks[1].value.raw, slice_text(why)}}, 2, out);
    free(why);
    *running = false;
}

// Answers with what Redis has of it. Returns whether it runs.
static bool share_read(conn_t *conn, const share_keys_t *keys, answer_t *answer, redis_error_t *error) {
    bool running = false;
    request_append(conn, "GET", keys->state);
    request_append(conn, "PTTL", keys->state);
    redisReply *state = conn_read_next(conn, keys->state, error);
    int64_t left_ms = conn_read_int(conn, keys->state, error);
    if (error->outcome == OUTCOME_OK && reply_is_text(state)) {
        share_tell(reply_slice(state), KEPT_MS - left_ms, &answer->body, &running);
        if (!answer->body.len) redis_error_set(error, OUTCOME_REFUSED, "%s holds no answer", keys->state);
    }
    conn_reply_free(state);
    return running;
}

static void share_stop(conn_t *conn, const share_keys_t *keys, redis_error_t *error) {
    share_append_set(conn, keys->stop, slice_text("1"));
    conn_reply_free(conn_read_next(conn, keys->stop, error));
}

static bool share_is_id(const char *id) {
    return strlen(id) == ANSWER_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == ANSWER_ID_SIZE - 1;
}

static void share_answer(api_t *api, request_t *request, const share_keys_t *keys, bool stop) {
    redis_error_t error;
    conn_t *conn;
    answer_t *answer = &request->answer;
    if (shards_connect(api_shards(api), keyspace_slot(keys->state), &conn, &error) == OUTCOME_OK) {
        stop = share_read(conn, keys, answer, &error) && stop;
        if (stop) share_stop(conn, keys, &error);
    }
    if (error.outcome != OUTCOME_OK)
        api_redis_failed(&error, answer);
    else if (answer->body.len)
        answer_json(answer, stop ? 202 : 200);
    else
        answer_problem(answer, 404, NULL,
                       "no answer has this id: an hour after its end only the instance that began it knows it");
}

static bool share_work(api_t *api, request_t *request, bool stop) {
    share_keys_t keys = share_keys(api_config(api), request->argument);
    share_answer(api, request, &keys, stop);
    share_keys_free(&keys);
    return true;
}

static bool share_get(api_t *api, request_t *request) { return share_work(api, request, false); }
static bool share_delete(api_t *api, request_t *request) { return share_work(api, request, true); }

bool share_ask(request_t *request) {
    static const route_t get = {.method = "GET", .lane = API_REDIS, .work = share_get};
    static const route_t delete = {.method = "DELETE", .lane = API_REDIS, .work = share_delete};
    if (share_is_id(request->argument))
        request->route = strcmp(request->route->method, "DELETE") == 0 ? &delete : &get;
    else
        answer_problem(&request->answer, 404, NULL, "no answer has this id: it has 16 hexadecimal digits");
    return true;
}
