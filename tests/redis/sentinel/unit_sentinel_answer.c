/* The choice of the sentinel to believe. Replies are in the form in which Redis 7 sends them. */
#include "redis/sentinel/answer.h"
#include "suite.h"

#include <hiredis/hiredis.h>

enum { ALL = 3, EPOCH = 4 };

static const address_t NOWHERE;

static address_t at(const char *text) {
    address_t address;
    cr_assert(address_parse(slice_text(text), &address), "%s", text);
    return address;
}

/* An answer of the sentinel `id`, which knows the sentinels whose ids are the letters of `knows`. */
static sentinel_answer_t says(const char *id, const char *primary, int64_t epoch, const char *knows) {
    sentinel_answer_t answer = {.primary = at(primary), .config_epoch = epoch, .peer_count = strlen(knows)};
    snprintf(answer.id.text, sizeof answer.id.text, "%s", id);
    answer.peers = calloc(ALL, sizeof *answer.peers);
    for (size_t i = 0; i < answer.peer_count; i++) snprintf(answer.peers[i].id.text, SENTINEL_ID_SIZE, "%c", knows[i]);
    return answer;
}

static sentinel_answer_t silent(const char *reason) {
    sentinel_answer_t answer = {0};
    redis_error_set(&answer.error, OUTCOME_DISCONNECTED, "%s", reason);
    return answer;
}

/* Expects the address that is believed of three answers, which are freed; NULL = none. Returns whether all agree. */
static bool expect(sentinel_answer_t a, sentinel_answer_t b, sentinel_answer_t c, const char *current, const char *believed) {
    sentinel_answer_t answers[ALL] = {a, b, c};
    address_t now = current ? at(current) : NOWHERE;
    sentinel_choice_t choice = sentinel_choose(answers, ALL, &now, EPOCH);
    if (believed) {
        cr_assert_not_null(choice.believed, "no answer is believed");
        cr_assert_str_eq(address_text(&choice.believed->primary).text, believed);
    } else {
        cr_assert_null(choice.believed);
    }
    bool agree = !choice.against;
    for (int i = 0; i < ALL; i++) sentinel_answer_free(&answers[i]);
    return agree;
}

#define OLD   "10.0.0.1:6379"
#define NEW   "10.0.0.2:6379"
#define OTHER "10.0.0.3:6379"

Test(unit_sentinel_answer, agreement_is_believed) {
    cr_assert(expect(says("a", OLD, 4, "bc"), says("b", OLD, 4, "ac"), says("c", OLD, 4, "ab"), NULL, OLD));
    cr_assert(expect(says("a", OLD, 4, "bc"), silent("gone"), silent("gone"), NEW, OLD));
    cr_assert(expect(silent("gone"), silent("gone"), silent("gone"), OLD, NULL));
}

Test(unit_sentinel_answer, highest_epoch_wins_over_the_majority_and_the_current_primary) {
    cr_assert_not(expect(says("a", OLD, 4, "bc"), says("b", OLD, 4, "ac"), says("c", NEW, 5, "ab"), OLD, NEW));
    cr_assert_not(expect(says("a", NEW, 5, "bc"), says("b", OLD, 4, "ac"), silent("gone"), OLD, NEW));
}

Test(unit_sentinel_answer, at_the_same_epoch_the_current_primary_wins_then_the_majority) {
    cr_assert_not(expect(says("a", OLD, 4, "bc"), says("b", NEW, 4, "ac"), says("c", NEW, 4, "ab"), OLD, OLD));
    cr_assert_not(expect(says("a", OLD, 4, "bc"), says("b", NEW, 4, "ac"), says("c", NEW, 4, "ab"), OTHER, NEW));
    cr_assert_not(expect(says("a", OLD, 4, "bc"), says("b", NEW, 4, "ac"), says("c", NEW, 4, "ab"), NULL, NEW));
}

/* A sentinel of another deployment that uses the same name. */
Test(unit_sentinel_answer, outsider_with_a_high_epoch_is_not_believed) {
    cr_assert_not(expect(says("a", OLD, 4, "b"), says("b", OLD, 4, "a"), says("x", OTHER, 99, ""), OLD, OLD));
    cr_assert_not(expect(says("x", OTHER, 99, "yz"), says("a", OLD, 4, "b"), says("b", OLD, 4, "a"), NULL, OLD));
}

Test(unit_sentinel_answer, sentinel_is_believed_if_no_other_knows_any) {
    cr_assert(expect(says("x", OTHER, 1, ""), silent("gone"), silent("gone"), NULL, OTHER));
    cr_assert_not(expect(says("x", OTHER, 2, ""), says("y", OLD, 1, ""), silent("gone"), NULL, OTHER));
    /* An ACL hides the id of a sentinel. */
    cr_assert_not(expect(says("", OTHER, 5, ""), says("a", OLD, 4, "b"), says("b", OLD, 4, "a"), NULL, OTHER));
}

static sentinel_answer_t sees_down(sentinel_answer_t answer) {
    answer.down = true;
    return answer;
}

