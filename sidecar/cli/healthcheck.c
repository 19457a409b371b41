// queue-sidecar healthcheck: asks a running sidecar on this machine whether it is well, for those who have no curl in the
// container.
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "config.h"

enum { PATIENCE_S = 5, ANSWER_BYTES = 8192 };

// Connects; -1 with the reason in *why.
static int reach(const config_t *config, const char **why) {
    // Who listens everywhere is asked here.
    bool anywhere = strcmp(config->http.listen, "0.0.0.0") == 0 || strcmp(config->http.listen, "::") == 0;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    struct timeval patience = {.tv_sec = PATIENCE_S};
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
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) break;
        *why = strerror(errno);
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

// Sends the request and reads the answer, cut at ANSWER_BYTES. False: none came.
static bool ask(int fd, const char *path, char answer[ANSWER_BYTES + 1]) {
    size_t len = 0;
    char request[100];
    int size = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    if (send(fd, request, (size_t)size, MSG_NOSIGNAL) != size) return false;
    for (ssize_t got; len < ANSWER_BYTES && (got = recv(fd, answer + len, ANSWER_BYTES - len, 0)) > 0;) len += (size_t)got;
    answer[len] = '\0';
    return strncmp(answer, "HTTP/1.", 7) == 0;
}

static int check(const config_t *config, bool ready) {
    char answer[ANSWER_BYTES + 1];
    const char *why = "nobody answers";
    const char *path = ready ? "/readyz" : "/healthz";
    if (config->http.port == 0) {
        fputs("queue-sidecar healthcheck: http.port is 0, so health is not served: give it a port\n", stderr);
        return CLI_FAILED;
    }
    int fd = reach(config, &why);
    bool answered = fd >= 0 && ask(fd, path, answer);
    if (fd >= 0) close(fd);
    if (!answered) {
        fprintf(stderr, "queue-sidecar healthcheck: %s port %lld: %s\n", config->http.listen, (long long)config->http.port, why);
        return CLI_FAILED;
    }
    const char *body = strstr(answer, "\r\n\r\n");
    fputs(body ? body + 4 : "", stdout);
    return strncmp(answer + 8, " 200", 4) == 0 ? CLI_OK : CLI_FAILED;
}

typedef struct given {
    const char *config;
    bool ready;
} given_t;

static int healthcheck(int argc, char **argv) {
    given_t given = {0};
    int status = cli_parse(argc, argv, &cli_healthcheck_command, &given);
    if (status != CLI_OK) return status;
    config_t *config = cli_load_config(cli_config_path(given.config));
    if (!config) return CLI_BAD_CONFIG;
    status = check(config, given.ready);
    config_free(config);
    return status;
}

static const cli_option_t options[] = {
    CLI_OPTION_CONFIG(given_t),
    {.name = "ready",
     .at = offsetof(given_t, ready),
     .help = "whether it does its part (it has Redis, and leads or stands by), not only whether it turns"},
};

const cli_command_t cli_healthcheck_command = {
    .name = "healthcheck",
    .summary = "Ask a running sidecar whether it is well",
    .examples = "queue-sidecar healthcheck\tasks /healthz where the config says that it is served\n"
                "queue-sidecar healthcheck --ready\tasks /readyz, and prints what it says\n",
    .usage = "healthcheck [-c FILE] [--ready]",
    CLI_OPTIONS(options),
    .text = "For HEALTHCHECK of docker and podman, and for exec probes.",
    .exits = "0 well\n1 not, or nobody answers\n2 wrong usage\n78 bad config\n",
    .run = healthcheck,
};
