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

enum { ANSWER_MAX = 8192, READ_TIMEOUT_S = 1 };

const char local_instance_unresponsive[] = "something listens there but does not answer in time";

// Returns the connection, or -1 with the reason in *why.
static int local_instance_connect(const config_t *config, int timeout_s, const char **why) {
    // An instance that listens on all addresses is asked on this machine.
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

// False: no answer came.
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
    *why = "nothing answers there";
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
        buffer_str(why, "another program answers there, not a sidecar");
        return true;
    }
    if (config->queue_count == 0) return false; // the config is refused, so its group is unknown
    bool named = picks[1].found == JSON_FOUND && picks[1].value.type == JSON_STRING && json_decode(picks[1].value.raw, &group);
    bool unrelated = named && strcmp(buffer_text(&group), config->group) != 0;
    if (unrelated)
        buffer_printf(why, "a sidecar of group \"%s\" answers there, but this config has group \"%s\"", buffer_text(&group),
                      config->group);
    buffer_free(&group);
    return unrelated;
}

// ---- The checks of /readyz.

// The value of a member of one check.
static bool local_check_find(slice_t json, size_t index, const char *member, json_value_t *value) {
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/checks/%zu/%s", index, member);
    return json_find(json, pointer, value) == JSON_FOUND;
}

static void local_check_text(slice_t json, size_t index, const char *member, char *out, size_t size) {
    json_value_t value;
    buffer_t text = {0};
    if (local_check_find(json, index, member, &value) && value.type == JSON_STRING && json_decode(value.raw, &text))
        snprintf(out, size, "%s", buffer_text(&text));
    for (char *at = out; *at; at++)
        if (*at == '\n') *at = at[1] ? ';' : '\0'; // there is a line for each role that hangs
    buffer_free(&text);
}

static void local_instance_read_checks(slice_t json, local_instance_t *instance) {
    json_value_t value;
    for (; instance->count < LOCAL_CHECKS_MAX; instance->count++) {
        const size_t index = instance->count;
        local_check_t *check = &instance->checks[index];
        *check = (local_check_t){0};
        local_check_text(json, index, "check", check->name, sizeof check->name);
        if (!*check->name) return;
        local_check_text(json, index, "why", check->why, sizeof check->why);
        local_check_text(json, index, "state", check->state, sizeof check->state);
        check->ok = local_check_find(json, index, "ok", &value) && value.type == JSON_BOOL && slice_is(value.raw, "true");
    }
}

const local_check_t *local_instance_check(const local_instance_t *instance, const char *name) {
    for (size_t i = 0; i < instance->count; i++)
        if (strcmp(instance->checks[i].name, name) == 0) return &instance->checks[i];
    return NULL;
}

void local_instance_read(const config_t *config, local_instance_t *instance) {
    const char *why = "";
    buffer_t body = {0}, other = {0};
    *instance = (local_instance_t){.asked = config->http.port != 0};
    int code = instance->asked ? local_instance_ask(config, "/readyz", READ_TIMEOUT_S, &body, &why) : 0;
    const slice_t text = {buffer_text(&body), body.len};
    instance->unresponsive = code < 0 && why == local_instance_unresponsive;
    instance->unrelated = code > 0 && local_instance_is_unrelated(config, text, &other);
    instance->answered = code > 0 && !instance->unrelated;
    instance->ready = code == 200 && !instance->unrelated;
    snprintf(instance->why, sizeof instance->why, "%s", instance->unrelated ? buffer_text(&other) : code < 0 ? why : "");
    if (instance->answered) local_instance_read_checks(text, instance);
    buffer_free(&other);
    buffer_free(&body);
}
