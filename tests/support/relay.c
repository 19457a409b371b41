#include "relay.h"
#include "suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { PART = 16 << 10, MAX_LINKS = 400 };

struct relay {
    char *socket;
    int port, upstream_port;
    int listener;
    pthread_t thread;
    atomic_bool stopping;
    atomic_int running; /* links */
    atomic_long cut, passed;
    atomic_bool renew;
    atomic_int renewals;
    gnutls_certificate_credentials_t credentials; /* NULL: no TLS */
    pthread_mutex_t lock;
    int fds[2 * MAX_LINKS]; /* open ones, for relay_stop */
    int fd_count;
};

typedef struct {
    relay_t *relay;
    int client, server;
    gnutls_session_t tls; /* NULL: plain */
    long left;            /* bytes of the server until the cut; -1: no cut */
} relay_link_t;

static bool remember(relay_t *relay, int fd) {
    pthread_mutex_lock(&relay->lock);
    bool room = relay->fd_count < 2 * MAX_LINKS && !atomic_load(&relay->stopping);
    if (room) relay->fds[relay->fd_count++] = fd;
    pthread_mutex_unlock(&relay->lock);
    return room;
}

/* A number must not be used again while relay_stop may shut it down. */
static void forget(relay_t *relay, int fd) {
    if (fd < 0) return;
    pthread_mutex_lock(&relay->lock);
    for (int i = 0; i < relay->fd_count; i++) {
        if (relay->fds[i] == fd) relay->fds[i] = relay->fds[--relay->fd_count];
    }
    close(fd);
    pthread_mutex_unlock(&relay->lock);
}

static int connect_upstream(const relay_t *relay) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    tcp.sin_port = htons((uint16_t)relay->upstream_port);
    if (relay->socket) snprintf(local.sun_path, sizeof(local.sun_path), "%s", relay->socket);
    int fd = socket(relay->socket ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *address = relay->socket ? (struct sockaddr *)&local : (struct sockaddr *)&tcp;
    if (connect(fd, address, relay->socket ? sizeof(local) : sizeof(tcp)) == 0) return fd;
    close(fd);
    return -1;
}

