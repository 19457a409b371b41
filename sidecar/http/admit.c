#include "http/admit.h"

#include <arpa/inet.h>
#include <strings.h>

#include "base/log.h"
#include "base/utf8.h"
#include "http/api/guard.h"
#include "http/api/routes.h"
#include "page/page.h"

enum { USER_MAX = 128 };

static const char *admit_header(struct MHD_Connection *connection, const char *name) {
    return mhd_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

// ---- The form of a request.

// Of a header that is sent twice a proxy may have checked the other one.
typedef struct admit_once {
    const char *user_header;
    const char *seen[8];
    size_t count;
    const char *twice; // NULL = none
} admit_once_t;

static enum MHD_Result admit_see(void *self, enum MHD_ValueKind kind, const char *name, const char *value) {
    static const char *const once[] = {MHD_HTTP_HEADER_HOST,
                                       MHD_HTTP_HEADER_AUTHORIZATION,
                                       MHD_HTTP_HEADER_CONTENT_TYPE,
                                       MHD_HTTP_HEADER_CONTENT_LENGTH,
                                       MHD_HTTP_HEADER_ORIGIN,
                                       MHD_HTTP_HEADER_TRANSFER_ENCODING,
                                       "Sec-Fetch-Site"};
    admit_once_t *all = self;
    bool counts = strcasecmp(name, all->user_header) == 0;
    (void)kind, (void)value;
    for (size_t i = 0; i < sizeof once / sizeof *once; i++) counts = counts || strcasecmp(name, once[i]) == 0;
    for (size_t i = 0; counts && i < all->count; i++)
        if (strcasecmp(name, all->seen[i]) == 0) all->twice = all->seen[i];
    if (counts && !all->twice) all->seen[all->count++] = name;
    return MHD_YES;
}

bool admit_has_body(struct MHD_Connection *connection) {
    const char *length = admit_header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (length && strcmp(length, "0") != 0) || admit_header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

// False: *answer is the problem. Two servers in a row must not see two different requests in the same bytes.
static bool admit_form(const site_t *site, struct MHD_Connection *connection, answer_t *answer) {
    const char *encoding = admit_header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    admit_once_t all = {.user_header = site->user_header};
    mhd_get_connection_values(connection, MHD_HEADER_KIND, admit_see, &all);
    if (all.twice)
        answer_problem(answer, 400, NULL, "the header %s is sent twice", all.twice);
    else if (encoding && strcasecmp(encoding, "chunked") != 0)
        answer_problem(answer, 400, NULL, "bad Transfer-Encoding: only chunked is allowed");
    else if (encoding && admit_header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH))
        answer_problem(answer, 400, NULL, "Content-Length and Transfer-Encoding must not be sent together");
    else
        return true;
    return false;
}

static size_t admit_count(slice_t text, char byte) {
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++) count += text.data[i] == byte;
    return count;
}

// Splits "path?query"; the path is decoded, and a / must not be encoded: proxies do not see it. False: *answer is the problem.
static bool admit_split(const char *uri, buffer_t *path, const char **query, answer_t *answer) {
    size_t len = strcspn(uri, "?");
    *query = uri[len] ? uri + len + 1 : NULL;
    slice_t raw = {uri, len};
    bool good = !memchr(uri, '+', len) && url_decode(raw, path) && !memchr(buffer_text(path), '\0', path->len) &&
                admit_count((slice_t){buffer_text(path), path->len}, '/') == admit_count(raw, '/');
    if (!good) answer_problem(answer, 404, NULL, "nothing is here: the path is malformed");
    return good;
}

// ---- Who sends it.

static void admit_note_refused(site_t *site, struct MHD_Connection *connection) {
    char text[INET6_ADDRSTRLEN] = "";
    const union MHD_ConnectionInfo *info = mhd_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *client = info ? info->client_addr : NULL;
    if (client && client->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)client)->sin_addr, text, sizeof text);
    if (client && client->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)client)->sin6_addr, text, sizeof text);
    tokens_note_refused(site->tokens, mono_now());
    metric_add(&site->metrics->tokens_refused, 1);
    log_warn("http", NULL, "refused a token", F_STR("client", text));
}

// The person whom a proxy names. False: *answer is the problem.
static bool admit_user(const site_t *site, struct MHD_Connection *connection, request_t *request) {
    const char *user = *site->user_header ? admit_header(connection, site->user_header) : NULL;
    if (!request_may(request, RIGHT_PROXY) || !user || !*user) return true;
    size_t len = strlen(user);
    bool good = len <= USER_MAX && utf8_is_valid(user, len);
    for (size_t i = 0; i < len; i++) good = good && (unsigned char)user[i] >= ' ' && user[i] != 0x7f;
    if (!good) {
        answer_problem(&request->answer, 400, NULL, "the header %s must be UTF-8 of at most 128 bytes", site->user_header);
        return false;
    }
    free(request->by);
    request->by = mem_str(user);
    return true;
}

