/* The limits of a reply. */
#include "redis/socket/reply_guard.h"

#include "fixture.h"

static outcome_t ask(fixture_t *f, const char *command) {
    request_begin(f->conn, command, "x");
    return request_ask(f->conn, NULL, &f->error);
}

/* Returns `len` bytes behind this head; owned. */
static char *long_reply(const char *head, size_t len) {
    char *text = kept(mem_alloc(strlen(head) + len + 1));
    strcpy(text, head);
    memset(text + strlen(head), 'x', len);
    return text;
}

/* A hostile server: text without an end, and heads that announce more than any memory holds. */
Test(redis_conn_limits, a_reply_larger_than_any_that_was_asked_for_closes_the_connection) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.proxy = true});
    char *replies[] = {long_reply("+", MAX_REPLY + 1), long_reply("-ERR ", MAX_REPLY + 1),
                       long_reply("$1600000000\r\n", MAX_REPLY + 1), mem_str("*2000000000\r\n:1"),
                       mem_str("*1000\r\n*1000000\r\n*1000000\r\n:1")};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "ECHO x", .error = replies[i]});
        cr_assert_eq(ask(&f, "ECHO"), OUTCOME_DISCONNECTED, "%.20s", replies[i]);
        cr_assert_not_null(strstr(f.error.text, "larger than any reply that was asked for"), "%.20s: %s", replies[i],
                           f.error.text);
        cr_assert_not(conn_is_open(f.conn));
        proxy_pass(f.proxy);
        free(replies[i]);
    }
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(ask(&f, "ECHO"), OUTCOME_OK, "%s", f.error.text);
}

/* Only the next reply may be larger, and what has come behind it counts for the reply that follows. */
Test(redis_conn_limits, a_reply_with_a_job_may_be_larger) {
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    char *job = long_reply("", MAX_REPLY + 1);
    redis_ok(f.r, "SET x %b", job, (size_t)MAX_REPLY + 1);
    for (int round = 0; round < 2; round++) {
        request_append(f.conn, "GET", "x");
        request_append(f.conn, "PING");
        conn_expect_job(f.conn);
        redisReply *reply;
        cr_assert_eq(conn_read(f.conn, 0, &reply, &f.error), OUTCOME_OK, "%s", f.error.text);
        cr_assert_eq(reply->len, MAX_REPLY + 1);
        conn_reply_free(reply);
        cr_assert_eq(conn_read(f.conn, 0, &reply, &f.error), OUTCOME_OK, "%s", f.error.text);
        conn_reply_free(reply);
    }
    cr_assert_eq(ask(&f, "GET"), OUTCOME_DISCONNECTED);
}
