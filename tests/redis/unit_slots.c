/* The slot map of a Redis Cluster, and redirections. Replies are in the form in which Redis sends them. */
#include "redis/cluster/slots.h"
#include "suite.h"

#include <hiredis/hiredis.h>

/* Parses a reply in wire format; owned. */
static redisReply *reply_of(const char *wire) {
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    redisReaderFeed(reader, wire, strlen(wire));
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK, "%s", reader->errstr);
    cr_assert_not_null(reply, "incomplete: %s", wire);
    redisReaderFree(reader);
    return reply;
}

static bool read_map(const char *wire, slot_map_t *map) {
    redisReply *reply = reply_of(wire);
    bool good = slot_map_read(reply, "asked", map);
    freeReplyObject(reply);
    return good;
}

#define HOST(text, length)    "$" #length "\r\n" text "\r\n"
#define NO_HOST               "$-1\r\n"
#define ID                    "$3\r\nabc\r\n"
#define NODE(host, port)      "*3\r\n" host ":" #port "\r\n" ID
#define RANGE(from, to, node) "*3\r\n:" #from "\r\n:" #to "\r\n" node
#define A                     HOST("10.0.0.1", 8)
#define B                     HOST("fd00::1", 7)

static void expect_node(const slot_map_t *map, unsigned slot, const char *host, int port) {
    cr_assert_gt(map->owner[slot], 0, "slot %u", slot);
    const address_t *node = &map->nodes[map->owner[slot] - 1];
    cr_assert_str_eq(node->host, host);
    cr_assert_eq(node->port, port);
}

Test(unit_slots, ranges_of_one_node_are_one_node) {
    scoped(slot_map_free) slot_map_t map;
    cr_assert(
        read_map("*3\r\n" RANGE(0, 99, NODE(A, 7000)) RANGE(100, 199, NODE(B, 7000)) RANGE(300, 16383, NODE(A, 7000)), &map));
    cr_assert_eq(map.node_count, 2);
    expect_node(&map, 0, "10.0.0.1", 7000);
    expect_node(&map, 99, "10.0.0.1", 7000);
    expect_node(&map, 100, "fd00::1", 7000);
    expect_node(&map, 199, "fd00::1", 7000);
    cr_assert_eq(map.owner[200], 0);
    cr_assert_eq(map.owner[299], 0);
    expect_node(&map, 16383, "10.0.0.1", 7000);
}

Test(unit_slots, replicas_are_left_out) {
    scoped(slot_map_free) slot_map_t map;
    cr_assert(read_map("*1\r\n*5\r\n:0\r\n:16383\r\n" NODE(A, 7000) NODE(B, 7001) NODE(A, 7002), &map));
    cr_assert_eq(map.node_count, 1);
    expect_node(&map, 5, "10.0.0.1", 7000);
}

Test(unit_slots, null_and_empty_hosts_are_the_host_that_was_asked) {
    scoped(slot_map_free) slot_map_t map;
    cr_assert(read_map("*2\r\n" RANGE(0, 1, NODE(NO_HOST, 7000)) RANGE(2, 3, NODE("$0\r\n\r\n", 7001)), &map));
    expect_node(&map, 0, "asked", 7000);
    expect_node(&map, 2, "asked", 7001);
}

#define NAMED(host) "*4\r\n" host ":7000\r\n" ID "*2\r\n$2\r\nip\r\n$8\r\n10.0.0.9\r\n"

Test(unit_slots, a_node_without_its_host_name_is_reached_by_its_address) {
    slot_map_t map;
    cr_assert(read_map("*2\r\n" RANGE(0, 1, NAMED(HOST("?", 1))) RANGE(2, 3, NAMED(HOST("n1.svc", 6))), &map));
    expect_node(&map, 0, "10.0.0.9", 7000);
    expect_node(&map, 2, "n1.svc", 7000);
    slot_map_free(&map);
    cr_assert(read_map("*1\r\n" RANGE(0, 1, NODE(HOST("?", 1), 7000)), &map));
    expect_node(&map, 0, "asked", 7000);
    slot_map_free(&map);
}

/* Others still give it its slots after a CLUSTER RESET HARD. */
Test(unit_slots, a_node_without_an_address_serves_nothing) {
    scoped(slot_map_free) slot_map_t map;
    cr_assert(
        read_map("*3\r\n" RANGE(0, 49, NODE(HOST("", 0), 0)) RANGE(50, 99, NODE(B, 0)) RANGE(100, 199, NODE(A, 7000)), &map));
    cr_assert_eq(map.owner[0], 0);
    cr_assert_eq(map.owner[99], 0);
    expect_node(&map, 100, "10.0.0.1", 7000);
    cr_assert_eq(map.node_count, 1);
}

Test(unit_slots, a_malformed_map_is_no_map) {
    static const char *const rows[] = {
        "+OK\r\n",
        ":1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n" RANGE(5, 4, NODE(A, 7000)),
        "*1\r\n" RANGE(0, 16384, NODE(A, 7000)),
        "*1\r\n" RANGE(-1, 4, NODE(A, 7000)),
        "*1\r\n" RANGE(0, 4, NODE(A, -1)),
        "*1\r\n" RANGE(0, 4, NODE(A, 65536)),
        "*1\r\n*3\r\n$1\r\n0\r\n:1\r\n" NODE(A, 7000),
        "*2\r\n" RANGE(0, 4, NODE(A, 7000)) "*0\r\n",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        slot_map_t map;
        cr_assert_not(read_map(rows[i], &map), "%s", rows[i]);
        cr_assert_eq(map.node_count, 0);
        cr_assert_null(map.nodes);
    }
}

Test(unit_slots, a_cluster_without_slots_has_an_empty_map) {
    scoped(slot_map_free) slot_map_t map;
    cr_assert(read_map("*0\r\n", &map));
    cr_assert_eq(map.node_count, 0);
}

Test(unit_slots, redirections) {
    static const struct {
        const char *text;
        unsigned slot;
        const char *host;
        int port;
    } rows[] = {
        {"MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1", 6381},
        {"MOVED 0 127.0.0.1:6381", 0, "127.0.0.1", 6381},
        {"MOVED 16383 fd00::1:6381", 16383, "fd00::1", 6381},
        {"MOVED 1 redis-1.svc:6381", 1, "redis-1.svc", 6381},
        {"MOVED 1 :6381", 1, "asked", 6381},
        {"MOVED 1 ?:6381", 1, "", 6381},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        redirection_t read;
        cr_assert(redirection_read(slice_text(rows[i].text), "asked", &read), "%s", rows[i].text);
        cr_assert_eq(read.slot, rows[i].slot);
        cr_assert_str_eq(read.address.host, rows[i].host);
        cr_assert_eq(read.address.port, rows[i].port);
    }
}

Test(unit_slots, other_errors_are_no_redirections) {
    static const char *const rows[] = {"",
                                       "MOVED",
                                       "MOVED 1",
                                       "MOVED 1 host",
                                       "MOVED x :1",
                                       "MOVED 16384 h:1",
                                       "MOVED -1 h:1",
                                       "MOVED 1 h:0",
                                       "MOVED 1 h:65536",
                                       "MOVEDX 1 h:1",
                                       "ASK 1 h:1",
                                       "TRYAGAIN Multiple keys request"};
    redirection_t read;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_assert_not(redirection_read(slice_text(rows[i]), "asked", &read), "%s", rows[i]);
}
