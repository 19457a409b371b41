#include "http/exchange.h"

#include "http/admit.h"
#include "http/api/request.h"
#include "http/probes.h"

static const char STOPPING[] = "the sidecar is stopping";

typedef enum exchange_state {
    EXCHANGE_NEW,     // the head has arrived
    EXCHANGE_READING, // the body arrives
    EXCHANGE_HELD,    // suspended because of refused tokens, or resumed for another role to work on it
    EXCHANGE_WORKED,  // suspended while the api role has the request
    EXCHANGE_READY,   // the answer is complete
} exchange_state_t;

typedef struct exchange {
    exchange_state_t state;
    char *uri; // as sent; owned
    struct MHD_Connection *connection;
    int fd;
    request_t *request; // owned; NULL = it is a probe, or the api role has it
    request_t *worked;  // the request that the api role has; borrowed
    api_lane_t lane;    // its
    answer_t answer;    // of a probe, or a problem before there is a request
    bool too_large;     // the body
    bool trusted;       // it came with a token that is valid
    mono_t held_until;
    bool suspended;
    struct exchange *next; // of all
} exchange_t;

void *exchange_begin(void *self, const char *uri, struct MHD_Connection *connection) {
    site_t *site = self;
    const union MHD_ConnectionInfo *info = mhd_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    exchange_t *exchange = mem_alloc(sizeof *exchange);
    *exchange =
        (exchange_t){.uri = mem_str(uri), .connection = connection, .fd = info ? info->connect_fd : -1, .next = site->exchanges};
    site->exchanges = exchange;
    return exchange;
}

void exchange_end(site_t *site, void **state) {
    exchange_t *exchange = *state;
    *state = NULL;
    if (!exchange) return;
    assert(exchange->state != EXCHANGE_WORKED); // the api role would answer into freed memory
    exchange_t **at = &site->exchanges;
    while (*at != exchange) at = &(*at)->next;
    *at = exchange->next;
    request_free(exchange->request);
    answer_free(&exchange->answer);
    free(exchange->uri);
    free(exchange);
}

// ---- Answers.

static void exchange_add_headers(struct MHD_Response *response, const answer_t *answer, bool probe) {
    // Of the page: scripts, styles and requests of its own, and no text becomes markup or code.
    static const char page_policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'";
    static const char *const strict[][2] = {
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"X-Frame-Options", "DENY"},
    };
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%" PRId64, answer->retry_after);
    mhd_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    mhd_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    mhd_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (answer->of_page) mhd_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    if (!probe)
        mhd_add_response_header(response, "Content-Security-Policy",
                                answer->of_page ? page_policy : "default-src 'none'; frame-ancestors 'none'");
    for (size_t i = 0; !probe && i < sizeof strict / sizeof *strict; i++)
        mhd_add_response_header(response, strict[i][0], strict[i][1]);
    if (answer->allow) mhd_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    if (answer->location) mhd_add_response_header(response, MHD_HTTP_HEADER_LOCATION, answer->location);
    if (answer->disposition) mhd_add_response_header(response, "Content-Disposition", answer->disposition);
    if (answer->retry_after) mhd_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    if (answer->status == 401) mhd_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
}

// The response takes the body.
static enum MHD_Result exchange_respond(exchange_t *exchange, bool probe) {
    answer_t *answer = exchange->request ? &exchange->request->answer : &exchange->answer;
    buffer_t *body = &answer->body;
    struct MHD_Response *response = body->data ? mhd_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_FREE)
                                               : mhd_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    *body = (buffer_t){0};
    exchange_add_headers(response, answer, probe);
    enum MHD_Result result = mhd_queue_response(exchange->connection, answer->status, response);
    mhd_destroy_response(response);
    return result;
}

static enum MHD_Result exchange_answer_probe(const site_t *site, exchange_t *exchange, const char *path, bool reads) {
    answer_t *answer = &exchange->answer;
    if (reads) {
        answer->status = probe_write(path, site->health, site->metrics, &answer->type, &answer->body);
    } else {
        buffer_str(&answer->body, "only GET and HEAD are allowed\n");
        answer->status = 405;
        answer->type = "text/plain; charset=utf-8";
        answer->allow = mem_str("GET, HEAD");
    }
    return exchange_respond(exchange, true);
}

// ---- Suspended requests.

static enum MHD_Result exchange_suspend(exchange_t *exchange, exchange_state_t state) {
    exchange->state = state;
    exchange->suspended = true;
    mhd_suspend_connection(exchange->connection);
    return MHD_YES;
}

static void exchange_resume(exchange_t *exchange) {
    exchange->suspended = false;
    mhd_resume_connection(exchange->connection);
}

// Hands a complete request to the api role, or answers it from memory.
static enum MHD_Result exchange_work(site_t *site, exchange_t *exchange) {
    request_t *request = exchange->request;
    if (site->stopping && !request->answer.status) answer_problem(&request->answer, 503, NULL, "%s", STOPPING);
    if (request->answer.status) return exchange_respond(exchange, false);
    if (request->route->lane == API_MEMORY) {
        request->route->work(site->apis[API_LOG], request);
        return exchange_respond(exchange, false);
    }
    exchange->request = NULL;
    exchange->worked = request;
    exchange->lane = request->route->lane;
    if (api_submit(site->apis[request->route->lane], request)) return exchange_suspend(exchange, EXCHANGE_WORKED);
    exchange->request = request;
    answer_problem(&request->answer, 429, NULL, "too many requests are waiting: try again");
    return exchange_respond(exchange, false);
}

