// Checks of a request that no token replaces: they keep foreign pages out. Pure.
#pragma once

#include "config/config.h"
#include "http/api/answer.h"

// The headers of a request that decide; NULL = not sent.
typedef struct guard_headers {
    const char *host;
    const char *origin;
    const char *fetch_site; // Sec-Fetch-Site
    const char *content_type;
} guard_headers_t;

// Host must be an address, localhost or one of `hosts`, with or without a port: a name that an attacker has mapped to our
// address is none of them.
bool guard_host(const char *host, const strings_t *hosts, answer_t *answer);

// A write must come from our own page, or from a program.
bool guard_write(const guard_headers_t *headers, answer_t *answer);
// A body must be JSON: no form of a foreign page can send this type.
bool guard_body(const guard_headers_t *headers, answer_t *answer);
