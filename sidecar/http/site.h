// Shared by all requests; of the http thread.
#pragma once

#include "http/api/api.h"
#include "http/health.h"

typedef struct site {
    health_t *health;
    metrics_t *metrics;
    api_t *const *apis; // by lane
    tokens_t *tokens;   // owned
    const strings_t *hosts;
    const char *user_header;
    bool page;                  // whether the page is served
    struct exchange *exchanges; // those under way
    bool stopping;              // suspend none: libmicrohttpd ends the process if one is suspended when it stops
} site_t;