static request_t *exchange_next_done(const site_t *site) {
    request_t *request = NULL;
    for (int lane = 0; lane < API_LANES && !request; lane++) request = api_next_done(site->apis[lane]);
    return request;
}

void exchange_resume_done(site_t *site) {
    mono_t now = mono_now();
    for (request_t *request; (request = exchange_next_done(site)) != NULL;) {
        exchange_t *exchange = request->exchange;
        exchange->request = request;
        exchange->state = request->answer.status ? EXCHANGE_READY : EXCHANGE_HELD;
        exchange_resume(exchange);
    }
    for (exchange_t *exchange = site->exchanges; exchange; exchange = exchange->next)
        if (exchange->state == EXCHANGE_HELD && exchange->suspended && mono_reached(exchange->held_until, now))
            exchange_resume(exchange);
}

mono_t exchange_next_due(const site_t *site) {
    mono_t next = mono_never();
    for (const exchange_t *exchange = site->exchanges; exchange; exchange = exchange->next)
        if (exchange->state == EXCHANGE_HELD && exchange->suspended) next = mono_min(next, exchange->held_until);
    return next;
}

static exchange_t *exchange_find(const site_t *site, int fd) {
    exchange_t *exchange = site->exchanges;
    while (exchange && exchange->fd != fd) exchange = exchange->next;
    return exchange;
}

bool exchange_is_waiting(const site_t *site, int fd) {
    const exchange_t *exchange = exchange_find(site, fd);
    return exchange && exchange->suspended;
}

bool exchange_is_trusted(const site_t *site, int fd) {
    const exchange_t *exchange = exchange_find(site, fd);
    return exchange && exchange->trusted;
}

static void exchange_give_up(const site_t *site, exchange_t *exchange, const char *why) {
    if (!exchange->suspended) return;
    if (exchange->state == EXCHANGE_WORKED) api_abandon(site->apis[exchange->lane], exchange->worked);
    answer_t *answer = exchange->request ? &exchange->request->answer : &exchange->answer;
    answer_problem(answer, 503, NULL, "%s", why);
    exchange->state = EXCHANGE_READY;
    exchange_resume(exchange);
}

bool exchange_drop(const site_t *site, int fd) {
    exchange_t *exchange = exchange_find(site, fd);
    bool waits = exchange && exchange->suspended;
    if (waits) exchange_give_up(site, exchange, "there are too many connections");
    return waits;
}

void exchange_resume_all(site_t *site) {
    site->stopping = true;
    exchange_resume_done(site);
    for (exchange_t *exchange = site->exchanges; exchange; exchange = exchange->next) exchange_give_up(site, exchange, STOPPING);
}

// ---- The stages of a request.

// Answers a problem at once if a body may follow: the answer then closes the connection.
static enum MHD_Result exchange_take_head(site_t *site, exchange_t *exchange, const char *method, bool reads) {
    exchange->request = mem_alloc(sizeof *exchange->request);
    exchange->request->exchange = exchange;
    admit(site, exchange->connection, method, exchange->uri, exchange->request, &exchange->held_until);
    exchange->state = EXCHANGE_READING;
    exchange->trusted = exchange->request->signed_in;
    bool refused = exchange->request->answer.status != 0;
    return refused && (!reads || admit_has_body(exchange->connection)) && !exchange->held_until.ns
               ? exchange_respond(exchange, false)
               : MHD_YES;
}

static enum MHD_Result exchange_take_body(exchange_t *exchange, const char *data, size_t *size) {
    buffer_t *body = &exchange->request->body;
    if (body->len + *size > REQUEST_BODY_MAX) exchange->too_large = true;
    if (!exchange->too_large && !exchange->request->answer.status) buffer_add(body, data, *size);
    *size = 0;
    return MHD_YES;
}

static enum MHD_Result exchange_take_end(site_t *site, exchange_t *exchange) {
    answer_t *answer = &exchange->request->answer;
    if (exchange->too_large && !answer->status) answer_problem(answer, 413, NULL, "the body must have at most 64 KiB");
    bool held = exchange->held_until.ns && !site->stopping;
    return held ? exchange_suspend(exchange, EXCHANGE_HELD) : exchange_work(site, exchange);
}

// Called when the headers have arrived, for each piece of a body, when the request is complete, and after a resume. Answer at
// once if a body may follow: an answer then closes the connection. Otherwise answer the last call: that keeps it open.
enum MHD_Result exchange_handle(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *size, void **state) {
    site_t *site = self;
    exchange_t *exchange = *state;
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    bool probe = probe_is(url);
    (void)version, (void)connection;
    if (!exchange) return MHD_NO;
    if (reads && *size > 0) return MHD_NO; // refuse a GET with a body
    switch (exchange->state) {
    case EXCHANGE_NEW:
        if (!probe) return exchange_take_head(site, exchange, method, reads);
        exchange->state = EXCHANGE_READING;
        return reads ? MHD_YES : exchange_answer_probe(site, exchange, url, false);
    case EXCHANGE_READING:
        if (*size > 0) return exchange_take_body(exchange, data, size);
        return probe ? exchange_answer_probe(site, exchange, url, true) : exchange_take_end(site, exchange);
    case EXCHANGE_HELD: return exchange_work(site, exchange);
    case EXCHANGE_WORKED: return MHD_YES;
    default: return exchange_respond(exchange, false);
    }
}
