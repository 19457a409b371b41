#include "proxy_link.h"

#include "resp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void append(bytes_t *bytes, const char *data, size_t length) {
    if (bytes->room - bytes->length < length) {
        bytes->room = (bytes->length + length) * 2;
        bytes->data = realloc(bytes->data, bytes->room);
        if (!bytes->data) abort();
    }
    if (length) memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

static void consume(bytes_t *bytes, size_t length) {
    if (length == 0) return;
    bytes->length -= length;
    memmove(bytes->data, bytes->data + length, bytes->length);
}

void proxy_link_open(proxy_t *proxy, int client) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", proxy->upstream);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    session_t *link = calloc(1, sizeof(*link));
    proxy->accepted++;
    if (!link || proxy->refuse_new || connect(server, (struct sockaddr *)&address, sizeof(address)) != 0) {
        free(link);
        close(server);
        close(client);
        return;
    }
    link->client = client;
    link->server = server;
    link->next = proxy->links;
    proxy->links = link;
}

void proxy_link_close(session_t *link) {
    close(link->client);
    close(link->server);
    for (size_t i = 0; i < link->asked; i++) free(link->pending[i].error);
    free(link->pending);
    free(link->from_client.data);
    free(link->to_server.data);
    free(link->from_server.data);
    free(link->to_client.data);
    free(link);
}

void proxy_link_events(const proxy_t *proxy, const session_t *link, struct pollfd *out) {
    bool up = !(proxy->stalled & PROXY_UP), down = !(proxy->stalled & PROXY_DOWN);
    out[0] = (struct pollfd){.fd = link->client};
    out[1] = (struct pollfd){.fd = link->server};
    if (up && !link->closing) out[0].events |= POLLIN;
    if (up && link->to_server.length) out[1].events |= POLLOUT;
    if (down && !link->held && !link->closing) out[1].events |= POLLIN;
    if (down && link->to_client.length) out[0].events |= POLLOUT;
    /* poll always reports a hang-up: leave out a side without wanted events, or the poll would spin. */
    if (!out[0].events) out[0].fd = -1;
    if (!out[1].events) out[1].fd = -1;
}

/* False at the end of the stream. */
static bool fill(int fd, bytes_t *bytes) {
    char chunk[65536];
    ssize_t got = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (got > 0) append(bytes, chunk, (size_t)got);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Writes what can be written now. When the bytes before a cut are written and there are more, breaks the link or stalls. */
static void flush(proxy_t *proxy, session_t *link, bool up) {
    bytes_t *bytes = up ? &link->to_server : &link->to_client;
    long *cut = up ? &proxy->cut_up : &proxy->cut_down;
    while (bytes->length && !link->broken) {
        size_t length = bytes->length;
        if (*cut >= 0 && (size_t)*cut < length) length = (size_t)*cut;
        ssize_t sent = length ? send(up ? link->server : link->client, bytes->data, length, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR) link->broken = true;
            return;
        }
        consume(bytes, (size_t)sent);
        *(up ? &proxy->bytes_up : &proxy->bytes_down) += sent;
        if (*cut >= 0) *cut -= sent;
        if (*cut == 0 && bytes->length) {
            *cut = -1;
            proxy->fired++;
            if (proxy->stall_at_cut) {
                proxy->stalled |= up ? PROXY_UP : PROXY_DOWN;
                return;
            }
            link->broken = true;
        }
    }
}

/* Counts the matches of all rules; returns the rule that acts on this request, or NULL. */
static const proxy_rule_t *judge(proxy_t *proxy, const char *text) {
    const proxy_rule_t *acting = NULL;
    for (size_t i = 0; i < proxy->rule_count; i++) {
        live_rule_t *live = &proxy->rules[i];
        const char *found = live->rule.match ? strstr(text, live->rule.match) : text;
        if (!found || (live->rule.begins && found != text)) continue;
        int first = live->rule.nth > 1 ? live->rule.nth : 1;
        int times = live->rule.times ? live->rule.times : 1;
        live->matches++;
        bool acts = live->matches >= first && (times < 0 || live->matches < first + times);
        if (acts && !acting) acting = &live->rule;
    }
    if (acting) proxy->fired++;
    return acting;
}

static void remember(proxy_t *proxy, char *text) {
    if (proxy->log_count == proxy->log_room) {
        proxy->log_room = proxy->log_room * 2 + 64;
        proxy->log = realloc(proxy->log, proxy->log_room * sizeof(*proxy->log));
        if (!proxy->log) abort();
    }
    proxy->log[proxy->log_count++] = text;
}

