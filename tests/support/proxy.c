#include "kept.h"
#include "proxy_link.h"

#include "tempdir.h"
#include "tls_harness.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_LINKS = 200 };

static void wake(proxy_t *proxy) {
    if (write(proxy->wake[1], "w", 1) < 0 && errno != EAGAIN) abort();
}

static void close_links(proxy_t *proxy, bool all) {
    session_t **at = &proxy->links;
    while (*at) {
        session_t *link = *at;
        if (all || link->broken) {
            *at = link->next;
            proxy_link_close(link);
        } else {
            at = &link->next;
        }
    }
}

/* Does what the poll made possible; under the lock. `polled` has the listener, the pipe, then two entries per link. */
static void work(proxy_t *proxy, const struct pollfd *polled, size_t count) {
    char drain[64];
    if (polled[1].revents) {
        while (read(proxy->wake[0], drain, sizeof(drain)) > 0) {
        }
    }
    size_t at = 2;
    for (session_t *link = proxy->links; link; link = link->next, at += 2) {
        /* The list is the same as at the poll: only this thread adds or removes links (proxy_disconnect only marks them). */
        short client = at < count ? polled[at].revents : 0;
        short server = at + 1 < count ? polled[at + 1].revents : 0;
        if (!link->broken) proxy_link_work(proxy, link, client, server);
    }
    close_links(proxy, false);
    if (polled[0].revents & POLLIN) {
        int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client >= 0) proxy_link_open(proxy, client);
    }
}

