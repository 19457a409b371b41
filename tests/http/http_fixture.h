/* The tests of the http role share this: a sidecar that serves HTTP on a free port, and a client that sends given bytes. */
#pragma once

#include "cluster.h"
#include "wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static const char SERVES[] = "serving health and metrics";

static inline struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
}

/* Returns a socket, owned, that listens at the port. */
static inline int listen_at(int port) {
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fd, 1), 0);
    return fd;
}

/* Starts a sidecar that serves HTTP on a free port. */
static inline daemon_t *serving(cluster_t *cluster, sidecar_t spec, int *port) {
    spec.port = *port = server_free_port();
    daemon_t *d = cluster_sidecar(cluster, spec);
    cr_assert(daemon_wait_log(d, SERVES, 10000), "%s", daemon_log(d));
    return d;
}

static inline int connect_to(int port) {
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* Returns all bytes until the server closes the connection or sends nothing for 15 s (scaled). Kept. */
static inline char *read_all(int fd) {
    size_t len = 0, size = 1 << 20;
    char *text = kept(malloc(size));
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (len < size - 1 && poll(&ready, 1, wait_scaled_ms(15000)) == 1) {
        ssize_t got = read(fd, text + len, size - 1 - len);
        if (got <= 0) break;
        len += (size_t)got;
    }
    text[len] = '\0';
    return text;
}

static inline char *ask(int port, const char *request) {
    int fd = connect_to(port);
    cr_assert_geq(fd, 0, "cannot connect");
    size_t len = strlen(request);
    (void)!write(fd, request, len);
    char *text = read_all(fd);
    close(fd);
    return text;
}

/* Returns the response to a GET: head and body. Kept. */
static inline char *get(int port, const char *path) {
    char request[200];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    return kept(ask(port, request));
}

static inline bool says(int port, const char *path, const char *part) {
    char *text = get(port, path);
    return strstr(text, part) != NULL;
}

#define await_says(d, port, path, part)                                                                                          \
    cr_assert(wait_for(says(port, path, part), 10000), "%s does not say %s but %s\n%s", path, part, get(port, path),             \
              daemon_log(d))

/* Begins a cluster of one sidecar, which serves HTTP and leads. */
static inline daemon_t *leading(cluster_t *cluster, sidecar_t spec, int *port) {
    *cluster = cluster_begin(NULL);
    daemon_t *d = serving(cluster, spec, port);
    await_says(d, *port, "/readyz", "\"state\": \"leading\"");
    return d;
}
