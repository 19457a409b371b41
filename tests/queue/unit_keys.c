/* Key names, locks, and slots of Redis Cluster. */
#include "fixture.h"
#include "queue/keys.h"

Test(unit_keys, one_lock_for_a_group) {
    scoped(config_drop) config_t *config =
        fixture_config("group = \"app\"; queues = ( { name = \"email\"; }, { name = \"sms\"; delayed = \"later\"; } );");
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(config);
    cr_assert_eq(keys->lock_count, 1);
    cr_assert_str_eq(keys->vacant, "sidecar:app:vacant");
    cr_assert_str_eq(keys->locks[0].name, "app");
    cr_assert_str_eq(keys->locks[0].key, "sidecar:app:lock");
    cr_assert_str_eq(keys->locks[0].served, "sidecar:app:queues");
    cr_assert_eq(keys->locks[0].queues[0], 0);
    cr_assert_eq(keys->locks[0].queues[1], 1);
    cr_assert_eq(keys->locks[0].queue_count, 2);
    cr_assert_eq(keys->queue_count, 2);
    cr_assert_str_eq(keys->queues[0].meta, "sidecar:email:meta");
    cr_assert_str_eq(keys->queues[1].meta, "sidecar:sms:meta");
    cr_assert_eq(keys->queues[1].lock, 0);
    cr_assert_str_eq(keys->queues[0].config->ready, "email");
    cr_assert_str_eq(keys->queues[0].config->delayed, "email:delayed");
    cr_assert_str_eq(keys->queues[0].config->backup, "email:backup");
    cr_assert_str_eq(keys->queues[0].config->errors, "email:errors");
    cr_assert_str_eq(keys->queues[1].config->delayed, "later");
    keyspace_free(NULL);
}

Test(unit_keys, a_lock_for_each_queue) {
    scoped(config_drop) config_t *config = fixture_config("group = \"app\"; lock = { scope = \"queue\"; };"
                                                          "queues = ( { name = \"{email}\"; }, { name = \"{sms}\"; } );");
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(config);
    cr_assert_eq(keys->lock_count, 2);
    cr_assert_str_eq(keys->vacant, "sidecar:app:vacant");
    static const char *const names[] = {"{email}", "{sms}"};
    static const char *const locks[] = {"sidecar:{email}:lock", "sidecar:{sms}:lock"};
    for (size_t i = 0; i < 2; i++) {
        const lock_keys_t *lock = &keys->locks[i];
        cr_assert_str_eq(lock->name, names[i]);
        cr_assert_str_eq(lock->key, locks[i]);
        cr_assert_eq(lock->queues[0], i);
        cr_assert_eq(lock->queue_count, 1);
        cr_assert_eq(keys->queues[i].lock, i);
        unsigned slot = keyspace_slot(lock->key);
        cr_assert_eq(slot, keyspace_slot(lock->served));
        cr_assert_eq(slot, keyspace_slot(keys->queues[i].meta));
        cr_assert_eq(slot, keyspace_slot(keys->queues[i].config->ready));
        cr_assert_eq(slot, keyspace_slot(keys->queues[i].config->delayed));
    }
    cr_assert_neq(keyspace_slot(locks[0]), keyspace_slot(locks[1]));
}

Test(unit_keys, queues_of_one_hash_tag_share_a_lock) {
    scoped(config_drop) config_t *config =
        fixture_config("group = \"app\"; lock = { scope = \"queue\"; };"
                       "queues = ( { name = \"{a}:mail\"; }, { name = \"b\"; }, { name = \"sms{a}\"; },"
                       "{ name = \"{a\"; } );");
    scoped(keyspace_drop) keyspace_t *keys = keyspace_new(config);
    cr_assert_eq(keys->lock_count, 3);
    cr_assert_str_eq(keys->locks[0].name, "{a}");
    cr_assert_str_eq(keys->locks[0].key, "sidecar:{a}:lock");
    cr_assert_eq(keys->locks[0].queue_count, 2);
    cr_assert_eq(keys->locks[0].queues[0], 0);
    cr_assert_eq(keys->locks[0].queues[1], 2);
    cr_assert_str_eq(keys->locks[1].name, "b");
    cr_assert_str_eq(keys->locks[2].name, "{a", "an unclosed tag is no tag");
    static const size_t locks[] = {0, 1, 0, 2};
    for (size_t i = 0; i < 4; i++) cr_assert_eq(keys->queues[i].lock, locks[i]);
    cr_assert_eq(keyspace_slot(keys->locks[0].key), keyspace_slot(keys->queues[2].meta));
}

Test(unit_keys, the_lock_of_another_group) {
    char *lock = kept(keyspace_lock_of("other"));
    cr_assert_str_eq(lock, "sidecar:other:lock");
}

Test(unit_keys, slots_are_those_of_redis) {
    static const struct {
        const char *key;
        unsigned slot;
    } rows[] = {
        {"123456789", 12739}, /* CRC16 0x31c3, redis.io cluster specification */
        {"", 0},
        {"foo", 12182},
        {"bar", 5061},
        {"{foo}.bar", 12182},
        {"a{foo}b{bar}c", 12182},
        {"{user1000}.following", 3443},
        {"{user1000}.followers", 3443},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_assert_eq(keyspace_slot(rows[i].key), rows[i].slot, "%s", rows[i].key);
}

Test(unit_keys, only_the_first_tag_that_is_not_empty_counts) {
    cr_assert_eq(keyspace_slot("foo{}{bar}"), 8363, "an empty first tag: the whole key counts");
    cr_assert_eq(keyspace_slot("foo{{bar}}zap"), keyspace_slot("{bar"));
    cr_assert_eq(keyspace_slot("foo{bar}{zap}"), keyspace_slot("bar"));
    cr_assert_eq(keyspace_slot("foo{bar"), 15278, "an unclosed tag does not count");
    cr_assert_neq(keyspace_slot("}foo{"), keyspace_slot("foo"));
}
