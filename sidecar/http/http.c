#include "http/http.h"

#include <netdb.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "http/exchange.h"

enum {
    CONNECTIONS = 64,   // open at once; more wait in the backlog, or replace the oldest
    CROWDED = 48,       // from this number on, each new one closes the oldest
    HEAD_BYTES = 16384, // for request line, headers and response headers: a text of 4 KiB has 12 KiB in a query
    REQUEST_S = 10,     // longest time until a request is complete
    ANSWER_S = 120,     // longest time until an answer is read: 8 MiB at 64 KiB/s
    IDLE_S = 60,        // for a kept-alive connection; longer than between two scrapes or probes
    LISTEN_AGAIN_S = 10,
};

static const char ROLE[] = "http";
// One open connection; closed when its request is incomplete at `deadline`.
typedef struct client {
    int fd; // -1 = free
    mono_t deadline;
    mono_t connected_at;
    bool closing; // already shut down
} client_t;

struct http {
    config_t *config; // shared
    site_t site;
    struct MHD_Daemon *daemon; // NULL = not listening
    mono_t retry_at;           // when to try again to listen
    condition_t refused;       // why it cannot listen
    client_t clients[CONNECTIONS];
    bool resumed; // a connection, since the last run
};

http_t *http_new(config_t *config, health_t *health, metrics_t *metrics, api_t *const *apis) {
    http_t *http = mem_alloc(sizeof *http);
    *http = (http_t){.config = config_share(config)};
    http->site = (site_t){.health = health,
                          .metrics = metrics,
                          .apis = apis,
                          .tokens = tokens_new(config->http.token_file),
                          .hosts = &config->http.hosts,
                          .user_header = config->http.user_header,
                          .page = config->http.page};
    tokens_refresh(http->site.tokens); // so that the log tells of a wrong file before somebody cannot sign in
    for (size_t i = 0; i < CONNECTIONS; i++) http->clients[i].fd = -1;
    return http;
}

void http_finish(void *self) {
    http_t *http = self;
    if (!http->daemon) return;
    exchange_resume_all(&http->site);
    mhd_run(http->daemon);
    mhd_stop_daemon(http->daemon);
    http->daemon = NULL;
}

void http_free(http_t *http) {
    if (!http) return;
    http_finish(http);
    tokens_free(http->site.tokens);
    config_free(http->config);
    condition_free(&http->refused);
    free(http);
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
static void http_close_client(http_t *http, client_t *client) {
    shutdown(client->fd, SHUT_RDWR);
    client->closing = true;
    if (exchange_drop(&http->site, client->fd)) http->resumed = true;
}

// Strangers must not close the connections of those who wait for an answer and have a token.
static bool http_goes_before(const http_t *http, const client_t *a, const client_t *b) {
    bool trusted = exchange_is_trusted(&http->site, a->fd);
    if (trusted != exchange_is_trusted(&http->site, b->fd)) return !trusted;
    return a->connected_at.ns < b->connected_at.ns;
}

static void http_make_room(http_t *http) {
    client_t *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_t *client = &http->clients[i];
        if (client->fd < 0 || client->closing) continue;
        count++;
        if (!first || http_goes_before(http, client, first)) first = client;
    }
    if (count >= CROWDED) http_close_client(http, first);
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
    (void)code;
    exchange_end(&http->site, request);
    if (client && client->fd >= 0) client->deadline = mono_add(mono_now(), (IDLE_S + REQUEST_S) * NS_PER_S);
}

// libmicrohttpd limits the time between two bytes only; a request sent byte by byte would take for ever.
// A client whose request is complete waits for us, and not we for it.
static mono_t http_close_expired(http_t *http) {
    mono_t next = mono_never();
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_t *client = &http->clients[i];
        if (client->fd < 0 || client->closing) continue;
        if (exchange_is_waiting(&http->site, client->fd)) client->deadline = mono_add(mono_now(), ANSWER_S * NS_PER_S);
        if (mono_reached(client->deadline, mono_now()))
            http_close_client(http, client);
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
        if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) break;
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
    if (!mhd_load(why, size)) return false;
    int fd = http_bind(http->config->http.listen, http->config->http.port, why, size);
    if (fd < 0) return false;
    http->daemon =
        mhd_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, exchange_handle, &http->site,
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, exchange_begin, &http->site,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)HEAD_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_NOTIFY_CONNECTION,
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
        log_info(ROLE, NULL, "serving health and metrics", F_STR("listen", http->config->http.listen),
                 F_INT("port", http->config->http.port));
    else if (change == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "cannot serve health and metrics; jobs are served", F_STR("listen", http->config->http.listen),
                 F_INT("port", http->config->http.port), F_STR("reason", why));
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
    exchange_resume_done(&http->site);
    http->resumed = false;
    mhd_run(http->daemon);
    MHD_UNSIGNED_LONG_LONG left_ms;
    wait->until = mono_min(exchange_next_due(&http->site), http_close_expired(http));
    if (http->resumed) wait->until = mono_now();
    if (mhd_get_timeout(http->daemon, &left_ms) == MHD_YES)
        wait->until = mono_min(wait->until, mono_add(mono_now(), (int64_t)left_ms * NS_PER_MS));
    const union MHD_DaemonInfo *info = mhd_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (info) role_wait_fd(wait, info->epoll_fd);
}
