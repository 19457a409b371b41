/* Tests of the test support: the proxy, with a real server. */
#include "proxy.h"
#include "resp.h"
#include "server.h"
#include "suite.h"
#include "wait.h"

typedef struct {
    server_t *server;
    proxy_t *proxy;
    redis_t *direct, *r; /* past the proxy, and through it */
} setup_t;

static setup_t setup(void) {
    setup_t b = {.server = server_start(NULL)};
    b.proxy = proxy_start(server_socket(b.server));
    b.direct = redis_open(b.server);
    b.r = redis_open_path(proxy_socket(b.proxy), 5000);
    return b;
}

static void teardown(setup_t *b) {
    redis_close(b->r);
    redis_close(b->direct);
    proxy_stop(b->proxy);
    server_free(b->server);
}

static void reconnect(setup_t *b) {
    redis_close(b->r);
    b->r = redis_open_path(proxy_socket(b->proxy), 5000);
}

static setup_t b;
SUITE(redis_support_proxy, b = setup(), teardown(&b));

Test(redis_support_resp, finds_the_end_of_a_frame) {
    static const char *const frames[] = {"+OK\r\n",
                                         "$-1\r\n",
                                         "$3\r\na\r\n\r\n",
                                         "*-1\r\n",
                                         "*0\r\n",
                                         "*2\r\n*1\r\n:5\r\n$0\r\n\r\n",
                                         "%1\r\n+k\r\n#t\r\n",
                                         ">2\r\n+a\r\n+b\r\n",
                                         "|1\r\n+k\r\n+v\r\n:3\r\n",
                                         "=7\r\ntxt:abc\r\n"};
    for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
        size_t length = strlen(frames[i]);
        for (size_t part = 0; part < length; part++)
            cr_assert_eq(resp_reply_length(frames[i], part), 0, "%s at %zu", frames[i], part);
        cr_assert_eq(resp_reply_length(frames[i], length), (ssize_t)length, "%s", frames[i]);
    }
    cr_assert_eq(resp_reply_length("hello\r\n", 7), -1);
    cr_assert_eq(resp_request_length("PING\r\n", 6), 6);
}

Test(redis_support_proxy, passes_and_counts) {
    char *big = kept(malloc(300000));
    memset(big, 'x', 300000);
    redis_ok(b.r, "SET big %b", big, (size_t)300000);
    cr_assert_eq(redis_int(b.r, "STRLEN big"), 300000);
    for (int i = 0; i < 500; i++) cr_assert_eq(redisAppendCommand(b.r, "RPUSH q %d", i), REDIS_OK);
    for (int i = 0; i < 500; i++) {
        redisReply *reply = NULL;
        cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_OK);
        cr_assert_eq(reply->integer, i + 1);
        freeReplyObject(reply);
    }
    redis_str(b.r, "GET big");
    cr_assert_eq(proxy_requests(b.proxy, NULL), 503);
    cr_assert_eq(proxy_requests(b.proxy, "RPUSH q 49"), 11);
    cr_assert_eq(proxy_replies(b.proxy), 503);
    cr_assert_gt(proxy_bytes(b.proxy, PROXY_UP), 300000);
    cr_assert_gt(proxy_bytes(b.proxy, PROXY_DOWN), 300000);
    cr_assert_eq(proxy_connections(b.proxy), 1);
    char *log = proxy_log(b.proxy);
    cr_assert_not_null(strstr(log, "STRLEN big\nRPUSH q 0\nRPUSH q 1\n"));
}

Test(redis_support_proxy, passes_subscriptions_and_their_messages) {
    redisReply *reply = redis_do(b.r, "SUBSCRIBE one two");
    freeReplyObject(reply);
    cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_OK);
    cr_assert_str_eq(reply->element[1]->str, "two");
    freeReplyObject(reply);
    cr_assert_eq(redis_int(b.direct, "PUBLISH one hello"), 1);
    cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_OK);
    cr_assert_str_eq(reply->element[2]->str, "hello");
    freeReplyObject(reply);
    cr_assert_eq(proxy_replies(b.proxy), 2);
}

Test(redis_support_proxy, loses_a_reply_though_the_command_ran) {
    proxy_rule(b.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "LPUSH", .nth = 2});
    cr_assert_eq(redis_int(b.r, "LPUSH q a"), 1);
    redis_ok(b.r, "PING");
    cr_assert_null(redisCommand(b.r, "LPUSH q b"));
    cr_assert_eq(redis_int(b.direct, "LLEN q"), 2);
    cr_assert_eq(proxy_fired(b.proxy), 1);
    reconnect(&b);
    cr_assert_eq(redis_int(b.r, "LPUSH q c"), 3);
}

Test(redis_support_proxy, drops_a_request_unseen_after_answering_those_before) {
    proxy_rule(b.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = "LPUSH q b"});
    cr_assert_eq(redisAppendCommand(b.r, "LPUSH q a"), REDIS_OK);
    cr_assert_eq(redisAppendCommand(b.r, "LPUSH q b"), REDIS_OK);
    cr_assert_eq(redisAppendCommand(b.r, "LPUSH q c"), REDIS_OK);
    redisReply *reply = NULL;
    cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_OK);
    cr_assert_eq(reply->integer, 1);
    freeReplyObject(reply);
    cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_ERR);
    cr_assert_eq(redis_int(b.direct, "LLEN q"), 1);
}

