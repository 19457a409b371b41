#include "http/api/routes.h"

#include "http/api/answers/answers.h"
#include "http/api/filters.h"
#include "http/api/openapi.h"
#include "http/api/questions/questions.h"
#include "operate/jobs/jobs.h"

// clang-format off
static const param_t failures_params[] = {
    FAILURE_FILTERS,
    {"limit", PARAM_NUMBER, 1, 1000, NULL, false, "most items of an answer; 50 if it is not given"},
    {"cursor", PARAM_CURSOR, 0, 0, NULL, false, "the member next of an answer to the same filters, for older items"},
};

static const param_t groups_params[] = {
    FAILURE_FILTERS,
    {"by", PARAM_WORD, 0, 0, "reason hour error queue", true, "it must be reason, hour, error or queue"},
    {"limit", PARAM_NUMBER, 1, 10000, NULL, false, "most groups of an answer; 1000 if it is not given"},
    {"cursor", PARAM_CURSOR, 0, 0, NULL, false, "the member next of an answer to the same filters: counts of what is older"},
};

static const param_t history_params[] = {
    {"queue", PARAM_TEXT, 1, 1024, NULL, true, "the name of a queue"},
    {"since", PARAM_TIME, 0, 0, NULL, false, "only slots that began at or after this time"},
};

static const param_t jobs_params[] = {
    {"queue", PARAM_TEXT, 1, 1024, NULL, true, "the name of a queue"},
    {"state", PARAM_WORD, 0, 0, JOBS_STATES, true, "it must be delayed, ready or in-progress"},
    {"text", PARAM_TEXT, 1, 1024, NULL, false, "only with this text in the job id, and in the payload with the right payloads"},
    {"limit", PARAM_NUMBER, 1, 1000, NULL, false, "most items of an answer; 50 if it is not given"},
    {"cursor", PARAM_CURSOR, 0, 0, NULL, false, "the member next of an answer to the same question, for further jobs"},
};

#define PARAMS(table) (table), sizeof(table) / sizeof *(table)

static route_fn openapi_work;

const route_t routes[] = {
    {"GET", "/session", 0, API_MEMORY, NULL, "Session", "Name and rights of the caller", NULL, 0, session_work},
    {"GET", "/status", 0, API_REDIS, NULL, "Status", "Queues and findings, as `status -o json`; without the right look the public part", NULL, 0, status_work},
    {"GET", "/history", 0, API_REDIS, NULL, "History", "Counts of the leaders in a queue, for each minute of the last day", PARAMS(history_params), history_work},
    {"GET", "/jobs", RIGHT_LOOK, API_REDIS, NULL, "Jobs", "Jobs of a queue in one state, as `jobs list -o json`", PARAMS(jobs_params), jobs_work},
    {"GET", "/config", RIGHT_LOOK, API_LOG, NULL, "Config", "Each value in effect and where it came from, without secrets", NULL, 0, config_work},
    {"GET", "/failures", RIGHT_LOOK, API_LOG, NULL, "Failures", "Final failures, newest first, as `audit list -o json`", PARAMS(failures_params), failures_work},
    {"GET", "/failures/groups", RIGHT_LOOK, API_LOG, NULL, "Groups", "Final failures counted by reason, hour, error or queue", PARAMS(groups_params), groups_work},
    {"GET", "/failures/{ref}", RIGHT_LOOK, API_LOG, NULL, "Failure", "One event and the history of its job, as `audit show -o json`", NULL, 0, failure_work},
    {"GET", "/failures/{ref}/payload", RIGHT_PAYLOADS, API_LOG, NULL, "application/octet-stream", "The payload, byte for byte but for hidden values", NULL, 0, payload_work},
    {"POST", "/answers", RIGHT_ACT, API_LOG, "Order", "Plan", "Requeues or discards failures, by a filter only with the right look; a dry run answers 200 with a plan, else 202 and an Answer", NULL, 0, answers_post},
    {"GET", "/answers/{id}", RIGHT_ACT, API_LOG, NULL, "Answer", "Progress of an answer, and the result of each failure", NULL, 0, answers_get},
    {"DELETE", "/answers/{id}", RIGHT_ACT, API_LOG, NULL, "Answer", "Stops an answer after the requests in flight", NULL, 0, answers_delete},
    {"GET", "/openapi.json", 0, API_MEMORY, NULL, "OpenAPI", "This description of the API", NULL, 0, openapi_work},
};
// clang-format on
const size_t route_count = sizeof routes / sizeof *routes;

// Matches a path segment by segment. *argument is set to the segment in the place of {...}.
static bool route_matches(const char *pattern, const char *path, slice_t *argument) {
    *argument = (slice_t){0};
    for (;;) {
        size_t wanted = strcspn(pattern + 1, "/") + 1, given = *path ? strcspn(path + 1, "/") + 1 : 0;
        if (pattern[1] == '{' && given > 1)
            *argument = (slice_t){path + 1, given - 1};
        else if (wanted != given || memcmp(pattern, path, given) != 0)
            return false;
        pattern += wanted;
        path += given;
        if (!*pattern || !*path) return !*pattern && !*path;
    }
}

const route_t *route_find(const char *method, const char *path, char **argument, answer_t *answer) {
    slice_t found;
    buffer_t allowed = {0};
    const route_t *route = NULL;
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (size_t i = 0; i < route_count && !route; i++) {
        if (!route_matches(routes[i].path, path, &found)) continue;
        if (strcmp(routes[i].method, method) == 0) {
            route = &routes[i];
            *argument = found.data ? mem_printf("%.*s", (int)found.len, found.data) : NULL;
        } else if (!strstr(buffer_text(&allowed), routes[i].method)) {
            buffer_printf(&allowed, "%s%s", allowed.len ? ", " : "", routes[i].method);
            if (strcmp(routes[i].method, "GET") == 0) buffer_str(&allowed, ", HEAD");
        }
    }
    if (!route && allowed.len) {
        answer_problem(answer, 405, NULL, "this method is not allowed here: allowed are %s", buffer_text(&allowed));
        answer->allow = mem_str(buffer_text(&allowed));
    } else if (!route) {
        answer_problem(answer, 404, NULL, "nothing is here: " API_ROOT "/openapi.json lists all that is");
    }
    buffer_free(&allowed);
    return route;
}

static bool openapi_work(api_t *api, request_t *request) {
    (void)api;
    openapi_write(routes, route_count, &request->answer.body);
    answer_json(&request->answer, 200);
    return true;
}
