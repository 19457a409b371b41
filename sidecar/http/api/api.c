#include "http/api/api.h"

#include <poll.h>

#include "base/host.h"
#include "base/wakeup.h"
#include "http/api/request.h"

typedef struct request_list {
    request_t *first, *last; // `last` is valid while there is a first one
} request_list_t;

// One request at a time is worked on, by the thread of the role alone.
struct api {
    api_identity_t identity;
    config_t *config; // shared
    metrics_t *metrics;
    const atomic_bool *stop;
    int wake_fd, http_wake_fd;

    pthread_mutex_t mutex; // guards the fields up to `size`
    config_t *next_config; // shared; NULL = no change
    request_list_t inbox, done;
    size_t size; // requests that were submitted and are not done

    request_list_t turns; // the first one is next
    api_log_t log;
    api_redis_t redis;
    void *kept; // of a handler; owned
    void (*free_kept)(void *);
};

static void list_push(request_list_t *list, request_t *request) {
    request->next = NULL;
    *(list->first ? &list->last->next : &list->first) = request;
    list->last = request;
}

static request_t *list_pop(request_list_t *list) {
    request_t *request = list->first;
    if (request) list->first = request->next;
    return request;
}

static void list_free(request_list_t *list) {
    for (request_t *request; (request = list_pop(list)) != NULL;) request_free(request);
}

api_t *api_new(config_t *config, metrics_t *metrics) {
    api_t *api = mem_alloc(sizeof *api);
    *api = (api_t){.config = config_share(config), .metrics = metrics, .wake_fd = -1, .http_wake_fd = -1};
    api->identity = (api_identity_t){mem_str(config->group), instance_name(), *config->http.token_file != '\0'};
    pthread_mutex_init(&api->mutex, NULL);
    return api;
}

void api_connect(api_t *api, int api_wake_fd, int http_wake_fd, const atomic_bool *stop) {
    api->wake_fd = api_wake_fd;
    api->http_wake_fd = http_wake_fd;
    api->stop = stop;
}

void api_use_config(api_t *api, config_t *config) {
    pthread_mutex_lock(&api->mutex);
    config_free(api->next_config);
    api->next_config = config_share(config);
    pthread_mutex_unlock(&api->mutex);
    wakeup_raise(api->wake_fd);
}

// ---- Between the threads.

bool api_submit(api_t *api, request_t *request) {
    pthread_mutex_lock(&api->mutex);
    bool taken = api->size < API_WAITING_MAX;
    if (taken) {
        list_push(&api->inbox, request);
        api->size++;
    }
    pthread_mutex_unlock(&api->mutex);
    if (taken) wakeup_raise(api->wake_fd);
    return taken;
}

request_t *api_next_done(api_t *api) {
    pthread_mutex_lock(&api->mutex);
    request_t *request;
    while ((request = list_pop(&api->done)) != NULL && atomic_load(&request->abandoned)) request_free(request);
    pthread_mutex_unlock(&api->mutex);
    return request;
}

void api_abandon(api_t *api, request_t *request) {
    pthread_mutex_lock(&api->mutex);
    request->exchange = NULL;
    atomic_store(&request->abandoned, true);
    pthread_mutex_unlock(&api->mutex);
}

// Gives an answered request back. What the handler has for it may use what the role keeps, so it ends in this thread.
static void api_complete(api_t *api, request_t *request) {
    request_end_work(request);
    pthread_mutex_lock(&api->mutex);
    api->size--;
    if (atomic_load(&request->abandoned))
        request_free(request);
    else
        list_push(&api->done, request);
    pthread_mutex_unlock(&api->mutex);
    wakeup_raise(api->http_wake_fd);
}

static void api_adopt(api_t *api, config_t *config) {
    log_close(&api->log);
    api_redis_close(&api->redis);
    config_free(api->config);
    api->config = config;
}

