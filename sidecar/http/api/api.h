// The api role: it answers requests that need the audit log or Redis, in turns and in slices of API_SLICE_MS, which the row or
// the reply under way exceeds. Other requests never wait for it.
#pragma once

#include "config/config.h"
#include "http/api/log.h"
#include "http/api/request.h"
#include "http/api/servers.h"
#include "http/health.h"
#include "model/metrics.h"
#include "role/role.h"

enum { API_SLICE_MS = 40, API_SLICE_US = 1000 * API_SLICE_MS, API_SEARCH_MS = 1000, API_WAITING_MAX = 32 };

// Returns owned; shares `config`, borrows the rest.
api_t *api_new(config_t *config, metrics_t *metrics);
void api_free(api_t *api); // NULL is fine; neither role may be running
// From now on requests are answered by this config; shares it.
void api_use_config(api_t *api, config_t *config);

// The role.
void api_tick(void *api, role_wait_t *wait);
void api_finish(void *api);
// Sets the eventfds of both roles, and what stops a wait for Redis; borrowed.
void api_connect(api_t *api, int api_wake_fd, int http_wake_fd, const atomic_bool *stop);

// ---- Of the http thread.

// Takes the request, which api_next_done returns. False: too many are waiting.
bool api_submit(api_t *api, request_t *request);
request_t *api_next_done(api_t *api); // owned; NULL = none
// Nobody waits for the answer any more.
void api_abandon(api_t *api, request_t *request);

// ---- Of the handlers.

// Constants of the process; for both threads.
typedef struct api_identity {
    char *group;          // owned
    const char *instance; // static
    bool tokens;          // a token file is configured
} api_identity_t;
const api_identity_t *api_identity(const api_t *api);
config_t *api_config(const api_t *api);
const atomic_bool *api_stop(const api_t *api);
// Whether a search has used its time.
bool api_is_late(const request_t *request);
// The audit log, open for reading. NULL: the problem is the answer.
audit_t *api_log(api_t *api, answer_t *answer);
// Appends the member "log" of a list: what this log may lack.
void api_write_log(api_t *api, buffer_t *out);
// Finds the server of a queue, connected. `queue` is that of a parameter. False: the problem is the answer.
bool api_server(api_t *api, const char *queue, api_server_t *out, answer_t *answer);
// The primaries of the config, with connections that stay open for a while.
queue_shards_t *api_shards(api_t *api);
// Kept by a handler for all its requests, one thing for each role; NULL = nothing yet.
void **api_kept(api_t *api);
void api_keep(api_t *api, void *thing, void (*free_thing)(void *)); // takes it
