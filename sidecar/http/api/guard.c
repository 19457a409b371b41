#include "http/api/guard.h"

#include <arpa/inet.h>
#include <strings.h>

enum { HOST_MAX = 255 };

// Splits "host", "host:port" and "[v6]:port". False: malformed.
static bool guard_split(const char *text, char host[HOST_MAX + 1], bool *v6) {
    *v6 = *text == '[';
    const char *begin = text + *v6;
    size_t len = strcspn(begin, *v6 ? "]" : ":");
    if (len == 0 || len > HOST_MAX || (*v6 && begin[len] != ']')) return false;
    memcpy(host, begin, len);
    host[len] = '\0';
    const char *rest = begin + len + *v6;
    if (!*rest) return true;
    size_t digits = strspn(rest + 1, "0123456789");
    return *rest == ':' && digits >= 1 && digits <= 5 && !rest[1 + digits];
}

bool guard_host(const char *text, const strings_t *hosts, answer_t *answer) {
    char host[HOST_MAX + 1];
    unsigned char address[sizeof(struct in6_addr)];
    bool v6;
    if (text && guard_split(text, host, &v6)) {
        if (inet_pton(v6 ? AF_INET6 : AF_INET, host, address) == 1) return true;
        if (!v6 && strcasecmp(host, "localhost") == 0) return true;
        for (size_t i = 0; !v6 && i < hosts->count; i++)
            if (strcasecmp(host, hosts->items[i]) == 0) return true;
    }
    answer_problem(answer, 421, NULL, "the header Host must be an address, localhost or one of http.hosts: add the name there");
    return false;
}

// Whether an origin, "scheme://host:port", has our host. The scheme is that of the client, and a proxy may have changed it.
static bool guard_is_ours(const char *origin, const char *host) {
    static const struct { const char *scheme, *port; } known[] = {{"http://", ":80"}, {"https://", ":443"}};
    for (size_t i = 0; host && i < sizeof known / sizeof *known; i++) {
        if (strncasecmp(origin, known[i].scheme, strlen(known[i].scheme)) != 0) continue;
        const char *named = origin + strlen(known[i].scheme);
        size_t len = strlen(named);
        if (strcasecmp(named, host) == 0) return true;
        return strncasecmp(named, host, len) == 0 && strcmp(host + len, known[i].port) == 0;
    }
    return false;
}

bool guard_write(const guard_headers_t *headers, answer_t *answer) {
    if (headers->fetch_site && strcmp(headers->fetch_site, "same-origin") != 0)
        answer_problem(answer, 403, NULL, "a write must come from the page of this host: Sec-Fetch-Site is not same-origin");
    else if (headers->origin && !guard_is_ours(headers->origin, headers->host))
        answer_problem(answer, 403, NULL, "a write must come from the page of this host: Origin names another one");
    else
        return true;
    return false;
}

bool guard_body(const guard_headers_t *headers, answer_t *answer) {
    static const char json[] = "application/json";
    const char *type = headers->content_type;
    if (type && strncasecmp(type, json, strlen(json)) == 0 &&
        strspn(type + strlen(json), " \t") == strcspn(type + strlen(json), ";"))
        return true;
    answer_problem(answer, 415, NULL, "the body must be JSON: send Content-Type: application/json");
    return false;
}