static void api_take_messages(api_t *api) {
    pthread_mutex_lock(&api->mutex);
    request_list_t inbox = api->inbox;
    config_t *config = api->next_config; // no handler keeps anything of a config between slices
    api->inbox = (request_list_t){0};
    api->next_config = NULL;
    pthread_mutex_unlock(&api->mutex);
    if (config) api_adopt(api, config);
    for (request_t *request; (request = list_pop(&inbox)) != NULL;) list_push(&api->turns, request);
}

void api_finish(void *self) {
    api_t *api = self;
    api_take_messages(api);
    for (request_t *request; (request = list_pop(&api->turns)) != NULL;) {
        answer_problem(&request->answer, 503, NULL, "the sidecar is stopping");
        api_complete(api, request);
    }
    log_close(&api->log);
    api_redis_close(&api->redis);
    if (api->kept) api->free_kept(api->kept);
    api->kept = NULL;
}

void api_free(api_t *api) {
    if (!api) return;
    api_finish(api);
    list_free(&api->done);
    config_free(api->config);
    free(api->identity.group);
    pthread_mutex_destroy(&api->mutex);
    free(api);
}

// ---- Slices.

// A client that has closed its side, or whose connection the http role has shut down, waits for no answer.
static bool api_is_gone(const request_t *request) {
    struct pollfd client = {.fd = request->fd, .events = POLLRDHUP};
    return atomic_load(&request->abandoned) || (poll(&client, 1, 0) == 1 && client.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

bool api_is_late(const request_t *request) {
    return mono_reached(mono_add(request->began_at, API_SEARCH_MS * NS_PER_MS), mono_now());
}

static void api_work(api_t *api, request_t *request) {
    if (!request->began_at.ns) request->began_at = mono_now();
    const route_t *route = request->route;
    if (!route->work(api, request)) {
        list_push(&api->turns, request);
        return;
    }
    assert(request->answer.status || request->route != route);
    api_complete(api, request);
}

// Takes the first request whose slice is due. NULL: none is; *next is when one will be.
static request_t *api_next_turn(api_t *api, mono_t *next) {
    request_list_t later = {0};
    request_t *request;
    mono_t now = mono_now();
    while ((request = list_pop(&api->turns)) != NULL && !mono_reached(request->due, now) && !api_is_gone(request)) {
        *next = mono_min(*next, request->due);
        list_push(&later, request);
    }
    for (request_t *rest; (rest = list_pop(&api->turns)) != NULL;) list_push(&later, rest);
    api->turns = later;
    return request;
}

void api_tick(void *self, role_wait_t *wait) {
    api_t *api = self;
    api_take_messages(api);
    wait->until = mono_min(log_rest(&api->log), api_redis_rest(&api->redis));
    request_t *request = api_next_turn(api, &wait->until);
    if (request && api_is_gone(request)) {
        answer_problem(&request->answer, 503, NULL, "the client has gone");
        api_complete(api, request);
    } else if (request) {
        api_work(api, request);
    }
    if (request) wait->until = mono_now(); // perhaps for another one
}

// ---- What handlers ask.

const api_identity_t *api_identity(const api_t *api) { return &api->identity; }
config_t *api_config(const api_t *api) { return api->config; }
const atomic_bool *api_stop(const api_t *api) { return api->stop; }
audit_t *api_log(api_t *api, answer_t *answer) { return log_open(&api->log, api->config->audit.path, answer); }
void api_write_log(api_t *api, buffer_t *out) { log_write_facts(&api->log, api->metrics, out); }

queue_shards_t *api_shards(api_t *api) {
    if (!api->redis.shards) {
        api->redis.shards = shards_new(api->config, "queue-sidecar-api", api->stop);
        api->redis.opened++;
    }
    api->redis.used_at = mono_now();
    return api->redis.shards;
}

bool api_server(api_t *api, const char *queue, api_server_t *out, answer_t *answer) {
    api_shards(api);
    return api_redis_find(&api->redis, api->config, queue, out, answer);
}

void **api_kept(api_t *api) { return &api->kept; }

void api_keep(api_t *api, void *thing, void (*free_thing)(void *)) {
    assert(!api->kept);
    api->kept = thing;
    api->free_kept = free_thing;
}
