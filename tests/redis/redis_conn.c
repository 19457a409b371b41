/* One connection: how it opens, how requests and replies pair, and how it ends. */
#include "fixture.h"
#include "queue/lock.h"
#include "tempdir.h"
#include "tls_harness.h"
#include "wait.h"

#include <malloc.h>
#include <sys/stat.h>

/* Sends ECHO and expects the same text. False: the connection was lost. */
static bool echoes(fixture_t *f, const char *text) {
    redisReply *reply = NULL;
    request_begin(f->conn, "ECHO");
    request_text(f->conn, text);
    outcome_t outcome = request_ask(f->conn, &reply, &f->error);
    cr_assert(outcome == OUTCOME_OK || outcome == OUTCOME_DISCONNECTED, "%s", f->error.text);
    if (reply) cr_assert_str_eq(reply->str, text);
    conn_reply_free(reply);
    return outcome == OUTCOME_OK;
}

static void expect_echo(fixture_t *f, const char *text) { cr_assert(echoes(f, text), "%s", f->error.text); }

static fixture_t f;

static outcome_t ask(const char *command, const char *argument) {
    redisReply *reply = NULL;
    request_begin(f.conn, command);
    request_text(f.conn, argument);
    outcome_t outcome = request_ask(f.conn, &reply, &f.error);
    cr_assert_eq(outcome == OUTCOME_OK, reply != NULL);
    conn_reply_free(reply);
    return outcome;
}

SUITE(redis_conn, , fixture_stop(&f));

Test(redis_conn, opens_once_and_returns_server_facts) {
    f = fixture_start(&(fixture_options_t){.proxy = true});
    bool valkey;
    char *version = server_version(f.server, &valkey);
    char *expected = kept_printf("%s %s", valkey ? "valkey" : "redis", version);
    cr_assert_str_eq(conn_server(f.conn), expected);
    cr_assert_geq(conn_version(f.conn), 60200);
    if (!tls_harness_is_on()) cr_assert_str_eq(conn_target(f.conn), proxy_socket(f.proxy));
    unsigned generation = conn_generation(f.conn);
    long requests = proxy_requests(f.proxy, NULL);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
    cr_assert_eq(conn_generation(f.conn), generation);
    cr_assert_eq(proxy_requests(f.proxy, NULL), requests, "an open connection sends nothing");
    redis_expect(f.r, "OK", "CLIENT SETNAME observer");
    char *list = redis_str(f.r, "CLIENT LIST");
    cr_assert_not_null(strstr(list, " name=test "), "%s", list);
    conn_close(f.conn);
    cr_assert(conn_fd(f.conn) == -1 && !conn_is_open(f.conn));
    cr_assert_eq(ask("ECHO", "x"), OUTCOME_DISCONNECTED, "a closed connection");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
    cr_assert_neq(conn_generation(f.conn), generation);
}

