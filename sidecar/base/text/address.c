#include "base/text/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <strings.h>

enum { PORT_MAX = 65535 };

// Reads 1 to 65535; 0 = malformed. Other readers stop at a sign or a blank, so neither is taken here.
static int address_port(slice_t text) {
    int port = 0;
    if (text.len == 0) return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (!isdigit((unsigned char)text.data[i])) return 0;
        port = port * 10 + (text.data[i] - '0');
        if (port > PORT_MAX) return 0;
    }
    return port;
}

// Reads a v6 address, with or without the interface of a link-local one: "fe80::1%eth0".
static bool address_read_v6(const char *host, struct in6_addr *parsed) {
    char text[INET6_ADDRSTRLEN];
    size_t len = strcspn(host, "%");
    if (len >= sizeof text || (host[len] == '%' && !host[len + 1])) return false;
    memcpy(text, host, len);
    text[len] = '\0';
    return inet_pton(AF_INET6, text, parsed) == 1;
}

static bool address_is_v6(const char *host) {
    struct in6_addr unused;
    return address_read_v6(host, &unused);
}

static bool address_is_name(const char *host) {
    for (const char *at = host; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f || strchr(":/@%[]\"',=", *at)) return false;
    return true;
}

// Splits at the last colon, and takes brackets off the host.
static bool address_split(slice_t text, address_t *out, bool *bracketed) {
    const char *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
    if (!colon) return false;
    slice_t host = {text.data, (size_t)(colon - text.data)};
    out->port = address_port((slice_t){colon + 1, text.len - host.len - 1});
    *bracketed = host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']';
    if (*bracketed) host = (slice_t){host.data + 1, host.len - 2};
    if (!out->port || host.len >= sizeof out->host || memchr(host.data, '\0', host.len)) return false;
    memcpy(out->host, host.data, host.len);
    out->host[host.len] = '\0';
    return true;
}

bool address_parse(slice_t text, address_t *out) {
    address_t read;
    bool bracketed;
    if (!address_split(text, &read, &bracketed) || !*read.host) return false;
    if (!(bracketed ? address_is_v6(read.host) : address_is_name(read.host))) return false;
    *out = read;
    return true;
}

bool address_parse_pair(slice_t text, address_t *announced, address_t *reachable) {
    const char *equals = text.len ? memchr(text.data, '=', text.len) : NULL;
    size_t left = equals ? (size_t)(equals - text.data) : 0;
    address_t first;
    if (!equals || !address_parse((slice_t){text.data, left}, &first)) return false;
    if (!address_parse((slice_t){equals + 1, text.len - left - 1}, reachable)) return false;
    *announced = first;
    return true;
}

bool address_parse_announced(slice_t text, address_t *out) {
    address_t read;
    bool bracketed;
    if (!address_split(text, &read, &bracketed)) return false;
    if (!address_is_v6(read.host) && (bracketed || !address_is_name(read.host))) return false;
    *out = read;
    return true;
}

address_text_t address_text(const address_t *address) {
    address_text_t out;
    bool v6 = strchr(address->host, ':') != NULL;
    snprintf(out.text, sizeof out.text, v6 ? "[%s]:%u" : "%s:%u", address->host, (unsigned)(uint16_t)address->port);
    return out;
}

bool address_host_equal(const char *a, const char *b) {
    struct in6_addr v6_of_a, v6_of_b;
    if (!address_read_v6(a, &v6_of_a) || !address_read_v6(b, &v6_of_b)) return strcasecmp(a, b) == 0;
    bool same_interface = strcmp(a + strcspn(a, "%"), b + strcspn(b, "%")) == 0;
    return same_interface && memcmp(&v6_of_a, &v6_of_b, sizeof v6_of_a) == 0;
}

bool address_equal(const address_t *a, const address_t *b) { return a->port == b->port && address_host_equal(a->host, b->host); }
