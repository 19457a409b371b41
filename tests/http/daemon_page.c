/* The files of the page: how they are served, and when they are not. The page itself is tested in a browser: tests/page. */
#include "api_fixture.h"
#include "child.h"

static cluster_t cluster;
static int port;
SUITE(daemon_page, , cluster_end(&cluster));

static char *file(const char *path, const char *host, const char *method) {
    return kept(ask(port, kept_printf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", method, path, host)));
}

Test(daemon_page, each_file_has_its_type_and_a_policy_that_lets_no_text_run) {
    static const char *const files[][2] = {{"/", "text/html; charset=utf-8"},
                                           {"/assets/app.js", "text/javascript; charset=utf-8"},
                                           {"/assets/app.css", "text/css; charset=utf-8"},
                                           {"/assets/icon.svg", "image/svg+xml"}};
    static const char *const headers[] = {"Content-Encoding: gzip\r\n",
                                          "Cache-Control: no-store\r\n",
                                          "X-Content-Type-Options: nosniff\r\n",
                                          "Referrer-Policy: no-referrer\r\n",
                                          "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
                                          "X-Frame-Options: DENY\r\n",
                                          "frame-ancestors 'none'",
                                          "require-trusted-types-for 'script'"};
    leading(&cluster, (sidecar_t){0}, &port);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *answer = file(files[i][0], "localhost", "GET");
        expect_code(200, answer);
        expect_says(answer, kept_printf("Content-Type: %s\r\n", files[i][1]));
        for (size_t k = 0; k < sizeof headers / sizeof *headers; k++) expect_says(answer, headers[k]);
        cr_expect_not(strstr(answer, "unsafe"), "%s", answer);
        cr_expect_eq(memcmp(body_of(answer), "\x1f\x8b", 2), 0, "is not gzipped");
        expect_code(200, file(files[i][0], "localhost", "HEAD"));
        expect_code(405, file(files[i][0], "localhost", "POST"));
        expect_code(421, file(files[i][0], "rebound.example.org", "GET"));
    }
    expect_code(404, file("/assets/app.jsx", "localhost", "GET"));
    expect_code(404, file("/index.html", "localhost", "GET"));
    expect_code(404, file("/assets/../etc/passwd", "localhost", "GET"));
}

Test(daemon_page, is_off_where_the_config_says_so_and_the_rest_stays) {
    leading(&cluster, (sidecar_t){.http = "page = false;"}, &port);
    expect_code(404, file("/", "localhost", "GET"));
    expect_code(404, file("/assets/app.js", "localhost", "GET"));
    expect_code(200, file("/healthz", "anything", "GET"));
    expect_code(200, file("/api/v1/status", "localhost", "GET"));
}
