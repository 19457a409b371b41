#include "redis/socket/port_probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"

enum {
    PROBE_MS = 150, // of each of two waits
    PROBE_INTERVAL_S = 10,
    PROBE_PORTS = 64, // ports that are equal modulo this share the interval
};

// A ClientHello of TLS 1.2 that offers one cipher and no extension. A TLS server answers with a ServerHello or with an alert.
static const char HELLO[] = "\x16\x03\x01\x00\x2d"             // a record of the type handshake
                            "\x01\x00\x00\x29\x03\x03"         // ClientHello, TLS 1.2
                            "0123456789abcdef0123456789abcdef" // the random number, which no session will use
                            "\x00"                             // no session to resume
                            "\x00\x02\xc0\x2f"                 // TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
                            "\x01\x00";                        // no compression

peer_t peer_of(int fd) {
    peer_t peer = {.size = sizeof peer.address};
    if (getpeername(fd, (struct sockaddr *)&peer.address, &peer.size) != 0) peer.size = 0;
    return peer;
}

static bool probe_wait(int fd, short events) {
    struct pollfd ready = {.fd = fd, .events = events};
    return poll(&ready, 1, PROBE_MS) == 1;
}

// Returns the first byte that the server answers to `bytes`; -1 = none.
static int probe_ask(const peer_t *peer, const void *bytes, size_t len) {
    if (peer->size == 0) return -1;
    int fd = socket(peer->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    unsigned char first;
    bool connected = connect(fd, (const struct sockaddr *)&peer->address, peer->size) == 0 ||
                     (errno == EINPROGRESS && probe_wait(fd, POLLOUT));
    bool answered =
        connected && send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len && probe_wait(fd, POLLIN) && recv(fd, &first, 1, 0) == 1;
    close(fd);
    return answered ? first : -1;
}

bool port_is_plain(const peer_t *peer) {
    int first = probe_ask(peer, "PING\r\n", 6);
    return first == '+' || first == '-';
}

// Each role reconnects again and again while a server is down. One of them may ask, each port by itself: sentinels have others.
static bool probe_is_due(const peer_t *peer) {
    static _Atomic int64_t next_ns[PROBE_PORTS];
    bool v6 = peer->address.ss_family == AF_INET6; // a unix socket never speaks TLS
    unsigned port = ntohs(v6 ? ((const struct sockaddr_in6 *)&peer->address)->sin6_port
                             : ((const struct sockaddr_in *)&peer->address)->sin_port);
    _Atomic int64_t *next = &next_ns[port % PROBE_PORTS];
    int64_t now = mono_now().ns, due = atomic_load(next);
    if (peer->size == 0 || peer->address.ss_family == AF_UNIX) return false;
    return now >= due && atomic_compare_exchange_strong(next, &due, now + PROBE_INTERVAL_S * NS_PER_S);
}

bool port_is_tls(const peer_t *peer) {
    if (!probe_is_due(peer)) return false;
    int first = probe_ask(peer, HELLO, sizeof HELLO - 1);
    return first == TLS_FIRST_ALERT || first == TLS_FIRST_HANDSHAKE;
}
