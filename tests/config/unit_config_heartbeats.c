/* A heartbeat belongs to one queue. Queues whose heartbeats can be the same key are warned about, and work on as before. */
#include "config_case.h"
#include "suite.h"

SUITE(unit_config_heartbeats, config_case_begin(), config_case_end());

Test(unit_config_heartbeats, patterns_that_can_make_one_key_meet) {
    static const struct {
        const char *one, *other;
        bool meet;
    } rows[] = {
        {"*_alive", "*_alive", true},
        {"*", "*", true},
        {"{q}:*_alive", "{q}:*_alive", true},
        {"job*", "job2*", true}, /* job2 and 7, job and 27 */
        {"job*", "job23*:x", false},
        {"job*", "job23*", true},
        {"hb:*", "hb:*1", true}, /* hb:41 */
        {"job*1", "job2*21", true},
        {"job1*", "job2*", false},
        {"*1", "*2", false},
        {"*_alive", "email:*_alive", false}, /* numbers, digests and UUIDs do not begin so */
        {"email:*_alive", "orders:*_alive", false},
        {"email:*_alive", "email2:*_alive", false},
        {"*_alive", "*_beat", false},
        {"*_alive", "*", false},
        {"off", "off", false},
        {"off", "*", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(config_heartbeats_meet(rows[i].one, rows[i].other), rows[i].meet, "%s %s", rows[i].one, rows[i].other);
        cr_expect_eq(config_heartbeats_meet(rows[i].other, rows[i].one), rows[i].meet, "%s %s", rows[i].other, rows[i].one);
    }
}

#define TEXT(names, heartbeats) "queues " names " have heartbeats in common (" heartbeats "): "
#define REST(name)                                                                                                               \
    "if two jobs have the same id, the worker of one speaks for both. Give each queue its own, such as heartbeat = \"" name      \
    ":*_alive\", and let its workers write that key, or \"off\" if they write none\n"
#define BOTH(names) TEXT(names, "\"*_alive\"")
#define KM          "dialect = \"kmqueue\"; queues = [\"w:safe\"]; "
#define PQ          "dialect = \"private_queues\"; main = \"m\"; private = \"p-*\"; "
#define LONG        "aaaaaaaaaabbbbbbbbbbccccccccccddddddddd"

Test(unit_config_heartbeats, queues_with_heartbeats_in_common_are_warned_about_once) {
    static const struct {
        const char *text, *warning;
    } rows[] = {
        /* Configs of before name no heartbeat. */
        {"queues = (\n{ name = \"email\"; },\n{ name = \"orders\"; } );", "F:3: " BOTH("email and orders") REST("orders")},
        {"defaults = { id_path = \"/id\"; };\nqueues = ( { name = \"email\"; }, { name = \"orders\"; id_path = \"\"; } );",
         "F:2: " BOTH("email and orders") REST("orders")},
        {"queues = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"c\"; } );", "F:1: " BOTH("a, b and c") REST("b")},
        {"queues = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"c\"; }, { name = \"d\"; }, { name = \"e\"; }, { name = "
         "\"f\"; } );",
         "F:1: " BOTH("a, b, c, d and 2 more") REST("b")},
        {"queues = ( { name = \"a\"; heartbeat = \"a:*_alive\"; }, { name = \"b\"; }, { name = \"c\"; heartbeat = "
         "\"c:*_alive\"; },\n{ name = \"d\";\nheartbeat = \"*_alive\"; } );",
         "F:3: " BOTH("b and d") REST("d")},
        {"queues = ( { name = \"a\"; }, { name = \"b\"; " KM "} );", "F:1: " BOTH("a and b") REST("b")},
        {"queues = ( { name = \"a\"; }, { name = \"b\"; " PQ "heartbeat = \"*_alive\"; } );", "F:1: " BOTH("a and b") REST("b")},
        {"queues = ( { name = \"job\"; heartbeat = \"job*\"; }, { name = \"job2\"; heartbeat = \"job2*\"; } );",
         "F:1: " TEXT("job and job2", "\"job*\" and \"job2*\"") REST("job2")},
        {"queues = ( { name = \"" LONG "\xc3\xa4xyz\"; }, { name = \"b\"; } );",
         "F:1: " BOTH(LONG "\xc3\xa4... and b") REST("b")},
        {"redis = { nodes = [\"h:1\"]; };\nqueues = ( { name = \"{q}a\"; heartbeat = \"{q}*\"; }, { name = \"{q}b\"; heartbeat = "
         "\"{q}*\"; } );",
         "F:2: " TEXT("{q}a and {q}b", "\"{q}*\"") REST("{q}b")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *warning;
        scoped(config_drop) config_t *config = config_case_good(rows[i].text, &warning);
        cr_expect_str_eq(warning, rows[i].warning, "%s\n got      %s expected %s", rows[i].text, warning, rows[i].warning);
        free(warning);
    }
}

Test(unit_config_heartbeats, queues_with_heartbeats_of_their_own_are_not_warned_about) {
    static const char *const texts[] = {
        "queues = ( { name = \"email\"; } );",
        "queues = ( { name = \"email\"; heartbeat = \"email:*_alive\"; }, { name = \"orders\"; } );",
        "queues = ( { name = \"email\"; heartbeat = \"off\"; }, { name = \"orders\"; } );",
        "defaults = { heartbeat = \"off\"; };\nqueues = ( { name = \"email\"; }, { name = \"orders\"; } );",
        "queues = ( { name = \"email\"; }, { name = \"orders\"; roles = [\"dispatcher\"]; } );",
        "queues = ( { name = \"email\"; }, { name = \"fights\"; " PQ "}, { name = \"video\"; dialect = \"bull\"; } );",
        "queues = ( { name = \"email\"; heartbeat = \"email:*_alive\"; }, { name = \"mail\"; " KM "} );",
        /* The ids have the hash tags. */
        "redis = { nodes = [\"h:1\"]; };\nqueues = ( { name = \"{email}\"; }, { name = \"{sms}\"; } );",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *warning;
        config_free(config_case_good(texts[i], &warning));
        cr_expect_str_empty(warning, "%s", texts[i]);
        free(warning);
    }
}