Test(redis_support_proxy, gives_errors_in_the_order_of_a_pipeline) {
    static const char *const errors[] = {"-LOADING x",  "-READONLY x", "-BUSY x",       "-MASTERDOWN x", "-CLUSTERDOWN x",
                                         "-TRYAGAIN x", "-MISCONF x",  "-NOREPLICAS x", "-NOPERM x"};
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        proxy_action_t action = i % 2 ? PROXY_REFUSE : PROXY_REPLACE;
        proxy_rule(b.proxy, (proxy_rule_t){.action = action, .match = "INCR", .error = errors[i]});
        redis_ok(b.direct, "SET n 0");
        const char *const commands[] = {"ECHO a", "INCR n", "ECHO b"};
        for (size_t c = 0; c < 3; c++) cr_assert_eq(redisAppendCommand(b.r, commands[c]), REDIS_OK);
        const char *const expected[] = {"a", errors[i] + 1, "b"};
        for (size_t c = 0; c < 3; c++) {
            redisReply *reply = NULL;
            cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_OK);
            cr_assert_str_eq(reply->str, expected[c]);
            freeReplyObject(reply);
        }
        redis_expect(b.direct, i % 2 ? "0" : "1", "GET n");
        proxy_pass(b.proxy);
    }
    cr_assert_eq(redis_int(b.r, "INCR n"), 2);
}

Test(redis_support_proxy, fires_as_often_as_asked) {
    proxy_rule(b.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .error = "-BUSY x", .times = 2});
    redis_error(b.r, "PING");
    redis_error(b.r, "PING");
    redis_expect(b.r, "PONG", "PING");
    proxy_rule(b.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "GET a", .error = "-BUSY x", .times = -1});
    for (int i = 0; i < 5; i++) free(redis_error(b.r, "GET a"));
    redis_expect(b.r, NULL, "GET b");
    proxy_pass(b.proxy);
    redis_expect(b.r, NULL, "GET a");
    cr_assert_eq(proxy_fired(b.proxy), 7);
}

Test(redis_support_proxy, stalls_and_delivers_later) {
    proxy_stall(b.proxy, PROXY_DOWN);
    cr_assert_eq(redisAppendCommand(b.r, "LPUSH q a"), REDIS_OK);
    int done = 0;
    cr_assert_eq(redisBufferWrite(b.r, &done), REDIS_OK);
    cr_assert(wait_for(redis_int(b.direct, "LLEN q") == 1, 5000)); /* the server has run it */
    cr_assert_eq(proxy_replies(b.proxy), 0);
    proxy_pass(b.proxy);
    redisReply *reply = NULL;
    cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
    proxy_stall(b.proxy, PROXY_BOTH);
    redis_t *other = redis_open_path(proxy_socket(b.proxy), 50);
    cr_assert_not_null(other);
    cr_assert_null(redisCommand(other, "LPUSH q b")); /* times out */
    redis_close(other);
    cr_assert_eq(redis_int(b.direct, "LLEN q"), 1);
}

Test(redis_support_proxy, holds_one_reply_back) {
    proxy_rule(b.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "LPUSH"});
    cr_assert_eq(redisAppendCommand(b.r, "LPUSH q a"), REDIS_OK);
    cr_assert_eq(redisAppendCommand(b.r, "PING"), REDIS_OK);
    int done = 0;
    cr_assert_eq(redisBufferWrite(b.r, &done), REDIS_OK);
    cr_assert(wait_for(redis_int(b.direct, "LLEN q") == 1, 5000));
    redis_t *other = redis_open_path(proxy_socket(b.proxy), 5000);
    redis_expect(other, "PONG", "PING"); /* other connections go on */
    redis_close(other);
    cr_assert_eq(proxy_replies(b.proxy), 1);
    proxy_pass(b.proxy);
    for (int i = 0; i < 2; i++) {
        redisReply *reply = NULL;
        cr_assert_eq(redisGetReply(b.r, (void **)&reply), REDIS_OK);
        freeReplyObject(reply);
    }
}

Test(redis_support_proxy, cuts_at_any_byte) {
    static const char request[] = "*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$1\r\na\r\n";
    for (long byte = 0; byte < (long)sizeof(request) - 1; byte++) {
        reconnect(&b);
        proxy_cut_after(b.proxy, PROXY_UP, byte);
        cr_assert_null(redisCommand(b.r, "LPUSH q a"), "at byte %ld", byte);
    }
    cr_assert_eq(redis_int(b.direct, "EXISTS q"), 0);
    reconnect(&b);
    proxy_cut_after(b.proxy, PROXY_DOWN, 3); /* of ":1\r\n" */
    cr_assert_null(redisCommand(b.r, "LPUSH q a"));
    cr_assert_eq(redis_int(b.direct, "LLEN q"), 1);
    cr_assert_eq(proxy_fired(b.proxy), (long)sizeof(request));
}

Test(redis_support_proxy, disconnects_and_refuses) {
    redis_ok(b.r, "PING");
    proxy_disconnect(b.proxy);
    cr_assert_null(redisCommand(b.r, "PING"));
    proxy_refuse_new(b.proxy, true);
    reconnect(&b);
    cr_assert_null(redisCommand(b.r, "PING"));
    cr_assert_eq(proxy_connections(b.proxy), 0);
    proxy_pass(b.proxy);
    reconnect(&b);
    redis_expect(b.r, "PONG", "PING");
    server_kill(b.server);
    cr_assert_null(redisCommand(b.r, "PING"));
    cr_assert(wait_for(proxy_connections(b.proxy) == 0, 5000));
    server_restart(b.server, SERVER_LOSE_DATA);
    reconnect(&b);
    redis_expect(b.r, "PONG", "PING");
    cr_assert_eq(proxy_connections_total(b.proxy), 4);
}
