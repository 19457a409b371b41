#include "cli/status/local_instance.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/json/json.h"

enum { ANSWER_MAX = 8192 };

const char local_instance_unresponsive[] = "something listens there, and does not answer in time";

// Connects; -1 with the reason in *why.
static int local_instance_connect(const config_t *config, int timeout_s, const char **why) {
    // Who listens everywhere is asked here.
    bool anywhere = strcmp(config->http.listen, "0.0.0.0") == 0 || strcmp(config->http.listen, "::") == 0;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    struct timeval timeout = {.tv_sec = timeout_s};
    char port[24];
    int fd = -1;
    snprintf(port, sizeof port, "%lld", (long long)config->http.port);
    int code = getaddrinfo(anywhere ? "localhost" : config->http.listen, port, &hints, &found);
    if (code != 0) {
        *why = gai_strerror(code);
        return -1;
    }
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) break;
        *why = strerror(errno);
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

// Sends the request and reads the answer, cut at ANSWER_MAX. False: none came.
static bool local_instance_exchange(int fd, const char *path, char answer[ANSWER_MAX + 1]) {
    size_t len = 0;
    char request[100];
    int size = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    if (send(fd, request, (size_t)size, MSG_NOSIGNAL) != size) return false;
    for (ssize_t got; len < ANSWER_MAX && (got = recv(fd, answer + len, ANSWER_MAX - len, 0)) > 0;) len += (size_t)got;
    answer[len] = '\0';
    return strncmp(answer, "HTTP/1.", 7) == 0;
}

int local_instance_ask(const config_t *config, const char *path, int timeout_s, buffer_t *body, const char **why) {
    char answer[ANSWER_MAX + 1];
    *why = "nobody answers";
    int fd = local_instance_connect(config, timeout_s, why);
    bool answered = fd >= 0 && local_instance_exchange(fd, path, answer);
    if (fd >= 0 && !answered) *why = local_instance_unresponsive;
    if (fd >= 0) close(fd);
    if (!answered) return -1;
    const char *text = strstr(answer, "\r\n\r\n");
    buffer_str(body, text ? text + 4 : "");
    return atoi(answer + strlen("HTTP/1.x"));
}

bool local_instance_is_unrelated(const config_t *config, slice_t body, buffer_t *why) {
    json_pick_t picks[] = {{.pointer = "/ready"}, {.pointer = "/group"}};
    buffer_t group = {0};
    if (!json_pick(body, picks, 2) || picks[0].found != JSON_FOUND) {
        buffer_str(why, "what answers there is no sidecar");
        return true;
    }
    if (config->queue_count == 0) return false; // it is refused, and may not have said its group
    bool told = picks[1].found == JSON_FOUND && picks[1].value.type == JSON_STRING && json_decode(picks[1].value.raw, &group);
    bool unrelated = told && strcmp(buffer_text(&group), config->group) != 0;
    if (unrelated)
        buffer_printf(why, "a sidecar of group \"%s\" answers there, and this config is of group \"%s\"", buffer_text(&group),
                      config->group);
    buffer_free(&group);
    return unrelated;
}
