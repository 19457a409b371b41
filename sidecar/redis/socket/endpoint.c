#include "redis/socket/endpoint.h"

void endpoint_set(endpoint_t *address, const char *host, int port) {
    address->port = port;
    snprintf(address->host, sizeof address->host, "%s", host);
    snprintf(address->text, sizeof address->text, strchr(host, ':') ? "[%s]:%d" : "%s:%d", address->host, port);
}

address_t endpoint_reachable(const redis_config_t *redis, const address_t *announced) {
    address_t from, to;
    for (size_t i = 0; i < redis->addresses.count; i++)
        if (address_parse_pair(slice_text(redis->addresses.items[i]), &from, &to) && address_equal(&from, announced)) return to;
    return *announced;
}
