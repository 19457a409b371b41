// Addresses of servers as text: "host:port" and "[v6]:port".
#pragma once

#include "base/slice.h"

enum { ADDRESS_HOST_SIZE = 256 }; // bytes with the NUL

typedef struct address {
    char host[ADDRESS_HOST_SIZE]; // a name or an address, without brackets
    int port;
} address_t;

typedef struct address_text {
    char text[ADDRESS_HOST_SIZE + 8];
} address_text_t;

// Reads an address that a person wrote: "host:port", "10.0.0.1:port" or "[v6]:port". False: it is malformed, and *out is as it
// was.
bool address_parse(slice_t text, address_t *out);

// Reads "announced:port=reachable:port". False: it is malformed, and the results are as they were.
bool address_parse_pair(slice_t text, address_t *announced, address_t *reachable);

// Reads an address that a server wrote. Redis writes a v6 address without brackets, so the port begins at the last colon. The
// host may be empty: the server then means the host that sent the text.
bool address_parse_announced(slice_t text, address_t *out);

address_text_t address_text(const address_t *address); // "host:port" or "[v6]:port"; reads back as the same address

// Host names are equal in either case, and v6 addresses in each of their texts: "::1" and "0:0::1".
bool address_host_equal(const char *a, const char *b);
bool address_equal(const address_t *a, const address_t *b);