Test(redis_conn, speaks_tcp_too) {
    f = fixture_start(&(fixture_options_t){.tcp = true, .closed = true});
    scoped(config_drop) config_t *config =
        fixture_config("redis = { host = \"127.0.0.1\"; port = %d; }; queues = ( { name = \"q\"; } );", server_port(f.server));
    scoped(topology_drop) topology_t *topology = topology_new(&config->redis);
    scoped(conn_drop) conn_t *conn = conn_new(topology_shard(topology, 0), "tcp", NULL);
    cr_assert_eq(conn_open(conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    char *target = kept_printf("127.0.0.1:%d", server_port(f.server));
    cr_assert_str_eq(conn_target(conn), target);
    server_kill(f.server);
    conn_close(conn);
    cr_assert_eq(conn_open(conn, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_not_null(strstr(f.error.text, target), "%s", f.error.text);
}

Test(redis_conn, reads_versions_of_redis_and_valkey) {
    static const struct {
        const char *info, *server;
        int version;
    } rows[] = {
        {"# Server\r\nredis_version:6.2.14\r\nredis_git_sha1:0\r\n", "redis 6.2.14", 60214},
        {"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nos:x\r\n", "valkey 8.1.1", 70204},
        {"# Server\r\nredis_version:8.0.255\r\n", "redis 8.0.255", 80255},
        {"# Server\r\nredis_version:7.9\r\n", "redis 7.9", 70900},
        {"# Server\r\nos:x\r\n", "redis of an unknown version", 0},
        {"", "redis of an unknown version", 0},
    };
    f = fixture_start(&(fixture_options_t){.proxy = true, .closed = true});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *bulk = kept_printf("$%zu\r\n%s", strlen(rows[i].info), rows[i].info);
        proxy_pass(f.proxy);
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = "INFO server", .error = bulk});
        conn_close(f.conn);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
        cr_assert_eq(conn_version(f.conn), rows[i].version, "%s", rows[i].info);
        cr_assert_str_eq(conn_server(f.conn), rows[i].server);
    }
}

Test(redis_conn, reads_the_password_file_at_each_connect) {
    char *path = temp_path(temp_root(), "password"),
         *redis = kept_printf("password_file = \"%s\"; password = \"not this\";", path);
    f = fixture_start(&(fixture_options_t){.redis = redis, .closed = true});
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_assert_not_null(strstr(f.error.text, path), "%s", f.error.text);
    cr_assert_not(conn_is_open(f.conn));
    redis_ok(f.r, "CONFIG SET requirepass one");
    static const char *const lines[] = {"one", "one\n", "one\r\n"};
    for (size_t i = 0; i < 3; i++) {
        temp_write(path, lines[i]);
        conn_close(f.conn);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    }
    redis_ok(f.r, "CONFIG SET requirepass two");
    conn_close(f.conn);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_assert_eq(strncmp(f.error.text, "WRONGPASS", 9), 0, "%s", f.error.text);
    temp_write(path, "two\n");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    expect_echo(&f, "in");
}

static void expect_user(const char *user) {
    redisReply *reply;
    request_begin(f.conn, "ACL");
    request_text(f.conn, "WHOAMI");
    cr_assert_eq(request_ask(f.conn, &reply, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_str_eq(reply->str, user);
    conn_reply_free(reply);
}

/* Without AUTH a connection belongs to the user `default`, who may do everything here. */
Test(redis_conn, a_user_without_a_password_is_not_the_default_user) {
    f = fixture_start(&(fixture_options_t){.redis = "username = \"plain\";", .closed = true});
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED, "the user does not exist yet");
    cr_assert_not(conn_is_open(f.conn));
    redis_ok(f.r, "ACL SETUSER plain on nopass ~* &* +@all");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    expect_user("plain");
}

Test(redis_conn, a_password_file_without_a_password_is_an_error) {
    static const struct {
        const char *name, *text; /* text NULL: there is no such file */
        const char *says;
    } rows[] = {{"empty", "", "is empty"},
                {"blank", "\r\n", "is empty"},
                {"missing", NULL, "No such file or directory"},
                {"fifo", NULL, "not a regular file"},
                {"nul", NULL, "holds a NUL byte"},
                {".", NULL, "Is a directory"}};
    char *fifo = temp_path(temp_root(), "fifo");
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    FILE *nul = fopen(temp_path(temp_root(), "nul"), "w");
    cr_assert_eq(fwrite("inline\0more", 11, 1, nul), 1); /* what is before the NUL would be right */
    fclose(nul);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *path = temp_path(temp_root(), rows[i].name);
        if (rows[i].text) temp_write(path, rows[i].text);
        /* The connection must use neither the user `default` nor redis.password instead of the file. */
        char *redis = kept_printf("password_file = \"%s\"; password = \"inline\";", path);
        f = fixture_start(&(fixture_options_t){.redis = redis, .proxy = true, .closed = true});
        redis_ok(f.r, "ACL SETUSER default >inline");
        for (int again = 0; again < 2; again++) {
            cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED, "%s: %s", rows[i].name, f.error.text);
            cr_assert(strstr(f.error.text, path) && strstr(f.error.text, rows[i].says), "%s", f.error.text);
            cr_assert_not(conn_is_open(f.conn));
        }
        cr_assert_eq(proxy_requests(f.proxy, NULL), 0, "a request was sent without the password of the file");
        cr_assert(wait_for(proxy_connections(f.proxy) == 0, 3000));
        fixture_stop(&f);
    }
}