Test(unit_sentinel_answer, a_lone_leap_of_the_epoch_waits_for_a_second_voice) {
    cr_assert_not(expect(says("a", OLD, 4, "xb"), says("b", OLD, 4, "ax"), says("x", OTHER, 99, ""), OLD, OLD));
    cr_assert_not(expect(says("a", OLD, 4, "xb"), says("b", OLD, 4, "ax"), says("x", OTHER, INT64_MAX, "ab"), OLD, OLD));
    cr_assert_not(expect(says("a", OLD, 4, "xb"), says("b", OTHER, 98, "ax"), says("x", OTHER, 99, ""), OLD, OTHER));
    /* Two that name different servers are no second voice for each other. */
    cr_assert_not(expect(says("a", OLD, 4, "xb"), says("b", NEW, 98, "ax"), says("x", OTHER, 99, ""), OLD, OLD));
    /* One sees its primary down, and the other one is silent: a failover after elections that failed. */
    cr_assert_not(expect(sees_down(says("a", OLD, 4, "xb")), silent("gone"), says("x", NEW, 7, "ab"), OLD, NEW));
    cr_assert_not(expect(sees_down(says("a", OLD, 4, "xb")), says("b", OLD, 4, "ax"), says("x", NEW, 7, "ab"), OLD, OLD));
    cr_assert(expect(silent("gone"), silent("gone"), says("x", NEW, 7, "ab"), OLD, NEW), "nobody else answers");
    cr_assert_not(expect(says("a", OLD, 4, "xb"), says("b", OLD, 4, "ax"), says("x", OTHER, 99, ""), NULL, OTHER),
                  "nothing is known to leap from");
}

/* Else a later failover would be believed only after the liar has gone. */
Test(unit_sentinel_answer, a_lone_leap_at_the_present_primary_hides_no_failover) {
    sentinel_answer_t answers[ALL] = {says("a", OLD, 4, "xb"), says("b", OLD, 4, "ax"), says("x", OLD, 99, "")};
    address_t current = at(OLD);
    cr_assert_eq(sentinel_choose(answers, ALL, &current, EPOCH).believed->config_epoch, 4);
    for (int i = 0; i < ALL; i++) sentinel_answer_free(&answers[i]);
    cr_assert_not(expect(says("a", NEW, 5, "xb"), says("b", OLD, 4, "ax"), says("x", OLD, 99, ""), OLD, NEW));
}

static redisReply *reply_of(const char *wire) {
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    redisReaderFeed(reader, wire, strlen(wire));
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK, "%s", reader->errstr);
    redisReaderFree(reader);
    return reply;
}

static void read_master(sentinel_answer_t *answer, const char *wire) {
    redisReply *reply = reply_of(wire);
    sentinel_read_master(answer, reply);
    freeReplyObject(reply);
}

static bool read_address(sentinel_answer_t *answer, const char *wire) {
    redisReply *reply = reply_of(wire);
    bool good = sentinel_read_address(answer, reply);
    freeReplyObject(reply);
    return good;
}

Test(unit_sentinel_answer, fields_are_read) {
    sentinel_answer_t answer = {0};
    read_master(&answer, "*8\r\n$12\r\nconfig-epoch\r\n$2\r\n17\r\n$5\r\nflags\r\n$13\r\ns_down,master\r\n"
                         "$6\r\nquorum\r\n$1\r\n2\r\n$10\r\nnum-slaves\r\n$1\r\n3\r\n");
    cr_assert_eq(answer.config_epoch, 17);
    cr_assert_eq(answer.quorum, 2);
    cr_assert_eq(answer.replicas, 3);
    cr_assert(answer.down);
    read_master(&answer, "*2\r\n$5\r\nflags\r\n$20\r\nmaster,disconnected_\r\n");
    cr_assert_not(answer.down);
    cr_assert(read_address(&answer, "*2\r\n$8\r\nredis-0a\r\n$4\r\n6380\r\n"));
    cr_assert_str_eq(address_text(&answer.primary).text, "redis-0a:6380");
    cr_assert(read_address(&answer, "*2\r\n$7\r\nfd00::1\r\n$4\r\n6380\r\n"));
    cr_assert_str_eq(address_text(&answer.primary).text, "[fd00::1]:6380");
}

Test(unit_sentinel_answer, malformed_replies_name_no_primary) {
    static const char *const wires[] = {"*-1\r\n",
                                        "*0\r\n",
                                        "*1\r\n$1\r\na\r\n",
                                        ":1\r\n",
                                        "+OK\r\n",
                                        "*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
                                        "*2\r\n$1\r\na\r\n$1\r\n0\r\n",
                                        "*2\r\n$1\r\na\r\n$5\r\n65536\r\n",
                                        "*2\r\n:7\r\n:7\r\n",
                                        "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
                                        "*2\r\n*0\r\n*0\r\n"};
    scoped(sentinel_answer_free) sentinel_answer_t answer = {0};
    for (size_t i = 0; i < sizeof wires / sizeof *wires; i++) {
        cr_assert_not(read_address(&answer, wires[i]), "%s", wires[i]);
        redisReply *reply = reply_of(wires[i]);
        sentinel_read_master(&answer, reply);
        sentinel_read_peers(&answer, reply);
        cr_assert_eq(answer.peer_count, 0);
        freeReplyObject(reply);
    }
}