static bool send_all(const relay_link_t *link, bool to_client, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t sent = to_client && link->tls ? gnutls_record_send(link->tls, bytes, len)
                                              : send(to_client ? link->client : link->server, bytes, len, MSG_NOSIGNAL);
        if (to_client && link->tls && (sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED)) continue;
        if (sent <= 0) return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static void renew_keys(const relay_link_t *link) {
    if (!link->tls || !atomic_exchange(&link->relay->renew, false)) return;
    if (gnutls_session_key_update(link->tls, GNUTLS_KU_PEER) == 0) atomic_fetch_add(&link->relay->renewals, 1);
}

static bool pass_up(const relay_link_t *link) {
    char bytes[PART];
    renew_keys(link);
    do {
        ssize_t got =
            link->tls ? gnutls_record_recv(link->tls, bytes, sizeof(bytes)) : recv(link->client, bytes, sizeof(bytes), 0);
        if (link->tls && (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)) return true;
        if (got <= 0 || !send_all(link, false, bytes, (size_t)got)) return false;
    } while (link->tls && gnutls_record_check_pending(link->tls) > 0);
    return true;
}

static bool pass_down(relay_link_t *link) {
    char bytes[PART];
    ssize_t got = recv(link->server, bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    bool cut = link->left >= 0 && got >= link->left;
    size_t len = cut ? (size_t)link->left : (size_t)got;
    if (!send_all(link, true, bytes, len)) return false;
    if (link->left >= 0) link->left -= (long)len;
    atomic_fetch_add(&link->relay->passed, (long)len);
    return !cut;
}

static bool start_tls(relay_link_t *link) {
    if (!link->relay->credentials) return true;
    if (gnutls_init(&link->tls, GNUTLS_SERVER | GNUTLS_NO_SIGNAL) < 0) return false;
    gnutls_set_default_priority(link->tls);
    gnutls_credentials_set(link->tls, GNUTLS_CRD_CERTIFICATE, link->relay->credentials);
    gnutls_transport_set_int(link->tls, link->client);
    int code;
    do code = gnutls_handshake(link->tls);
    while (code < 0 && !gnutls_error_is_fatal(code));
    return code >= 0;
}

static void *link_main(void *argument) {
    relay_link_t *link = argument;
    relay_t *relay = link->relay;
    int on = 1;
    setsockopt(link->client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    /* A server that is down refuses before the handshake, as it would without a relay. */
    link->server = connect_upstream(relay);
    bool up = link->server >= 0 && remember(relay, link->server) && start_tls(link);
    while (up) {
        struct pollfd ready[2] = {{.fd = link->client, .events = POLLIN}, {.fd = link->server, .events = POLLIN}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR) break;
        if (ready[1].revents) up = pass_down(link);
        if (up && ready[0].revents) up = pass_up(link);
    }
    if (link->tls) gnutls_deinit(link->tls);
    forget(relay, link->server);
    forget(relay, link->client);
    free(link);
    atomic_fetch_sub(&relay->running, 1);
    return NULL;
}

/* The test's own thread must receive the signals. */
static bool start_thread(pthread_t *thread, bool detached, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(thread, &attr, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return good;
}

static void *listen_main(void *argument) {
    relay_t *relay = argument;
    int client;
    while ((client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || !atomic_load(&relay->stopping)) {
        if (client < 0) continue;
        relay_link_t *link = calloc(1, sizeof(*link));
        if (!link) abort();
        *link = (relay_link_t){.relay = relay, .client = client, .server = -1, .left = atomic_load(&relay->cut)};
        atomic_store(&relay->passed, 0);
        pthread_t thread;
        bool known = remember(relay, client);
        if (known) atomic_fetch_add(&relay->running, 1);
        if (known && start_thread(&thread, true, link_main, link)) continue;
        if (known) atomic_fetch_sub(&relay->running, 1);
        forget(relay, client);
        free(link);
    }
    return NULL;
}

relay_t *relay_start(const relay_options_t *options) {
    relay_t *relay = calloc(1, sizeof(*relay));
    if (!relay) abort();
    relay->socket = options->socket ? strdup(options->socket) : NULL;
    relay->upstream_port = options->port;
    atomic_store(&relay->cut, -1);
    pthread_mutex_init(&relay->lock, NULL);
    if (options->tls) {
        char certificate[4096], key[4096];
        snprintf(certificate, sizeof(certificate), "%s/server.crt", options->tls);
        snprintf(key, sizeof(key), "%s/server.key", options->tls);
        cr_assert_geq(gnutls_certificate_allocate_credentials(&relay->credentials), 0);
        cr_assert_geq(gnutls_certificate_set_x509_key_file(relay->credentials, certificate, key, GNUTLS_X509_FMT_PEM), 0);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = bind(relay->listener, (struct sockaddr *)&address, size) == 0 && listen(relay->listener, 128) == 0 &&
                getsockname(relay->listener, (struct sockaddr *)&address, &size) == 0;
    cr_assert(good, "the relay cannot listen: %s", strerror(errno));
    relay->port = ntohs(address.sin_port);
    cr_assert(start_thread(&relay->thread, false, listen_main, relay));
    return relay;
}

void relay_stop(relay_t *relay) {
    if (!relay) return;
    atomic_store(&relay->stopping, true);
    shutdown(relay->listener, SHUT_RDWR);
    pthread_join(relay->thread, NULL);
    pthread_mutex_lock(&relay->lock);
    for (int i = 0; i < relay->fd_count; i++) shutdown(relay->fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&relay->lock);
    while (atomic_load(&relay->running) > 0) usleep(1000);
    close(relay->listener);
    if (relay->credentials) gnutls_certificate_free_credentials(relay->credentials);
    pthread_mutex_destroy(&relay->lock);
    free(relay->socket);
    free(relay);
}

int relay_port(const relay_t *relay) { return relay->port; }
void relay_cut_after(relay_t *relay, long bytes) { atomic_store(&relay->cut, bytes); }
long relay_passed(relay_t *relay) { return atomic_load(&relay->passed); }
void relay_renew_keys(relay_t *relay) { atomic_store(&relay->renew, true); }
int relay_renewals(relay_t *relay) { return atomic_load(&relay->renewals); }
