// libmicrohttpd, loaded on demand: Debian's needs GnuTLS, 2.5 MB that are of no use to an instance without http.
#pragma once

#include <microhttpd.h>

#include "base/std.h"

#define MHD_FUNCTIONS(X)                                                                                                         \
    X(add_response_header)                                                                                                       \
    X(create_response_from_buffer)                                                                                               \
    X(destroy_response)                                                                                                          \
    X(get_connection_info)                                                                                                       \
    X(get_connection_values)                                                                                                     \
    X(get_daemon_info)                                                                                                           \
    X(get_timeout)                                                                                                               \
    X(lookup_connection_value)                                                                                                   \
    X(queue_response) X(resume_connection) X(run) X(start_daemon) X(stop_daemon) X(suspend_connection)
#define X(name) extern __typeof__(MHD_##name) *mhd_##name;
MHD_FUNCTIONS(X)
#undef X

// Returns false with the reason in *why.
bool mhd_load(char *why, size_t size);
