// A request of the API, as one thread hands it to the other, and its route. Only the thread that holds it may use it.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "http/api/params.h"
#include "http/api/tokens.h"

typedef struct api api_t;
typedef struct route route_t;

// The thread that works on a request: one of two roles, so that a Redis that hangs delays no question to the log, or http.
typedef enum api_lane { API_LOG, API_REDIS, API_LANES, API_MEMORY = API_LANES } api_lane_t;

enum { REQUEST_BODY_MAX = 64 * 1024 };

typedef struct request {
    const route_t *route;
    char *argument; // what stands in the place of {ref} or {id}; owned; NULL = the path has none
    params_t params;
    buffer_t body;   // of a write; owned
    bool signed_in;  // with a token
    unsigned rights; // RIGHT_* bits
    char *by;        // the name of the token, or of the person whom a proxy names; owned; "" = nobody
    answer_t answer;

    int fd;                // of the client's connection
    atomic_bool abandoned; // the http role has ended: nobody waits for the answer
    void *exchange;        // of the http thread

    mono_t began_at;           // of the first slice; 0 = none yet
    mono_t due;                // when the next slice may begin; 0 = at once
    void *work;                // of the handler, between two slices; owned
    void (*free_work)(void *); // NULL = free()
    struct request *next;
} request_t;

static inline bool request_may(const request_t *request, unsigned right) { return (request->rights & right) == right; }
void request_free(request_t *request); // NULL is fine
void request_end_work(request_t *request);
// The value of a parameter; NULL = not given, or the route has none of that name.
const char *request_param(const request_t *request, const char *name);

// ---- Routes.

#define API_ROOT "/api/v1"

// Works on a request for one slice. False: it needs another slice. A handler of one role passes a request on to another by a
// route of that one, without an answer.
typedef bool route_fn(api_t *api, request_t *request);

struct route {
    const char *method;
    const char *path; // below API_ROOT; "{ref}" stands for one segment
    unsigned right;   // RIGHT_*; 0 = the answer has a part for everybody
    api_lane_t lane;
    const char *takes;   // a schema of openapi.json: the body; NULL = none
    const char *answers; // a schema, or a content type
    const char *summary;
    const param_t *params;
    size_t param_count;
    route_fn *work;
};
