#include "http/api/request.h"

void request_end_work(request_t *request) {
    if (request->work && request->free_work)
        request->free_work(request->work);
    else
        free(request->work);
    request->work = NULL;
}

void request_free(request_t *request) {
    if (!request) return;
    request_end_work(request);
    params_free(&request->params);
    answer_free(&request->answer);
    buffer_free(&request->body);
    free(request->argument);
    free(request->by);
    free(request);
}

const char *request_param(const request_t *request, const char *name) {
    const route_t *route = request->route;
    for (size_t row = 0; row < route->param_count; row++)
        if (strcmp(route->params[row].name, name) == 0) return request->params.values[row];
    return NULL;
}
