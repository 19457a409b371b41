#include "redis/sentinel/group.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "redis/sentinel/ask.h"
#include "redis/socket/endpoint.h"
#include "redis/tls/failure.h"

struct sentinel_group {
    const redis_config_t *redis;
    sentinel_contact_t known[SENTINELS_MAX]; // those of the configuration first
    size_t known_count;
    size_t configured_count;
    sentinel_answer_t answers[SENTINELS_MAX]; // to the last ask
    size_t answer_count;
    address_t primary;   // as the sentinels announce it; port 0 = unknown
    address_t reachable; // the same, as the sidecar reaches it
    int64_t config_epoch;
    mono_t behind_since; // since when all answers have had a lower epoch; mono_never = they have not
};

sentinel_group_t *sentinel_group_new(const redis_config_t *redis) {
    sentinel_group_t *group = mem_alloc(sizeof *group);
    group->redis = redis;
    group->behind_since = mono_never();
    for (size_t i = 0; i < redis->sentinels.count && group->known_count < SENTINELS_MAX; i++)
        if (address_parse(slice_text(redis->sentinels.items[i]), &group->known[group->known_count].address)) group->known_count++;
    group->configured_count = group->known_count;
    return group;
}

void sentinel_group_inherit(sentinel_group_t *group, const sentinel_group_t *old) {
    if (!old->primary.port || (group->primary.port && group->config_epoch >= old->config_epoch)) return;
    group->primary = old->primary;
    group->reachable = old->reachable;
    group->config_epoch = old->config_epoch;
}

static void group_forget_answers(sentinel_group_t *group) {
    for (size_t i = 0; i < group->answer_count; i++) sentinel_answer_free(&group->answers[i]);
    group->answer_count = 0;
}

void sentinel_group_free(sentinel_group_t *group) {
    if (!group) return;
    group_forget_answers(group);
    for (size_t i = 0; i < group->known_count; i++) conn_free(group->known[i].conn);
    free(group);
}

int64_t sentinel_group_epoch(const sentinel_group_t *group) { return group->config_epoch; }

int64_t sentinel_group_certificate_end(const sentinel_group_t *group) {
    int64_t first = 0;
    for (size_t i = 0; i < group->known_count; i++) {
        const conn_t *conn = group->known[i].conn;
        if (conn) first = tls_earlier(first, conn_first_certificate_end(conn));
    }
    return first;
}

const sentinel_answer_t *sentinel_group_answers(const sentinel_group_t *group, size_t *count) {
    *count = group->answer_count;
    return group->answers;
}

static bool group_is_configured(const sentinel_group_t *group, const address_t *sentinel) {
    for (size_t i = 0; i < group->configured_count; i++)
        if (address_equal(&group->known[i].address, sentinel)) return true;
    return false;
}

// A sentinel of the configuration may announce another address than the one in the configuration.
static bool group_configured_has_id(const sentinel_group_t *group, const sentinel_id_t *id) {
    for (size_t i = 0; *id->text && i < group->configured_count && i < group->answer_count; i++)
        if (strcmp(group->answers[i].id.text, id->text) == 0) return true;
    return false;
}

// The contact stays, if it is among the `count` contacts that were learned earlier.
static void group_learn_one(sentinel_group_t *group, const address_t *sentinel, sentinel_contact_t *earlier, size_t count) {
    if (group->known_count == SENTINELS_MAX || group_is_configured(group, sentinel)) return;
    sentinel_contact_t *contact = &group->known[group->known_count++];
    *contact = (sentinel_contact_t){.address = *sentinel};
    for (size_t i = 0; i < count; i++) {
        if (!address_equal(&earlier[i].address, sentinel)) continue;
        *contact = earlier[i];
        earlier[i].conn = NULL;
        break;
    }
}

// Replaces the sentinels that were learned earlier by those that the believed one knows.
static void group_learn(sentinel_group_t *group, const sentinel_answer_t *believed) {
    sentinel_contact_t earlier[SENTINELS_MAX];
    size_t count = group->known_count - group->configured_count;
    memcpy(earlier, group->known + group->configured_count, count * sizeof *earlier);
    group->known_count = group->configured_count;
    group_learn_one(group, &believed->sentinel, earlier, count);
    for (size_t i = 0; i < believed->peer_count; i++) {
        address_t sentinel = endpoint_reachable(group->redis, &believed->peers[i].address);
        if (!group_configured_has_id(group, &believed->peers[i].id)) group_learn_one(group, &sentinel, earlier, count);
    }
    for (size_t i = 0; i < count; i++) conn_free(earlier[i].conn);
}

// Whether to wait, because the answer is older than what is known.
static bool group_is_behind(sentinel_group_t *group, const sentinel_choice_t *choice, mono_t now) {
    if (!group->primary.port || choice->believed->config_epoch >= group->config_epoch) {
        group->behind_since = mono_never();
        return false;
    }
    if (choice->against || mono_diff(group->behind_since, now) > 0) group->behind_since = now;
    return mono_diff(now, group->behind_since) < GROUP_BEHIND_S * NS_PER_S;
}

static void group_believe(sentinel_group_t *group, const sentinel_answer_t *believed) {
    group->primary = believed->primary;
    group->reachable = endpoint_reachable(group->redis, &believed->primary);
    group->config_epoch = believed->config_epoch;
    group->behind_since = mono_never();
    group_learn(group, believed);
}

// Tells the reason of the sentinel that answered something, or else of the first one.
static void group_explain(const sentinel_group_t *group, redis_error_t *error) {
    const redis_error_t *reason = &group->answers[0].error;
    for (size_t i = 0; i < group->answer_count; i++)
        if (group->answers[i].error.outcome == OUTCOME_REFUSED) reason = &group->answers[i].error;
    if (reason->outcome == OUTCOME_REFUSED || group->answer_count == 1)
        *error = *reason;
    else
        redis_error_set(error, OUTCOME_DISCONNECTED, "none of %zu sentinels answers: %s", group->answer_count, reason->text);
}

const address_t *sentinel_group_ask(sentinel_group_t *group, const atomic_bool *stop, redis_error_t *error) {
    group_forget_answers(group);
    sentinel_ask_all(group->redis, group->known, group->known_count, stop, group->answers);
    group->answer_count = group->known_count;
    sentinel_choice_t choice = sentinel_choose(group->answers, group->answer_count, &group->primary, group->config_epoch);
    if (!choice.believed) {
        group_explain(group, error);
        return NULL;
    }
    if (!group_is_behind(group, &choice, mono_now())) group_believe(group, choice.believed);
    *error = (redis_error_t){0};
    return &group->reachable;
}

bool sentinel_group_disagrees(const sentinel_group_t *group, char *text, size_t size) {
    sentinel_choice_t choice = sentinel_choose(group->answers, group->answer_count, &group->primary, group->config_epoch);
    if (!choice.believed || !choice.against) return false;
    snprintf(text, size, "%s says %s (config epoch %lld), %s says %s (config epoch %lld)",
             address_text(&choice.believed->sentinel).text, address_text(&choice.believed->primary).text,
             (long long)choice.believed->config_epoch, address_text(&choice.against->sentinel).text,
             address_text(&choice.against->primary).text, (long long)choice.against->config_epoch);
    return true;
}