static void expect_reply(session_t *link, pending_t pending) {
    if (link->asked == link->room) {
        link->room = link->room * 2 + 16;
        link->pending = realloc(link->pending, link->room * sizeof(*link->pending));
        if (!link->pending) abort();
    }
    link->pending[link->asked++] = pending;
}

static void answered(session_t *link) {
    free(link->pending[0].error);
    link->asked--;
    memmove(link->pending, link->pending + 1, link->asked * sizeof(*link->pending));
}

static void take_request(proxy_t *proxy, session_t *link, const char *data, size_t length) {
    char *text = resp_request_text(data, length, length);
    long arguments = resp_request_arguments(data, length);
    remember(proxy, text);
    const proxy_rule_t *rule = judge(proxy, text);
    pending_t pending = {.rule = rule ? (int)rule->action : -1, .replies = 1};
    if (rule && rule->action == PROXY_DROP) {
        expect_reply(link, pending); /* earlier requests are answered, then the connection is closed */
        link->dropped = true;
        return;
    }
    if (rule && rule->error && asprintf(&pending.error, "%s\r\n", rule->error) < 0) abort();
    size_t name = strcspn(text, " ");
    if (name >= 9 && name <= 10 && !strncasecmp(text + name - 9, "subscribe", 9)) pending.replies = arguments - 1;
    if (arguments > 0) expect_reply(link, pending); /* an empty line has no reply */
    if (!rule || rule->action != PROXY_REFUSE) append(&link->to_server, data, length);
}

/* Answers refused requests that are next in order with their errors; closes the connection if a dropped one is next. */
static void answer_refused(proxy_t *proxy, session_t *link) {
    if (link->asked && link->pending[0].rule == PROXY_DROP) link->closing = true;
    while (link->asked && link->pending[0].rule == PROXY_REFUSE && !link->held) {
        append(&link->to_client, link->pending[0].error, strlen(link->pending[0].error));
        proxy->replies++;
        answered(link);
        if (link->asked && link->pending[0].rule == PROXY_DROP) link->closing = true;
    }
}

static void take_reply(proxy_t *proxy, session_t *link, const char *data, size_t length) {
    pending_t *first = link->asked && !resp_is_push(data, length) ? &link->pending[0] : NULL;
    if (first && first->rule == PROXY_LOSE) {
        link->closing = true;
        return;
    }
    if (first && first->error) {
        append(&link->to_client, first->error, strlen(first->error));
    } else {
        append(&link->to_client, data, length);
    }
    if (!first) return;
    proxy->replies++;
    if (--first->replies <= 0) answered(link);
}

static void take_requests(proxy_t *proxy, session_t *link) {
    size_t at = 0;
    while (!link->broken && !link->dropped) {
        ssize_t length = resp_request_length(link->from_client.data + at, link->from_client.length - at);
        if (length < 0) link->broken = true;
        if (length <= 0) break;
        take_request(proxy, link, link->from_client.data + at, (size_t)length);
        at += (size_t)length;
    }
    consume(&link->from_client, at);
}

static void take_replies(proxy_t *proxy, session_t *link) {
    size_t at = 0;
    answer_refused(proxy, link);
    while (!link->broken && !link->closing) {
        ssize_t length = resp_reply_length(link->from_server.data + at, link->from_server.length - at);
        if (length < 0) link->broken = true;
        if (length <= 0) break;
        if (link->asked && link->pending[0].rule == PROXY_HOLD && !resp_is_push(link->from_server.data + at, (size_t)length))
            link->held = true;
        if (link->held) break;
        take_reply(proxy, link, link->from_server.data + at, (size_t)length);
        at += (size_t)length;
        answer_refused(proxy, link);
    }
    consume(&link->from_server, at);
}

void proxy_link_work(proxy_t *proxy, session_t *link, short client_events, short server_events) {
    const short readable = POLLIN | POLLHUP | POLLERR;
    bool up = !(proxy->stalled & PROXY_UP), down = !(proxy->stalled & PROXY_DOWN);
    bool client_gone = up && (client_events & readable) && !fill(link->client, &link->from_client);
    bool server_gone = down && !link->held && (server_events & readable) && !fill(link->server, &link->from_server);
    if (up && !link->closing) take_requests(proxy, link);
    if (up) flush(proxy, link, true);
    if (down && !link->closing) take_replies(proxy, link);
    if (down) flush(proxy, link, false);
    if (client_gone || server_gone) link->closing = true;
    if (link->closing && !link->to_client.length && (server_gone || !link->to_server.length)) link->broken = true;
}
