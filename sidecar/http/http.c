#include "http/http.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "http/metrics_text.h"

enum {
    CONNECTIONS = 64,     // open at once; more wait in the backlog, or replace the oldest
    CROWDED = 48,         // from this number on, each new one closes the oldest
    REQUEST_BYTES = 8192, // for request line, headers and response headers
    REQUEST_S = 10,       // longest time until a request is complete
    IDLE_S = 60,          // for a kept-alive connection; longer than between two scrapes or probes
    LISTEN_AGAIN_S = 10,
    BACKLOG = 128,
};

static const char ROLE[] = "http";
static const char LIBRARY[] = "libmicrohttpd.so.12";

// Load libmicrohttpd on demand: Debian's needs GnuTLS, 2.5 MB that are of no use to an instance without http.
#define LIBRARY_FUNCTIONS(X)                                                                                                     \
    X(add_response_header)                                                                                                       \
    X(create_response_from_buffer)                                                                                               \
    X(destroy_response)                                                                                                          \
    X(get_connection_info) X(get_daemon_info) X(get_timeout) X(queue_response) X(run) X(start_daemon) X(stop_daemon)
#define X(name) static __typeof__(MHD_##name) *mhd_##name;
LIBRARY_FUNCTIONS(X)
#undef X

// Returns false with the reason in *why.
static bool http_load_library(char *why, size_t size) {
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL); // never closed
    bool found = library != NULL;
#define X(name) found = found && (*(void **)&mhd_##name = dlsym(library, "MHD_" #name)) != NULL;
    LIBRARY_FUNCTIONS(X)
#undef X
    if (!found) snprintf(why, size, "%s", dlerror());
    return found;
}

// One open connection; closed when its request is incomplete at `deadline`.
typedef struct client {
    int fd; // -1 = free
    mono_t deadline;
    mono_t connected_at;
    bool closing; // already shut down
} client_t;

struct http {
    const char *listen;
    int64_t port;
    health_t *health;
    metrics_t *metrics;
    struct MHD_Daemon *daemon; // NULL = not listening
    mono_t retry_at;           // when to try again to listen
    condition_t refused;       // why it cannot listen
    client_t clients[CONNECTIONS];
};

http_t *http_new(const char *listen, int64_t port, health_t *health, metrics_t *metrics) {
    http_t *http = mem_alloc(sizeof *http);
    *http = (http_t){.listen = listen, .port = port, .health = health, .metrics = metrics};
    for (size_t i = 0; i < CONNECTIONS; i++) http->clients[i].fd = -1;
    return http;
}

void http_finish(void *self) {
    http_t *http = self;
    if (http->daemon) mhd_stop_daemon(http->daemon);
    http->daemon = NULL;
}

void http_free(http_t *http) {
    if (!http) return;
    http_finish(http);
    condition_free(&http->refused);
    free(http);
}

// ---- Responses.

static enum MHD_Result http_respond(struct MHD_Connection *connection, unsigned code, const char *type, buffer_t *body) {
    struct MHD_Response *response =
        mhd_create_response_from_buffer(body->len, body->data ? body->data : "", MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    mhd_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    mhd_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    mhd_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) mhd_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = mhd_queue_response(connection, code, response);
    mhd_destroy_response(response);
    return result;
}

static unsigned http_healthz(const http_t *http, buffer_t *body) {
    if (!health_alive(http->health, body)) return MHD_HTTP_SERVICE_UNAVAILABLE;
    buffer_str(body, "ok\n");
    return MHD_HTTP_OK;
}

static unsigned http_readyz(const http_t *http, buffer_t *body) {
    return health_ready(http->health, body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
}

static unsigned http_metrics_page(const http_t *http, buffer_t *body) {
    http_metrics(http->metrics, http->health, body);
    return MHD_HTTP_OK;
}

static const struct page {
    const char *path;
    const char *type;
    unsigned (*write)(const http_t *http, buffer_t *body);
} pages[] = {
    {"/healthz", "text/plain; charset=utf-8", http_healthz},
    {"/readyz", "application/json", http_readyz},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", http_metrics_page},
};

static const struct page *http_find_page(const char *path) {
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(pages[i].path, path) == 0) return &pages[i];
    return NULL;
}

// Called when the headers have arrived and again when the request is complete. Answer at once if a body may follow: an
// answer then closes the connection. Otherwise answer the second call: that keeps the connection open.
static enum MHD_Result http_on_request(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                                       const char *version, const char *data, size_t *size, void **request) {
    const http_t *http = self;
    buffer_t body = {0};
    static char begun;
    (void)version, (void)data;
    const struct page *page = http_find_page(url);
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (reads && !*request) {
        *request = &begun;
        return MHD_YES;
    }
    if (reads && *size > 0) return MHD_NO; // refuse a GET with a body
    unsigned code = MHD_HTTP_NOT_FOUND;
    if (!reads) {
        code = MHD_HTTP_METHOD_NOT_ALLOWED;
        buffer_str(&body, "only GET and HEAD are allowed\n");
    } else if (page) {
        code = page->write(http, &body);
    } else {
        buffer_str(&body, "not found; try /healthz, /readyz or /metrics\n");
    }
    enum MHD_Result result = http_respond(connection, code, page && reads ? page->type : "text/plain; charset=utf-8", &body);
    buffer_free(&body);
    return result;
}

