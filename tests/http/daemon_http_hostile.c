/* Strangers on the port of the API: requests of a doubtful form, floods of wrong tokens, slow readers. */
#include <poll.h>

#include "api_fixture.h"
#include "base/digest.h"

static cluster_t cluster;
static int port;
SUITE(daemon_http_hostile, , cluster_end(&cluster));

#define ORDER "{\"action\":\"requeue\",\"refs\":[\"zzzz\"]}"
#define POST                                                                                                                     \
    "POST /api/v1/answers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " ALL                        \
    "\r\nContent-Type: application/json\r\n"
#define GET "GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " ALL "\r\n"

/* A proxy in front may look at the other header, or find another end of the body. */
Test(daemon_http_hostile, request_that_two_servers_may_read_differently_is_refused) {
    api_begin(&cluster, 0, &port, (sidecar_t){.http = "user_header = \"X-User\";"});
    static const struct {
        int code;
        const char *request;
    } cases[] = {
        {404, POST "Content-Length: 36\r\n\r\n" ORDER},
        {404, POST "Transfer-Encoding: chunked\r\n\r\n24\r\n" ORDER "\r\n0\r\n\r\n"},
        {400, POST "Content-Length: 36\r\nContent-Length: 5\r\n\r\n" ORDER},
        {400, POST "Content-Length: 36\r\ncontent-length: 36\r\n\r\n" ORDER},
        {400, POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n24\r\n" ORDER "\r\n0\r\n\r\n"},
        {400, POST "Transfer-Encoding: identity\r\nContent-Length: 36\r\n\r\n" ORDER},
        {400, POST "Transfer-Encoding: gzip\r\n\r\n" ORDER},
        {400, POST "Content-Type: text/plain\r\nContent-Length: 36\r\n\r\n" ORDER},
        {400, POST "Origin: http://localhost\r\nOrigin: http://evil.example\r\nContent-Length: 36\r\n\r\n" ORDER},
        {400, POST "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 36\r\n\r\n" ORDER},
        {200, GET "\r\n"},
        {200, GET "Content-Length: 0\r\n\r\n"},
        {400, GET "Host: evil.example\r\n\r\n"},
        {400, GET "Host: localhost\r\n\r\n"},
        {400, GET "Authorization: Bearer " LOOK "\r\n\r\n"},
        {400, GET "X-User: eve\r\nX-User: dave\r\n\r\n"},
        {200, GET "X-Other: eve\r\nX-Other: dave\r\n\r\n"},
        {400, GET "Content-Length: 2\r\n\r\n{}"},
        {400, GET "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"},
        {405, "GET /api/v1/answers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"},
        {200, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"},
        {404, "GET http://evil.example/api/v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"},
        {421, "GET /api/v1/session HTTP/1.0\r\n\r\n"},
        {200, "GET /api/v1/session HTTP/1.0\r\nHost: localhost\r\n\r\n"},
        {405, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *answer = ask(port, cases[i].request);
        cr_expect_eq(code_of(answer), cases[i].code, "%s: %s", cases[i].request, answer);
    }
}

Test(daemon_http_hostile, path_is_what_a_proxy_sees) {
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    static const char *const paths[] = {"/api/v1%2fsession", "/api%2Fv1/session",      "/api/v1/session%00",  "/api/v1/./session",
                                        "//api/v1/session",  "/api/v1/x/../session",   "/api/v1/session%2e/", "/api/v1/session/.",
                                        "/api/v1/session;x", "/api/v1/failures/%c0%af"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        expect_code(404, ask(port, kept_printf("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: "
                                               "Bearer " ALL "\r\n\r\n",
                                               paths[i])));
}

Test(daemon_http_hostile, pipelined_requests_are_answered_in_order) {
    api_begin(&cluster, 3, &port, (sidecar_t){0});
    static const char read[] =
        "GET /api/v1/failures?limit=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " ALL "\r\n\r\n";
    static const char write[] = "POST /api/v1/answers HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " ALL
                                "\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n" ORDER;
    char *answers = ask(port, kept_printf("%s%s%s" GET "\r\n", read, write, read)), *at = answers;
    static const char *const wanted[] = {"\"items\":[{", "no event has the ref", "\"items\":[{", "\"name\":\"alice\""};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        at = strstr(at, wanted[i]);
        cr_assert(at, "%s does not come: %s", wanted[i], answers);
        at++;
    }
}

Test(daemon_http_hostile, longest_text_fits_into_a_query) {
    enum { TEXT = 4096 };
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    char *text = kept(calloc(1, 3 * TEXT + 1));
    for (int i = 0; i < TEXT; i++) memcpy(text + 3 * i, "%e4%bd%a0" + 3 * (i % 3), 3);
    memcpy(text + 3 * (TEXT - 1), "%61", 3); /* 4,095 bytes are 1,365 characters */
    expect_code(200, look(port, kept_printf("/failures?text=%s", text)));
    expect_code(400, look(port, kept_printf("/failures?text=%sa", text)));
}

static int begin_request(const char *request) {
    int fd = connect_to(port);
    if (fd >= 0) (void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
    return fd;
}

enum { FLOOD = 100, ROUNDS = 10 };
#define WRONG                                                                                                                    \
    "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "                              \
    "wrong-token-0123456789\r\n\r\n"

static void flood(int fds[FLOOD], const char *request) {
    for (int i = 0; i < FLOOD; i++) {
        if (fds[i] > 0) close(fds[i]);
        fds[i] = begin_request(request);
    }
}

/* Wrong tokens make all that have a token wait: for that time the flood must not replace them, nor take all connections. */
Test(daemon_http_hostile, flood_of_wrong_tokens_locks_nobody_out) {
    static int strangers[2][FLOOD];
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    flood(strangers[0], WRONG);
    for (int i = 0; i < ROUNDS; i++) {
        int good = begin_request("GET /api/v1/failures HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: "
                                 "Bearer " ALL "\r\n\r\n");
        cr_assert_geq(good, 0);
        flood(strangers[i % 2], WRONG);
        int64_t began_us = wait_now_us();
        cr_expect(says(port, "/healthz", "HTTP/1.1 200"));
        cr_expect_lt(wait_now_us() - began_us, wait_scaled_ms(400) * INT64_C(1000), "a probe waits");
        flood(strangers[(i + 1) % 2], WRONG);
        expect_code(200, read_all(good));
        close(good);
    }
    cr_assert(daemon_running(d));
}

/* Without room for them in the backlog, they and the probe would all try again in the same second. */
Test(daemon_http_hostile, burst_of_connections_delays_no_probe) {
    enum { BURST = 900 };
    static int burst[BURST];
    struct sockaddr_in address;
    leading(&cluster, (sidecar_t){0}, &port);
    address = loopback(port);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < BURST; k++) {
            burst[k] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            (void)!connect(burst[k], (struct sockaddr *)&address, sizeof address);
        }
        int64_t began_us = wait_now_us();
        cr_expect(says(port, "/healthz", "HTTP/1.1 200"));
        cr_expect_lt(wait_now_us() - began_us, wait_scaled_ms(900) * INT64_C(1000));
        for (int k = 0; k < BURST; k++) close(burst[k]);
    }
}

/* A search is worked on for up to a second: idle strangers go first. */
Test(daemon_http_hostile, idle_strangers_end_no_search) {
    static int strangers[FLOOD];
    api_begin(&cluster, 20000, &port, (sidecar_t){0});
    int search = begin_request("GET /api/v1/failures?text=nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Authorization: Bearer " ALL "\r\n\r\n");
    flood(strangers, "GET /heal");
    flood(strangers, "");
    expect_code(200, read_all(search));
    close(search);
}

static bool is_closed(int fd) {
    struct pollfd server = {.fd = fd, .events = POLLRDHUP};
    return poll(&server, 1, 0) == 1 && server.revents != 0;
}

/* A request must come within ten seconds, but a large answer may take longer: through a slow network. */
Test(daemon_http_hostile, slow_reader_gets_all_of_a_large_payload) {
    enum { BYTES = 8 << 20, SOME = 4096 };
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){0});
    char *payload = kept(malloc(BYTES)), *text = kept(malloc(BYTES + 4096));
    memset(payload, 'x', BYTES);
    digest_t digest = digest_of("1", 1);
    char id[DIGEST_HEX_SIZE];
    digest_hex(&digest, id);
    redis_ok(cluster.r,
             "XADD sidecar:q:failures * event %s kind failed dialect list queue q job 1 reason reported at 1700000000000 size %d "
             "payload %b",
             id, BYTES, payload, (size_t)BYTES);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 1, 20000));
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events");
    int fd = begin_request(kept_printf("GET /api/v1/failures/%s/payload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                       "Authorization: Bearer " ALL "\r\n\r\n",
                                       ref));
    size_t len = 0;
    for (int i = 0; i < 12; i++) {
        ssize_t got = read(fd, text + len, SOME);
        cr_assert_gt(got, 0);
        len += (size_t)got;
        cr_assert_not(wait_for(is_closed(fd), 1000), "after %d s", i);
    }
    for (ssize_t got; (got = read(fd, text + len, BYTES + 4096 - len)) > 0;) len += (size_t)got;
    close(fd);
    expect_code(200, text);
    cr_expect_eq(len - (size_t)(body_of(text) - text), (size_t)BYTES);
}

/* As Kubernetes and careful editors replace a file. */
Test(daemon_http_hostile, replaced_token_file_refuses_no_good_token_meanwhile) {
    api_begin(&cluster, 3, &port, (sidecar_t){0});
    char *path = temp_path(temp_root(), "tokens"), *next = temp_path(temp_root(), "tokens.next");
    for (int i = 0; i < 16; i++) { /* from ten refused tokens on, all would wait */
        temp_write(next, i % 2 ? LINES : "# again\n" LINES "carol look carol-token-0123456789\n");
        int fd = begin_request(GET "\r\n");
        cr_assert_eq(rename(next, path), 0);
        expect_code(200, read_all(fd));
        close(fd);
        expect_code(i % 2 ? 401 : 200, call(port, "/session", (call_t){.token = "carol-token-0123456789"}));
    }
}
