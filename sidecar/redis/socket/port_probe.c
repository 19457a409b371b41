#include "redis/socket/port_probe.h"

#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"

enum {
    PROBE_MS = 150, // of each of two waits
    PROBE_INTERVAL_S = 10,
    PROBE_PLACES = 1024, // addresses whose hashes are equal modulo this share the interval
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

static bool probe_finds_plain(const peer_t *peer) {
    int first = probe_ask(peer, "PING\r\n", 6);
    return first == '+' || first == '-';
}

static bool probe_finds_tls(const peer_t *peer) {
    int first = probe_ask(peer, HELLO, sizeof HELLO - 1);
    return first == TLS_FIRST_ALERT || first == TLS_FIRST_HANDSHAKE;
}

// Of host and port (FNV-1a).
static uint32_t probe_hash(const peer_t *peer) {
    const unsigned char *bytes = (const unsigned char *)&peer->address;
    uint32_t hash = 2166136261;
    for (socklen_t i = 0; i < peer->size; i++) hash = (hash ^ bytes[i]) * 16777619;
    return hash;
}

// Time at which to ask a server again, in ns; the lowest bit is its last answer.
typedef struct probe_memory {
    _Atomic int64_t places[PROBE_PLACES];
} probe_memory_t;

// Each role reconnects again and again while a server is down, and a frozen one answers no probe. So one of them asks at a time,
// and the others take the last answer. Each server counts by itself: sentinels on several hosts have the same port.
static bool probe_remember(probe_memory_t *memory, const peer_t *peer, bool (*find)(const peer_t *)) {
    if (peer->size == 0 || peer->address.ss_family == AF_UNIX) return false; // a unix socket never speaks TLS
    _Atomic int64_t *place = &memory->places[probe_hash(peer) % PROBE_PLACES];
    int64_t now = mono_now().ns, last = atomic_load(place), next = (now + PROBE_INTERVAL_S * NS_PER_S) & ~INT64_C(1);
    if (now < last || !atomic_compare_exchange_strong(place, &last, next | (last & 1))) return last & 1;
    bool found = find(peer);
    atomic_store(place, next | found);
    return found;
}

bool port_is_plain(const peer_t *peer) {
    static probe_memory_t memory;
    return probe_remember(&memory, peer, probe_finds_plain);
}

bool port_is_tls(const peer_t *peer) {
    static probe_memory_t memory;
    return probe_remember(&memory, peer, probe_finds_tls);
}