Test(redis_conn, logs_in_as_a_user_and_hides_the_password) {
    f = fixture_start(&(fixture_options_t){.redis = "username = \"sidecar\"; password = \"s3cret word\";", .closed = true});
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_assert_null(strstr(f.error.text, "s3cret"), "%s", f.error.text);
    redis_ok(f.r, "ACL SETUSER sidecar on %s ~* +@all", ">s3cret word");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    expect_user("sidecar");
}

Test(redis_conn, selects_its_database) {
    f = fixture_start(&(fixture_options_t){.redis = "db = 3;"});
    cr_assert_eq(ask("INCR", "n"), OUTCOME_OK);
    redis_ok(f.r, "SELECT 3");
    redis_expect(f.r, "1", "GET n");
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.redis = "db = 300;", .closed = true});
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED, "no such database");
    cr_assert_not(conn_is_open(f.conn));
}

Test(redis_conn, bytes_pass_as_they_are) {
    f = fixture_start(NULL);
    redisReply *reply;
    request_begin(f.conn, "SET");
    request_bytes(f.conn, "k\0\xff\r\n", 5);
    request_bytes(f.conn, "", 0);
    cr_assert_eq(request_ask(f.conn, &reply, &f.error), OUTCOME_OK);
    conn_reply_free(reply);
    cr_assert_eq(redis_int(f.r, "EXISTS %b", "k\0\xff\r\n", (size_t)5), 1);
    cr_assert_eq(redis_int(f.r, "STRLEN %b", "k\0\xff\r\n", (size_t)5), 0);
    request_begin(f.conn, "RPUSH");
    request_text(f.conn, "numbers");
    for (int i = 0; i < 3000; i++) request_int(f.conn, i ? INT64_MIN : INT64_MAX);
    cr_assert_eq(request_ask(f.conn, &reply, &f.error), OUTCOME_OK);
    cr_assert_eq(reply->integer, 3000);
    conn_reply_free(reply);
    redis_expect(f.r, "-9223372036854775808", "LINDEX numbers -1");
}

static size_t in_use(void) {
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

/* The next large job may be days away. */
Test(redis_conn, memory_of_a_large_job_is_freed) {
    enum { LARGE = 8 << 20, SMALL = 256 << 10 };
    f = fixture_start(NULL);
    char *job = kept(malloc(LARGE + 1));
    memset(job, 'x', LARGE);
    job[LARGE] = '\0';
    expect_echo(&f, "small");
    size_t before = in_use();
    expect_echo(&f, job);
    cr_assert_leq(in_use(), before + SMALL);
}

/* The connection frees the buffer of a large reply. Replies behind it in the same buffer must not be lost. */
Test(redis_conn, a_large_reply_loses_no_reply_behind_it) {
    enum { REQUESTS = 60, SMALL = 10, LARGE = 200000 };
    f = fixture_start(NULL);
    char *bytes = kept(calloc(1, LARGE));
    for (int i = 0; i < REQUESTS; i++) {
        request_begin(f.conn, "ECHO");
        request_bytes(f.conn, bytes, i % 10 ? SMALL + (size_t)i : LARGE);
        request_end(f.conn);
    }
    for (int i = 0; i < REQUESTS; i++) {
        redisReply *reply;
        cr_assert_eq(conn_read(f.conn, 0, &reply, &f.error), OUTCOME_OK, "reply %d: %s", i, f.error.text);
        cr_assert_eq(reply->len, i % 10 ? SMALL + (size_t)i : LARGE, "reply %d", i);
        conn_reply_free(reply);
    }
}

/* The caller of an unsent request has got OUTCOME_DISCONNECTED, or has not ended the request. */
Test(redis_conn, new_connection_drops_unsent_requests) {
    f = fixture_start(NULL);
    for (int ended = 0; ended <= 1; ended++) {
        request_begin(f.conn, "SET");
        request_text(f.conn, "late");
        request_text(f.conn, "x");
        if (ended) request_end(f.conn);
        conn_close(f.conn);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
        for (int i = 0; i < 2; i++) expect_echo(&f, "next");
        cr_assert_eq(redis_int(f.r, "EXISTS late"), 0);
    }
}

Test(redis_conn, a_request_that_was_not_ended_is_not_sent) {
    f = fixture_start(NULL);
    for (int i = 0; i < 2; i++) {
        request_begin(f.conn, "SET");
        request_text(f.conn, "half");
        request_text(f.conn, "x");
        expect_echo(&f, "whole");
    }
    cr_assert_eq(redis_int(f.r, "EXISTS half"), 0);
}

Test(redis_conn, replies_come_in_the_order_of_the_requests) {
    f = fixture_start(NULL);
    enum { REQUESTS = 2000 };
    char *padding = kept(calloc(1, 2001));
    memset(padding, 'x', 2000);
    for (int i = 0; i < REQUESTS; i++) {
        request_begin(f.conn, i % 3 ? "ECHO" : "NONSENSE");
        request_bytes(f.conn, padding, (size_t)i);
        request_end(f.conn);
    }
    for (int i = 0; i < REQUESTS; i++) {
        redisReply *reply;
        outcome_t outcome = conn_read(f.conn, 0, &reply, &f.error);
        cr_assert_eq(outcome, i % 3 ? OUTCOME_OK : OUTCOME_REFUSED);
        if (reply) cr_assert_eq(reply->len, (size_t)i);
        conn_reply_free(reply);
    }
    redisReply *none;
    cr_assert_eq(conn_try_read(f.conn, &none, &f.error), OUTCOME_OK);
    cr_assert_null(none);
}

Test(redis_conn, a_late_reply_never_answers_the_next_request) {
    f = fixture_start(&(fixture_options_t){.proxy = true, .redis = "timeout = \"100ms\";", .closed = true});
    cr_assert(wait_for(conn_open(f.conn, &f.error) == OUTCOME_OK, 5000), "%s", f.error.text);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = "ECHO one"});
    int64_t start = wait_now_us();
    cr_assert_eq(ask("ECHO", "one"), OUTCOME_DISCONNECTED);
    cr_assert_not_null(strstr(f.error.text, "no reply in time"), "%s", f.error.text);
    cr_assert_geq(wait_now_us() - start, 99000);
    cr_assert_not(conn_is_open(f.conn));
    proxy_pass(f.proxy);
    cr_assert(wait_for(conn_open(f.conn, &f.error) == OUTCOME_OK && echoes(&f, "two"), 5000), "%s", f.error.text);
}

