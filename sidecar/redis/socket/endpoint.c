#include "redis/socket/endpoint.h"

#include "base/std.h"

void endpoint_set(endpoint_t *address, const char *host, int port) {
    address->port = port;
    snprintf(address->host, sizeof address->host, "%s", host);
    snprintf(address->text, sizeof address->text, strchr(host, ':') ? "[%s]:%d" : "%s:%d", address->host, port);
}
