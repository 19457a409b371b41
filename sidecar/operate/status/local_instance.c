#include "operate/status/local_instance.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/json/json.h"

enum { ANSWER_MAX = 8192, READ_TIMEOUT_S = 1 };

// Returns the connection, or -1 with the reason in *why.
static int local_instance_connect(const config_t *config, int timeout_s, const char **why) {
    // If the instance listens on all addresses, ask it on this machine.
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

// Returns the HTTP status; -1 = no answer came.
static int local_instance_exchange(int fd, const char *path, buffer_t *body) {
    char request[100], answer[ANSWER_MAX + 1];
    int size = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    if (send(fd, request, (size_t)size, MSG_NOSIGNAL) != size) return -1;
    ssize_t got = recv(fd, answer, ANSWER_MAX, MSG_WAITALL);
    answer[got > 0 ? got : 0] = '\0';
    if (strncmp(answer, "HTTP/1.", 7) != 0) return -1;
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

void local_instance_ask(const config_t *config, const char *path, int timeout_s, local_instance_t *instance, buffer_t *body) {
    const char *why = "nothing answers there";
    buffer_t other = {0};
    *instance = (local_instance_t){.state = LOCAL_NOT_ASKED};
    if (config->http.port == 0) return;
    int fd = local_instance_connect(config, timeout_s, &why);
    int code = fd < 0 ? -1 : local_instance_exchange(fd, path, body);
    instance->state = fd < 0 ? LOCAL_SILENT : code < 0 ? LOCAL_UNRESPONSIVE : LOCAL_ANSWERED;
    instance->well = code == 200;
    if (instance->state == LOCAL_UNRESPONSIVE) why = "something listens there but does not answer in time";
    if (instance->state == LOCAL_ANSWERED && strcmp(path, "/readyz") == 0 &&
        local_instance_is_unrelated(config, (slice_t){buffer_text(body), body->len}, &other)) {
        instance->state = LOCAL_UNRELATED;
        why = buffer_text(&other);
    }
    if (instance->state != LOCAL_ANSWERED) snprintf(instance->why, sizeof instance->why, "%s", why);
    if (fd >= 0) close(fd);
    buffer_free(&other);
}

// ---- The checks of /readyz.

static void local_check_read(slice_t json, size_t index, const char *member, char *out, size_t size) {
    json_value_t value;
    buffer_t text = {0};
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/checks/%zu/%s", index, member);
    if (json_find(json, pointer, &value) == JSON_FOUND && value.type == JSON_STRING && json_decode(value.raw, &text))
        snprintf(out, size, "%s", buffer_text(&text));
    for (char *at = out; *at; at++)
        if (*at == '\n') *at = at[1] ? ';' : '\0'; // the check `roles` has a line for each role that hangs
    buffer_free(&text);
}

void local_instance_read(const config_t *config, local_instance_t *instance) {
    buffer_t body = {0};
    local_instance_ask(config, "/readyz", READ_TIMEOUT_S, instance, &body);
    const slice_t json = {buffer_text(&body), body.len};
    for (size_t i = 0; instance->state == LOCAL_ANSWERED && i < LOCAL_CHECKS_MAX; i++) {
        local_check_t *check = &instance->checks[i];
        local_check_read(json, i, "check", check->name, sizeof check->name);
        local_check_read(json, i, "why", check->why, sizeof check->why);
        local_check_read(json, i, "state", check->state, sizeof check->state);
        if (!*check->name) break;
        instance->count++;
    }
    buffer_free(&body);
}