// False: *answer is the problem.
static bool admit_token(site_t *site, struct MHD_Connection *connection, request_t *request, mono_t *held_until) {
    static const char scheme[] = "Bearer ";
    const char *sent = admit_header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    request->by = mem_str("");
    if (!sent) return true;
    int64_t delay_ns = tokens_delay(site->tokens, mono_now());
    if (delay_ns) *held_until = mono_add(mono_now(), delay_ns);
    const token_t *token = NULL;
    if (strncasecmp(sent, scheme, strlen(scheme)) == 0) token = tokens_find(site->tokens, slice_text(sent + strlen(scheme)));
    if (token) {
        free(request->by);
        request->by = mem_str(token->name);
        request->rights = token->rights;
        request->signed_in = true;
        return admit_user(site, connection, request);
    }
    admit_note_refused(site, connection);
    answer_problem(&request->answer, 401, NULL, "this token is not valid: send a token of http.token_file as `Bearer TOKEN`");
    return false;
}

static bool admit_right(const site_t *site, request_t *request) {
    unsigned right = request->route->right;
    const char *word = "";
    if (request_may(request, right)) return true;
    for (size_t i = 0; i < RIGHTS; i++)
        if (right & 1u << i) word = right_words[i];
    if (request->signed_in)
        answer_problem(&request->answer, 403, NULL, "this needs the right %s, which the token of %s lacks", word, request->by);
    else if (tokens_configured(site->tokens))
        answer_problem(&request->answer, 401, NULL, "this needs a token with the right %s: send it as `Bearer TOKEN`", word);
    else
        answer_problem(&request->answer, 401, NULL, "this needs a token with the right %s: set http.token_file", word);
    return false;
}

// False: *answer is the problem.
static bool admit_body(struct MHD_Connection *connection, const guard_headers_t *headers, answer_t *answer) {
    const char *length = admit_header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!guard_body(headers, answer)) return false;
    if (!length || strtoull(length, NULL, 10) <= REQUEST_BODY_MAX) return true;
    answer_problem(answer, 413, NULL, "the body must have at most 64 KiB");
    return false;
}

static void admit_to_api(site_t *site, struct MHD_Connection *connection, const char *method, const char *path, const char *query,
                         request_t *request, mono_t *held_until) {
    const guard_headers_t headers = {.host = admit_header(connection, MHD_HTTP_HEADER_HOST),
                                     .origin = admit_header(connection, MHD_HTTP_HEADER_ORIGIN),
                                     .fetch_site = admit_header(connection, "Sec-Fetch-Site"),
                                     .content_type = admit_header(connection, MHD_HTTP_HEADER_CONTENT_TYPE)};
    answer_t *answer = &request->answer;
    request->route = route_find(method, path, &request->argument, answer);
    if (!request->route) return;
    bool writes = strcmp(request->route->method, "GET") != 0;
    if (!writes && admit_has_body(connection)) answer_problem(answer, 400, NULL, "a request to read must have no body");
    if (answer->status || (writes && !guard_write(&headers, answer))) return;
    if (!admit_token(site, connection, request, held_until) || !admit_right(site, request)) return;
    if (strcmp(request->route->method, "POST") == 0 && !admit_body(connection, &headers, answer)) return;
    params_read(query, request->route->params, request->route->param_count, &request->params, answer);
}

static bool admit_to_page(const site_t *site, const char *path, answer_t *answer) {
    const page_file_t *file = site->page ? page_find(path) : NULL;
    if (!file) return false;
    answer->status = 200;
    answer->type = file->type;
    answer->of_page = true;
    buffer_add(&answer->body, (const char *)file->gzipped, file->size);
    return true;
}

void admit(site_t *site, struct MHD_Connection *connection, const char *method, const char *uri, request_t *request,
           mono_t *held_until) {
    const union MHD_ConnectionInfo *info = mhd_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    buffer_t path = {0};
    const char *query;
    answer_t *answer = &request->answer;
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    request->fd = info ? info->connect_fd : -1;
    if (admit_form(site, connection, answer) && guard_host(admit_header(connection, MHD_HTTP_HEADER_HOST), site->hosts, answer) &&
        admit_split(uri, &path, &query, answer)) {
        bool below = strncmp(buffer_text(&path), API_ROOT "/", strlen(API_ROOT) + 1) == 0;
        if (below)
            admit_to_api(site, connection, method, buffer_text(&path) + strlen(API_ROOT), query, request, held_until);
        else if (!reads) {
            answer_problem(answer, 405, NULL, "only GET and HEAD are allowed here");
            answer->allow = mem_str("GET, HEAD");
        } else if (!admit_to_page(site, buffer_text(&path), answer))
            answer_problem(answer, 404, NULL, "nothing is here: try /healthz, /readyz, /metrics or " API_ROOT "/openapi.json");
    }
    buffer_free(&path);
}
