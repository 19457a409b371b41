// Lists of failures.
#include "http/api/questions/questions.h"
#include "http/api/questions/search.h"

enum { LIMIT = 50 };

typedef struct failures {
    search_job_t search;
    int64_t limit;
    buffer_t items; // owned
    const api_t *api;
    const request_t *request;
} failures_t;

static void failures_free(void *self) {
    failures_t *list = self;
    buffer_free(&list->items);
    free(list);
}

static bool failures_take(void *self, const audit_row_t *row) {
    failures_t *list = self;
    if (list->items.len) buffer_str(&list->items, ",\n ");
    search_write_event(list->api, list->request, row, HEAD_BYTES, &list->items);
    return list->items.len < LIST_BYTES_MAX;
}

static bool failures_begin(const api_t *api, request_t *request) {
    failures_t *list = request->work = mem_alloc(sizeof *list);
    const char *limit = request_param(request, "limit");
    request->free_work = failures_free;
    list->api = api;
    list->request = request;
    list->limit = limit ? atoll(limit) : LIMIT;
    return search_begin(request, &list->search);
}

bool failures_work(api_t *api, request_t *request) {
    if (!request->work && !failures_begin(api, request)) return true;
    failures_t *list = request->work;
    buffer_t *out = &request->answer.body;
    search_step_t step = search_slice(api, request, &list->search, list->limit, failures_take, list);
    if (step == SEARCH_AGAIN || step == SEARCH_FAILED) return step == SEARCH_FAILED;
    buffer_printf(out, "{\"items\":[%s],", buffer_text(&list->items));
    search_write_end(api, &list->search, step, out);
    answer_json(&request->answer, 200);
    return true;
}
