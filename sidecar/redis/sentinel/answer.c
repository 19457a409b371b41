#include "redis/sentinel/answer.h"

#include "base/buffer.h"
#include "redis/reply.h"

enum { PEERS_MAX = 64, PORT_MAX = 65535 };

void sentinel_answer_free(sentinel_answer_t *answer) {
    free(answer->peers);
    *answer = (sentinel_answer_t){0};
}

// The value of a field in an array of names and values; NULL = there is none.
static const redisReply *sentinel_field(const redisReply *reply, const char *name) {
    for (size_t i = 0; reply_at(reply, i + 1); i += 2)
        if (reply_is(reply_at(reply, i), name)) return reply_at(reply, i + 1);
    return NULL;
}

// Whether a list of words, separated by commas, has this one.
static bool sentinel_has_flag(const char *flags, const char *flag) {
    size_t len = strlen(flag);
    for (const char *at = flags; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, flag, len) == 0 && (at[len] == ',' || at[len] == '\0')) return true;
    return false;
}

static bool sentinel_address(address_t *address, const redisReply *host, const redisReply *port) {
    int64_t number = reply_number(port);
    size_t len = reply_len(host);
    if (len == 0 || len >= sizeof address->host || number < 1 || number > PORT_MAX) return false;
    memcpy(address->host, reply_text(host), len + 1);
    address->port = (int)number;
    return true;
}

static sentinel_id_t sentinel_id(const redisReply *reply) {
    sentinel_id_t id = {0};
    snprintf(id.text, sizeof id.text, "%s", reply_text(reply));
    return id;
}

void sentinel_read_master(sentinel_answer_t *answer, const redisReply *reply) {
    const char *flags = reply_text(sentinel_field(reply, "flags"));
    answer->config_epoch = reply_number(sentinel_field(reply, "config-epoch"));
    answer->quorum = reply_number(sentinel_field(reply, "quorum"));
    answer->replicas = reply_number(sentinel_field(reply, "num-slaves"));
    answer->down = sentinel_has_flag(flags, "s_down") || sentinel_has_flag(flags, "o_down");
}

bool sentinel_read_address(sentinel_answer_t *answer, const redisReply *reply) {
    return sentinel_address(&answer->primary, reply_at(reply, 0), reply_at(reply, 1));
}

void sentinel_read_peers(sentinel_answer_t *answer, const redisReply *reply) {
    const redisReply *peer;
    free(answer->peers);
    answer->peers = mem_array(PEERS_MAX, sizeof *answer->peers);
    answer->peer_count = 0;
    for (size_t i = 0; answer->peer_count < PEERS_MAX && (peer = reply_at(reply, i)); i++) {
        sentinel_peer_t *next = &answer->peers[answer->peer_count];
        if (!sentinel_address(&next->address, sentinel_field(peer, "ip"), sentinel_field(peer, "port"))) continue;
        next->id = sentinel_id(sentinel_field(peer, "runid"));
        answer->peer_count++;
    }
}

void sentinel_read_id(sentinel_answer_t *answer, const redisReply *reply) { answer->id = sentinel_id(reply); }

static bool sentinel_knows(const sentinel_answer_t *answer, const sentinel_answer_t *other) {
    for (size_t i = 0; *other->id.text && i < answer->peer_count; i++)
        if (strcmp(answer->peers[i].id.text, other->id.text) == 0) return true;
    return false;
}

static bool sentinel_is_known(const sentinel_answer_t *answers, size_t count, size_t number) {
    for (size_t i = 0; i < count; i++)
        if (i != number && sentinel_knows(&answers[i], &answers[number])) return true;
    return false;
}

static bool sentinel_is_outsider(const sentinel_answer_t *answers, size_t count, size_t number) {
    if (!*answers[number].id.text || sentinel_is_known(answers, count, number)) return false;
    for (size_t i = 0; i < count; i++)
        if (sentinel_is_known(answers, count, i)) return true;
    return false;
}

static bool sentinel_counts(const sentinel_answer_t *answers, size_t count, size_t number) {
    return answers[number].error.outcome == OUTCOME_OK && !sentinel_is_outsider(answers, count, number);
}

static bool sentinel_leaps(const sentinel_answer_t *answer, int64_t epoch) {
    return answer->config_epoch > epoch && answer->config_epoch - 1 > epoch;
}

static bool sentinel_leaps_alone(const sentinel_answer_t *answers, size_t count, size_t number, int64_t epoch) {
    bool alive = false; // another sentinel sees a primary alive
    if (!sentinel_leaps(&answers[number], epoch)) return false;
    for (size_t i = 0; i < count; i++) {
        if (i == number || !sentinel_counts(answers, count, i)) continue;
        if (sentinel_leaps(&answers[i], epoch) && address_equal(&answers[i].primary, &answers[number].primary)) return false;
        alive = alive || !answers[i].down;
    }
    return alive;
}

static size_t sentinel_count_naming(const sentinel_answer_t *answers, size_t count, const address_t *primary) {
    size_t naming = 0;
    for (size_t i = 0; i < count; i++)
        if (answers[i].error.outcome == OUTCOME_OK && address_equal(&answers[i].primary, primary)) naming++;
    return naming;
}

// Whether to believe `a` rather than `b`.
static bool sentinel_is_better(const sentinel_choice_t *a, const sentinel_choice_t *b, const address_t *current) {
    if (a->believed->config_epoch != b->believed->config_epoch) return a->believed->config_epoch > b->believed->config_epoch;
    bool a_is_current = address_equal(&a->believed->primary, current);
    if (a_is_current != address_equal(&b->believed->primary, current)) return a_is_current;
    return a->naming > b->naming;
}

sentinel_choice_t sentinel_choose(const sentinel_answer_t *answers, size_t count, const address_t *current, int64_t epoch) {
    sentinel_choice_t best = {0};
    for (size_t i = 0; i < count; i++) {
        if (!sentinel_counts(answers, count, i)) continue;
        if (current->port && sentinel_leaps_alone(answers, count, i, epoch)) continue;
        sentinel_choice_t next = {&answers[i], sentinel_count_naming(answers, count, &answers[i].primary), NULL};
        if (!best.believed || sentinel_is_better(&next, &best, current)) best = next;
    }
    for (size_t i = 0; best.believed && i < count; i++)
        if (answers[i].error.outcome == OUTCOME_OK && !address_equal(&answers[i].primary, &best.believed->primary))
            best.against = &answers[i];
    return best;
}