Test(redis_conn, a_drop_in_mid_pipeline_keeps_the_replies_before_it) {
    f = fixture_start(&(fixture_options_t){.proxy = true});
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = "INCR", .nth = 3});
    for (int i = 0; i < 5; i++) {
        request_begin(f.conn, "INCR");
        request_text(f.conn, "n");
        request_end(f.conn);
    }
    for (int i = 0; i < 5; i++) {
        redisReply *reply;
        cr_assert_eq(conn_read(f.conn, 0, &reply, &f.error), i < 2 ? OUTCOME_OK : OUTCOME_DISCONNECTED, "reply %d", i);
        if (reply) cr_assert_eq(reply->integer, i + 1);
        conn_reply_free(reply);
    }
    redis_expect(f.r, "2", "GET n");
}

Test(redis_conn, a_cut_at_any_byte_of_a_reply_is_a_loss) {
    f = fixture_start(&(fixture_options_t){.proxy = true});
    for (long bytes = 0; bytes < 11; bytes++) { /* of "$5\r\nhello\r\n" */
        proxy_cut_after(f.proxy, PROXY_DOWN, bytes);
        cr_assert_eq(ask("ECHO", "hello"), OUTCOME_DISCONNECTED, "after %ld", bytes);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
        expect_echo(&f, "hello");
    }
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = "ECHO", .error = "?what"});
    cr_assert_eq(ask("ECHO", "hello"), OUTCOME_DISCONNECTED, "the reply is not of the Redis protocol");
    cr_assert_not(conn_is_open(f.conn));
}

Test(redis_conn, retryable_errors_keep_the_connection_except_those_of_a_replica) {
    static const struct {
        const char *error;
        bool open;
    } rows[] = {{"-LOADING x", true},  {"-BUSY x", true},      {"-CLUSTERDOWN x", true},
                {"-TRYAGAIN x", true}, {"-MISCONF x", true},   {"-NOREPLICAS x", true},
                {"-OOM x", true},      {"-READONLY x", false}, {"-MASTERDOWN x", false}};
    f = fixture_start(&(fixture_options_t){.proxy = true});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "ECHO", .error = rows[i].error});
        cr_assert_eq(ask("ECHO", "x"), OUTCOME_RETRY, "%s", rows[i].error);
        cr_assert_eq(conn_is_open(f.conn), rows[i].open, "%s", rows[i].error);
        proxy_pass(f.proxy);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        expect_echo(&f, "x");
    }
}

