#include "http/api/openapi.h"

#include "base/json/json.h"
#include "http/api/schemas.h"
#include "version.h"

static void openapi_text(buffer_t *out, const char *name, const char *text) {
    buffer_printf(out, "\"%s\":", name);
    json_write_string(out, slice_text(text));
}

static void openapi_words(buffer_t *out, const char *words) {
    buffer_str(out, "{\"type\":\"string\",\"enum\":[");
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        buffer_printf(out, "%s\"%.*s\"", at == words ? "" : ",", (int)len, at);
        at += len;
    }
    buffer_str(out, "]}");
}

static void openapi_type(buffer_t *out, const param_t *param) {
    switch (param->type) {
    case PARAM_WORD: openapi_words(out, param->words); break;
    case PARAM_BOOL: buffer_str(out, "{\"type\":\"boolean\"}"); break;
    case PARAM_NUMBER:
        buffer_printf(out, "{\"type\":\"integer\",\"minimum\":%" PRId64 ",\"maximum\":%" PRId64 "}", param->low, param->high);
        break;
    case PARAM_TEXT:
        buffer_printf(out, "{\"type\":\"string\",\"minLength\":%" PRId64 ",\"maxLength\":%" PRId64 "}", param->low, param->high);
        break;
    default: buffer_str(out, "{\"type\":\"string\",\"minLength\":1}");
    }
}

// Of the path and the query.
static void openapi_params(buffer_t *out, const route_t *route) {
    const char *open = strchr(route->path, '{');
    buffer_str(out, ",\"parameters\":[");
    if (open)
        buffer_printf(out, "{\"name\":\"%.*s\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"string\"}}",
                      (int)strcspn(open + 1, "}"), open + 1);
    for (size_t i = 0; i < route->param_count; i++) {
        const param_t *param = &route->params[i];
        buffer_str(out, i || open ? ",\n{" : "{");
        openapi_text(out, "name", param->name);
        buffer_printf(out, ",\"in\":\"query\",\"required\":%s,", param->required ? "true" : "false");
        openapi_text(out, "description", param->help);
        buffer_str(out, ",\"schema\":");
        openapi_type(out, param);
        buffer_str(out, "}");
    }
    buffer_str(out, "]");
}

static void openapi_content(buffer_t *out, const char *schema) {
    if (strchr(schema, '/'))
        buffer_printf(out, "\"content\":{\"%s\":{}}", schema);
    else
        buffer_printf(out, "\"content\":{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}}", schema);
}

// Whether the route may answer with this problem. Each of them has a line in docs/http.md.
static bool openapi_has_problem(const route_t *route, unsigned status) {
    bool of_ref = strstr(route->path, "{ref}") != NULL;
    switch (status) {
    case 403: return route->right || strcmp(route->method, "GET") != 0;
    case 404: return strchr(route->path, '{') || route->takes;
    case 409: return of_ref || route->takes;
    case 410: return of_ref && route->right == RIGHT_PAYLOADS;
    case 413:
    case 415: return route->takes != NULL;
    case 429:
    case 503: return route->lane != API_MEMORY;
    default: return true;
    }
}

static void openapi_problems(buffer_t *out, const route_t *route) {
    static const unsigned statuses[] = {400, 401, 403, 404, 409, 410, 413, 414, 415, 421, 429, 431, 503};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        if (!openapi_has_problem(route, statuses[i])) continue;
        bool later = statuses[i] == 429 || statuses[i] == 503, head = statuses[i] == 414 || statuses[i] == 431;
        buffer_printf(out, ",\"%u\":{\"$ref\":\"#/components/responses/%s\"}", statuses[i],
                      later  ? "Later"
                      : head ? "Head"
                             : "Problem");
    }
}

static void openapi_answers(buffer_t *out, const route_t *route) {
    if (route->takes) {
        buffer_str(out, ",\"requestBody\":{\"required\":true,");
        openapi_content(out, route->takes);
        buffer_str(out, "}");
    }
    buffer_str(out, ",\"responses\":{\"200\":{\"description\":\"The answer\",");
    openapi_content(out, route->answers);
    buffer_str(out, "}");
    if (strcmp(route->method, "DELETE") == 0) {
        buffer_str(out, ",\"202\":{\"description\":\"Another instance will stop it\",");
        openapi_content(out, "Answer");
        buffer_str(out, "}");
    }
    if (route->takes) {
        buffer_str(out, ",\"202\":{\"description\":\"It has begun\",\"headers\":{\"Location\":{\"required\":true,"
                        "\"schema\":{\"type\":\"string\"}}},");
        openapi_content(out, "Answer");
        buffer_str(out, "}");
    }
    openapi_problems(out, route);
    buffer_str(out, "}");
}

static void openapi_route(buffer_t *out, const route_t *route) {
    buffer_str(out, strcmp(route->method, "GET") == 0    ? "\"get\":{"
                    : strcmp(route->method, "POST") == 0 ? "\"post\":{"
                                                         : "\"delete\":{");
    openapi_text(out, "summary", route->summary);
    if (route->right) {
        unsigned bit = 0;
        while (!(route->right & 1u << bit)) bit++;
        buffer_printf(out, ",\"description\":\"Needs the right %s.\",\"security\":[{\"token\":[]}]", right_words[bit]);
    } else {
        buffer_str(out, ",\"security\":[{},{\"token\":[]}]");
    }
    openapi_params(out, route);
    openapi_answers(out, route);
    buffer_str(out, "}");
}

// Routes of one path stand together in the table.
static void openapi_paths(const route_t *routes, size_t count, buffer_t *out) {
    for (size_t i = 0; i < count; i++) {
        bool same = i && strcmp(routes[i].path, routes[i - 1].path) == 0;
        if (same)
            buffer_str(out, ",\n ");
        else
            buffer_printf(out, "%s\n\"%s\":{", i ? "}," : "", routes[i].path);
        openapi_route(out, &routes[i]);
    }
    buffer_str(out, "}");
}

void openapi_write(const route_t *routes, size_t count, buffer_t *out) {
    buffer_str(out, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"queue-sidecar\",");
    openapi_text(out, "version", QS_VERSION);
    buffer_str(out, "},\"servers\":[{\"url\":\"" API_ROOT "\"}],\"paths\":{");
    openapi_paths(routes, count, out);
    static const char problem[] =
        "\"content\":{\"application/problem+json\":{\"schema\":{\"$ref\":\"#/components/schemas/Problem\"}}}}";
    buffer_str(out,
               "},\n\"components\":{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}},\"responses\":{");
    buffer_str(out, "\"Head\":{\"description\":\"The address or the headers are too long\"},");
    buffer_printf(out, "\"Problem\":{\"description\":\"A problem\",%s,", problem);
    buffer_printf(out,
                  "\"Later\":{\"description\":\"Try again "
                  "later\",\"headers\":{\"Retry-After\":{\"required\":true,\"schema\":{\"type\":\"integer\"}}},%s},\"schemas\":{",
                  problem);
    openapi_schemas(out);
    buffer_str(out, "}}}\n");
}
