/* Tests of the support for Sentinel. */
#include "sentinels.h"
#include "suite.h"

static bool has_role(sentinels_t *s, int server, const char *role) {
    scoped(redis_drop) redis_t *r = redis_open(s->servers[server]);
    redisReply *reply = redis_do(r, "ROLE");
    return reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, role) == 0;
}

Test(redis_support_sentinels, fail_over_by_command_by_kill_and_by_freeze) {
    sentinels_t *s = sentinels_begin(NULL);
    int first = sentinels_primary(s, NULL);
    cr_assert_eq(first, 0);

    sentinels_failover(s);
    int second = sentinels_await_switch(s, first);
    cr_assert(has_role(s, second, "master"));
    cr_assert(has_role(s, first, "master"), "sentinels demote the old primary of a failover by command only later");
    sentinels_demote(s, first);
    sentinels_await_settled(s);

    server_kill(s->servers[second]);
    int third = sentinels_await_switch(s, second);
    cr_assert(has_role(s, third, "master"));
    server_restart(s->servers[second], SERVER_KEEP_DATA);
    cr_assert(has_role(s, second, "master"), "a returned primary must call itself a primary");
    sentinels_demote(s, second);
    sentinels_await_settled(s);

    server_freeze(s->servers[third]);
    int fourth = sentinels_await_switch(s, third);
    server_thaw(s->servers[third]);
    cr_assert(has_role(s, fourth, "master"));
    cr_assert(has_role(s, third, "master"));
    sentinels_demote(s, third);
    sentinels_await_settled(s);
    sentinels_end(s);
}

Test(redis_support_sentinels, know_names_and_passwords) {
    sentinels_t *s = sentinels_begin(&(sentinels_options_t){.hostnames = true, .password = "geheim"});
    scoped(redis_drop) redis_t *r = sentinel_open(s, 1);
    redisReply *reply = redis_do(r, "SENTINEL GET-MASTER-ADDR-BY-NAME " SENTINEL_MASTER);
    cr_assert_str_eq(reply->element[0]->str, "localhost");
    sentinels_end(s);
}