Test(redis_conn, does_not_open_while_the_server_loads) {
    static const char *const steps[] = {"SCRIPT LOAD", "SCRIPT EXISTS", "CLIENT SETNAME", "INFO server"};
    f = fixture_start(&(fixture_options_t){.proxy = true, .closed = true});
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = steps[i], .error = "-LOADING x"});
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_RETRY);
        cr_assert_not(conn_is_open(f.conn));
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
        expect_echo(&f, steps[i]);
        conn_close(f.conn);
        proxy_pass(f.proxy);
    }
}

Test(redis_conn, a_script_that_cannot_be_loaded_is_named) {
    f = fixture_start(&(fixture_options_t){.proxy = true, .closed = true});
    char *named = kept_printf("ERR x (script %s)", all_scripts[2]->name);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "SCRIPT LOAD", .error = "-ERR x", .nth = 3});
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_assert_str_eq(f.error.text, named);
}

Test(redis_conn, scripts_are_loaded_again_after_script_flush) {
    f = fixture_start(NULL);
    const lock_call_t call = fixture_lock_call(&f, 0, "T", 1000);
    redis_ok(f.r, "SET sidecar:app:lock T");
    redis_ok(f.r, "SCRIPT FLUSH");
    lock_send_renewal(&call);
    cr_assert_eq(lock_read_renewal(&call), OUTCOME_RETRY);
    unsigned generation = conn_generation(f.conn);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK);
    cr_assert_eq(conn_generation(f.conn), generation, "on the same connection");
    lock_send_renewal(&call);
    cr_assert_eq(lock_read_renewal(&call), OUTCOME_OK);
}

Test(redis_conn, notices_a_close_while_idle) {
    f = fixture_start(NULL);
    redisReply *reply = NULL;
    cr_assert_eq(conn_try_read(f.conn, &reply, &f.error), OUTCOME_OK);
    cr_assert_null(reply);
    redis_ok(f.r, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert(wait_for(conn_try_read(f.conn, &reply, &f.error) == OUTCOME_DISCONNECTED, 3000));
    cr_assert_not(conn_is_open(f.conn));
}

Test(redis_conn, the_stop_flag_ends_a_wait_on_a_frozen_server) {
    f = fixture_start(&(fixture_options_t){.redis = "timeout = \"60s\";"});
    atomic_bool stop = false;
    conn_t *conn = conn_new(f.shard, "stopped", &stop), *late = conn_new(f.shard, "late", &stop);
    redisReply *reply;
    cr_assert_eq(conn_open(conn, &f.error), OUTCOME_OK);
    server_freeze(f.server);
    atomic_store(&stop, true);
    int64_t start = wait_now_us();
    request_begin(conn, "PING");
    cr_assert_eq(request_ask(conn, &reply, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_eq(conn_open(late, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_lt(wait_now_us() - start, INT64_C(20000) * wait_scaled_ms(1000));
    cr_assert_not_null(strstr(f.error.text, "stop"), "%s", f.error.text);
    conn_free(late);
    conn_free(conn);
    server_thaw(f.server);
}

Test(redis_conn, a_send_to_a_frozen_server_times_out) {
    f = fixture_start(&(fixture_options_t){.redis = "timeout = \"200ms\";", .closed = true});
    enum { MUCH = 16 << 20 };
    char *bytes = kept(calloc(MUCH, 1));
    cr_assert(wait_for(conn_open(f.conn, &f.error) == OUTCOME_OK, 5000), "%s", f.error.text);
    server_freeze(f.server);
    request_begin(f.conn, "ECHO");
    request_bytes(f.conn, bytes, MUCH);
    request_end(f.conn);
    cr_assert_eq(conn_flush(f.conn, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_not(conn_is_open(f.conn));
    server_thaw(f.server);
}