static void *run(void *argument) {
    proxy_t *proxy = argument;
    for (;;) {
        struct pollfd polled[2 + 2 * MAX_LINKS];
        size_t count = 2;
        polled[0] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
        pthread_mutex_lock(&proxy->lock);
        if (proxy->stopping) break;
        for (session_t *link = proxy->links; link && count < 2 + 2 * MAX_LINKS; link = link->next, count += 2)
            proxy_link_events(proxy, link, &polled[count]);
        pthread_mutex_unlock(&proxy->lock);
        if (poll(polled, count, -1) < 0) continue;
        pthread_mutex_lock(&proxy->lock);
        work(proxy, polled, count);
        pthread_mutex_unlock(&proxy->lock);
    }
    close_links(proxy, true);
    pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

proxy_t *proxy_start(const char *upstream_socket) {
    proxy_t *proxy = calloc(1, sizeof(*proxy));
    if (!proxy) abort();
    proxy->dir = temp_dir("proxy");
    proxy->socket = temp_path(proxy->dir, "proxy.sock");
    proxy->upstream = strdup(upstream_socket);
    proxy->cut_up = proxy->cut_down = -1;
    pthread_mutex_init(&proxy->lock, NULL);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", proxy->socket);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = bind(proxy->listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(proxy->listener, 128) == 0 &&
                pipe2(proxy->wake, O_CLOEXEC | O_NONBLOCK) == 0;
    cr_assert(good, "the proxy cannot listen on %s: %s", proxy->socket, strerror(errno));
    sigset_t all, before; /* the test's own thread must receive the signals */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    good = pthread_create(&proxy->thread, NULL, run, proxy) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    cr_assert(good);
    tls_harness_relay(proxy->socket);
    return proxy;
}

static void clear_rules(proxy_t *proxy) {
    for (size_t i = 0; i < proxy->rule_count; i++) {
        void *strings[2];
        memcpy(&strings[0], &proxy->rules[i].rule.match, sizeof(void *));
        memcpy(&strings[1], &proxy->rules[i].rule.error, sizeof(void *));
        free(strings[0]);
        free(strings[1]);
    }
    proxy->rule_count = 0;
}

void proxy_stop(proxy_t *proxy) {
    if (!proxy) return;
    tls_harness_remove(proxy->socket);
    pthread_mutex_lock(&proxy->lock);
    proxy->stopping = true;
    pthread_mutex_unlock(&proxy->lock);
    wake(proxy);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
    close(proxy->wake[0]);
    close(proxy->wake[1]);
    temp_remove(proxy->dir);
    clear_rules(proxy);
    for (size_t i = 0; i < proxy->log_count; i++) free(proxy->log[i]);
    free(proxy->log);
    free(proxy->dir);
    free(proxy->socket);
    free(proxy->upstream);
    pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}

const char *proxy_socket(const proxy_t *proxy) { return proxy->socket; }

/* Every change is made under the lock, and then the thread is woken. */
static void begin(proxy_t *proxy) { pthread_mutex_lock(&proxy->lock); }

static void end(proxy_t *proxy) {
    pthread_mutex_unlock(&proxy->lock);
    wake(proxy);
}

void proxy_pass(proxy_t *proxy) {
    begin(proxy);
    clear_rules(proxy);
    proxy->stalled = 0;
    proxy->cut_up = proxy->cut_down = -1;
    proxy->refuse_new = false;
    for (session_t *link = proxy->links; link; link = link->next) {
        link->held = false;
        for (size_t i = 0; i < link->asked; i++) {
            if (link->pending[i].rule == PROXY_HOLD) link->pending[i].rule = -1;
        }
    }
    end(proxy);
}

void proxy_rule(proxy_t *proxy, proxy_rule_t rule) {
    bool needs_error = rule.action == PROXY_REFUSE || rule.action == PROXY_REPLACE;
    cr_assert(needs_error == (rule.error != NULL), "an error goes with REFUSE and REPLACE, and only with them");
    begin(proxy);
    bool room = proxy->rule_count < MAX_RULES;
    if (room) {
        rule.match = rule.match ? strdup(rule.match) : NULL;
        rule.error = rule.error ? strdup(rule.error) : NULL;
        proxy->rules[proxy->rule_count++] = (live_rule_t){.rule = rule};
    }
    end(proxy);
    cr_assert(room, "too many proxy rules");
}

void proxy_stall(proxy_t *proxy, proxy_way_t way) {
    begin(proxy);
    proxy->stalled |= (int)way;
    end(proxy);
}

static void pass_some(proxy_t *proxy, proxy_way_t way, long bytes, bool stall) {
    begin(proxy);
    if (way & PROXY_UP) proxy->cut_up = bytes;
    if (way & PROXY_DOWN) proxy->cut_down = bytes;
    proxy->stall_at_cut = stall;
    end(proxy);
}

void proxy_cut_after(proxy_t *proxy, proxy_way_t way, long bytes) { pass_some(proxy, way, bytes, false); }

void proxy_stall_after(proxy_t *proxy, proxy_way_t way, long bytes) { pass_some(proxy, way, bytes, true); }

void proxy_disconnect(proxy_t *proxy) {
    begin(proxy);
    for (session_t *link = proxy->links; link; link = link->next) link->broken = true;
    end(proxy);
}

void proxy_lead_to(proxy_t *proxy, const char *upstream_socket) {
    begin(proxy);
    free(proxy->upstream);
    proxy->upstream = strdup(upstream_socket);
    for (session_t *link = proxy->links; link; link = link->next) link->broken = true;
    end(proxy);
}

void proxy_refuse_new(proxy_t *proxy, bool refuse) {
    begin(proxy);
    proxy->refuse_new = refuse;
    end(proxy);
}

long proxy_requests(proxy_t *proxy, const char *match) {
    begin(proxy);
    long count = 0;
    for (size_t i = 0; i < proxy->log_count; i++) count += !match || strstr(proxy->log[i], match);
    pthread_mutex_unlock(&proxy->lock);
    return count;
}

/* Reads one number under the lock. */
#define READ(type, name, expression)                                                                                             \
    type name(proxy_t *proxy) {                                                                                                  \
        begin(proxy);                                                                                                            \
        type value = expression;                                                                                                 \
        pthread_mutex_unlock(&proxy->lock);                                                                                      \
        return value;                                                                                                            \
    }
READ(long, proxy_replies, proxy->replies)
READ(long, proxy_fired, proxy->fired)
READ(int, proxy_connections_total, proxy->accepted)

int64_t proxy_bytes(proxy_t *proxy, proxy_way_t way) {
    begin(proxy);
    int64_t bytes = way == PROXY_UP ? proxy->bytes_up : proxy->bytes_down;
    pthread_mutex_unlock(&proxy->lock);
    return bytes;
}

int proxy_connections(proxy_t *proxy) {
    begin(proxy);
    int count = 0;
    for (const session_t *link = proxy->links; link; link = link->next) count++;
    pthread_mutex_unlock(&proxy->lock);
    return count;
}

char *proxy_log(proxy_t *proxy) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) abort();
    begin(proxy);
    for (size_t i = 0; i < proxy->log_count; i++) fprintf(out, "%s\n", proxy->log[i]);
    pthread_mutex_unlock(&proxy->lock);
    fclose(out);
    return kept(text);
}