// ---- Connections.

static int http_connection_fd(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = mhd_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static client_t *http_find_client(http_t *http, int fd) {
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (http->clients[i].fd == fd) return &http->clients[i];
    return NULL;
}

// Shuts a connection down; libmicrohttpd notices and frees it.
static void http_close_client(client_t *client) {
    shutdown(client->fd, SHUT_RDWR);
    client->closing = true;
}

static void http_make_room(http_t *http) {
    client_t *oldest = NULL;
    size_t count = 0;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_t *client = &http->clients[i];
        if (client->fd < 0 || client->closing) continue;
        count++;
        if (!oldest || client->connected_at.ns < oldest->connected_at.ns) oldest = client;
    }
    if (count >= CROWDED) http_close_client(oldest);
}

static void http_on_connection(void *self, struct MHD_Connection *connection, void **slot,
                               enum MHD_ConnectionNotificationCode code) {
    http_t *http = self;
    int fd = http_connection_fd(connection);
    (void)slot;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        http_make_room(http);
        client_t *client = http_find_client(http, -1);
        if (client)
            *client = (client_t){.fd = fd, .deadline = mono_add(mono_now(), REQUEST_S * NS_PER_S), .connected_at = mono_now()};
    } else {
        client_t *client = http_find_client(http, fd);
        if (client && fd >= 0) client->fd = -1;
    }
}

static void http_on_completed(void *self, struct MHD_Connection *connection, void **request,
                              enum MHD_RequestTerminationCode code) {
    http_t *http = self;
    client_t *client = http_find_client(http, http_connection_fd(connection));
    (void)request, (void)code;
    if (client && client->fd >= 0) client->deadline = mono_add(mono_now(), (IDLE_S + REQUEST_S) * NS_PER_S);
}

// libmicrohttpd limits the time between two bytes only; a request sent byte by byte would take for ever.
static mono_t http_close_expired(http_t *http) {
    mono_t next = mono_never();
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_t *client = &http->clients[i];
        if (client->fd < 0 || client->closing) continue;
        if (mono_reached(client->deadline, mono_now()))
            http_close_client(client);
        else
            next = mono_min(next, client->deadline);
    }
    return next;
}

// ---- Listening.

static void http_bind_error(int64_t port, char *why, size_t size) {
    if (errno == EADDRINUSE)
        snprintf(why, size, "http.port %lld is in use: set it to a free port, or to 0 to serve nothing", (long long)port);
    else
        snprintf(why, size, "%s: %s", errno == EACCES ? "http.port" : "http.listen", strerror(errno));
}

static int http_bind(const char *host, int64_t number, char *why, size_t size) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[24];
    snprintf(port, sizeof port, "%lld", (long long)number);
    int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0) {
        snprintf(why, size, "http.listen: %s", gai_strerror(code));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        int on = 1, off = 0;
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (at->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) break;
        http_bind_error(number, why, size);
        close(fd);
        fd = -1;
    }
    if (fd < 0 && !*why) snprintf(why, size, "%s", strerror(errno));
    freeaddrinfo(found);
    return fd;
}

bool http_can_listen(const char *listen, int64_t port, char *why, size_t size) {
    *why = '\0';
    int fd = http_bind(listen, port, why, size);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static bool http_start(http_t *http, char *why, size_t size) {
    if (!mhd_run && !http_load_library(why, size)) return false;
    int fd = http_bind(http->listen, http->port, why, size);
    if (fd < 0) return false;
    http->daemon =
        mhd_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, http_on_request, http, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)REQUEST_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_NOTIFY_CONNECTION,
                         http_on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, http, MHD_OPTION_END);
    if (http->daemon) return true;
    snprintf(why, size, "%s", strerror(errno));
    close(fd);
    return false;
}

static void http_listen(http_t *http) {
    char why[200] = "";
    bool started = http_start(http, why, sizeof why);
    condition_change_t change = condition_update_reason(&http->refused, started ? NULL : why);
    if (started)
        log_info(ROLE, NULL, "serving health and metrics", F_STR("listen", http->listen), F_INT("port", http->port));
    else if (change == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "cannot serve health and metrics; jobs are served", F_STR("listen", http->listen),
                 F_INT("port", http->port), F_STR("reason", why));
    http->retry_at = mono_add(mono_now(), LISTEN_AGAIN_S * NS_PER_S);
}

void http_tick(void *self, role_wait_t *wait) {
    http_t *http = self;
    if (!http->daemon) {
        if (mono_reached(http->retry_at, mono_now())) http_listen(http);
        if (!http->daemon) {
            wait->until = http->retry_at;
            wait->trouble = true;
            return;
        }
    }
    mhd_run(http->daemon);
    MHD_UNSIGNED_LONG_LONG left_ms;
    wait->until = http_close_expired(http);
    if (mhd_get_timeout(http->daemon, &left_ms) == MHD_YES)
        wait->until = mono_min(wait->until, mono_add(mono_now(), (int64_t)left_ms * NS_PER_MS));
    const union MHD_DaemonInfo *info = mhd_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (info) role_wait_fd(wait, info->epoll_fd);
}
