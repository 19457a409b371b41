#include "http/api/answer.h"

#include "base/json/json.h"

enum { RETRY_SOON_S = 1, RETRY_LATER_S = 5 };

static const struct {
    unsigned status;
    const char *title;
} titles[] = {
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {421, "Misdirected Request"},
    {429, "Too Many Requests"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
};

void answer_free(answer_t *answer) {
    buffer_free(&answer->body);
    free(answer->location);
    free(answer->disposition);
    free(answer->allow);
    *answer = (answer_t){0};
}

void answer_json(answer_t *answer, unsigned status) {
    answer->status = status;
    answer->type = "application/json";
}

void answer_problem(answer_t *answer, unsigned status, const char *nearest, const char *format, ...) {
    const char *title = "";
    buffer_t detail = {0};
    va_list values;
    va_start(values, format);
    buffer_vprintf(&detail, format, values);
    va_end(values);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status) title = titles[i].title;
    answer_free(answer);
    answer->status = status;
    answer->type = "application/problem+json";
    if (status == 429) answer->retry_after = RETRY_SOON_S;
    if (status == 503) answer->retry_after = RETRY_LATER_S;
    buffer_printf(&answer->body, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,\"detail\":", title, status);
    json_write_string(&answer->body, (slice_t){buffer_text(&detail), detail.len});
    if (nearest) {
        buffer_str(&answer->body, ",\"nearest\":");
        json_write_string(&answer->body, slice_text(nearest));
    }
    buffer_str(&answer->body, "}\n");
    buffer_free(&detail);
}

void answer_problem_member(answer_t *answer, const char *name, const char *json) {
    answer->body.len -= strlen("}\n");
    buffer_printf(&answer->body, ",\"%s\":%s}\n", name, json);
}
