/* base/text/address: addresses of servers, as people and as servers write them. */
#include "base/text/address.h"
#include "suite.h"

typedef struct address_row {
    const char *text;
    const char *host; /* NULL = refused */
    int port;
} address_row_t;

typedef bool parse_fn(slice_t text, address_t *out);

static void expect_rows(parse_fn *parse, const address_row_t *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        address_t got = {.host = "untouched", .port = -7};
        bool good = parse(slice_text(rows[i].text), &got);
        cr_expect_eq(good, rows[i].host != NULL, "%s", rows[i].text);
        cr_expect_str_eq(got.host, rows[i].host ? rows[i].host : "untouched", "%s", rows[i].text);
        cr_expect_eq(got.port, rows[i].host ? rows[i].port : -7, "%s", rows[i].text);
    }
}

Test(unit_address, reads_what_people_write) {
    static const address_row_t rows[] = {
        {"redis:6379", "redis", 6379},
        {"Redis-0.redis.svc.cluster.local:1", "Redis-0.redis.svc.cluster.local", 1},
        {"10.0.0.1:65535", "10.0.0.1", 65535},
        {"my_host:7000", "my_host", 7000},
        {"[::1]:7000", "::1", 7000},
        {"[2001:db8::7]:26379", "2001:db8::7", 26379},
        {"[::ffff:10.0.0.1]:6379", "::ffff:10.0.0.1", 6379},
        {"[fe80::1%eth0]:6379", "fe80::1%eth0", 6379},
        {"", NULL, 0},
        {":", NULL, 0},
        {":6379", NULL, 0},
        {"redis", NULL, 0},
        {"redis:", NULL, 0},
        {"redis:0", NULL, 0},
        {"redis:65536", NULL, 0},
        {"redis:99999999999999999999", NULL, 0},
        {"redis:+6379", NULL, 0},
        {"redis: 6379", NULL, 0},
        {"redis:6379 ", NULL, 0},
        {"redis:0x10", NULL, 0},
        {" redis:6379", NULL, 0},
        {"re dis:6379", NULL, 0},
        {"re\ndis:6379", NULL, 0},
        {"redis:6379:6380", NULL, 0},
        {"::1:7000", NULL, 0}, /* the end of the address, or a port? */
        {"::1", NULL, 0},
        {"[::1]", NULL, 0},
        {"[::1]7000", NULL, 0},
        {"[::1:7000", NULL, 0},
        {"::1]:7000", NULL, 0},
        {"[]:7000", NULL, 0},
        {"[redis]:7000", NULL, 0},
        {"[10.0.0.1]:7000", NULL, 0},
        {"[::1%]:7000", NULL, 0},
        {"[::g]:7000", NULL, 0},
        {"redis://h:6379", NULL, 0},
        {"user@h:6379", NULL, 0},
        {"a=b:6379", NULL, 0},
        {"a,b:6379", NULL, 0},
        {"a%b:6379", NULL, 0},
    };
    expect_rows(address_parse, rows, sizeof rows / sizeof *rows);
}

Test(unit_address, reads_pairs) {
    static const char *const bad[] = {"", "=", "a:1", "a:1=", "=a:1", "a:1=b", "a=b:1", "a:1=b:2=c:3", "a:1 = b:2", "a:1==b:2"};
    address_t from, to;
    cr_assert(address_parse_pair(slice_text("10.0.0.1:6379=[::1]:7000"), &from, &to));
    cr_expect_str_eq(address_text(&from).text, "10.0.0.1:6379");
    cr_expect_str_eq(address_text(&to).text, "[::1]:7000");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_not(address_parse_pair(slice_text(bad[i]), &from, &to), "%s", bad[i]);
        cr_expect_str_eq(address_text(&from).text, "10.0.0.1:6379", "%s", bad[i]);
        cr_expect_str_eq(address_text(&to).text, "[::1]:7000", "%s", bad[i]);
    }
}

Test(unit_address, reads_what_servers_announce) {
    static const address_row_t rows[] = {
        {"10.0.0.1:6379", "10.0.0.1", 6379},
        {"node-1.example.com:6379", "node-1.example.com", 6379},
        {"::1:7000", "::1", 7000},
        {"2001:db8::7:7000", "2001:db8::7", 7000},
        {"[::1]:7000", "::1", 7000},
        {"fe80::1%eth0:7000", "fe80::1%eth0", 7000},
        {":7000", "", 7000},
        {"?:7000", "?", 7000},
        {"7000", NULL, 0},
        {"h:0", NULL, 0},
        {"h:x", NULL, 0},
        {"a:b:7000", NULL, 0},
        {"[h]:7000", NULL, 0},
        {"h:7000@17000", NULL, 0},
        {"h:7000,name", NULL, 0},
    };
    expect_rows(address_parse_announced, rows, sizeof rows / sizeof *rows);
}

Test(unit_address, refuses_a_host_that_does_not_fit_and_a_nul) {
    char text[ADDRESS_HOST_SIZE + 8];
    address_t got;
    memset(text, 'a', sizeof text);
    memcpy(text + ADDRESS_HOST_SIZE - 1, ":1", 2);
    cr_expect(address_parse((slice_t){text, ADDRESS_HOST_SIZE + 1}, &got));
    cr_expect_eq(strlen(got.host), ADDRESS_HOST_SIZE - 1);
    memcpy(text + ADDRESS_HOST_SIZE - 1, "a:1", 3);
    cr_expect_not(address_parse((slice_t){text, ADDRESS_HOST_SIZE + 2}, &got));
    cr_expect_not(address_parse((slice_t){"a\0b:1", 5}, &got));
    cr_expect_not(address_parse_announced((slice_t){"a\0b:1", 5}, &got));
    cr_expect(address_parse((slice_t){"a:12", 3}, &got) && got.port == 1); /* reads no byte behind the slice */
}

Test(unit_address, writes_text_that_reads_back) {
    static const char *const texts[] = {"redis:6379", "10.0.0.1:1", "[::1]:65535", "[fe80::1%eth0]:6379"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        address_t read;
        cr_assert(address_parse(slice_text(texts[i]), &read));
        cr_expect_str_eq(address_text(&read).text, texts[i]);
    }
}

Test(unit_address, compares_names_without_case) {
    address_t a = {"Redis", 1}, b = {"redis", 1}, c = {"redis", 2}, d = {"redi", 1};
    cr_expect(address_equal(&a, &b));
    cr_expect_not(address_equal(&b, &c));
    cr_expect_not(address_equal(&b, &d));
}

Test(unit_address, compares_v6_addresses_not_their_texts) {
    static const struct {
        const char *a, *b;
        bool equal;
    } rows[] = {
        {"::1", "0:0::1", true},
        {"2001:db8::7", "2001:0DB8:0:0::7", true},
        {"::ffff:10.0.0.1", "::ffff:a00:1", true},
        {"::1", "::2", false},
        {"fe80::1%eth0", "fe80:0::1%eth0", true},
        {"fe80::1%eth0", "fe80::1%eth1", false},
        {"fe80::1%eth0", "fe80::1", false},
        {"10.0.0.1", "::ffff:10.0.0.1", false},
        {"", "::", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        address_t a = {.port = 1}, b = {.port = 1};
        snprintf(a.host, sizeof a.host, "%s", rows[i].a);
        snprintf(b.host, sizeof b.host, "%s", rows[i].b);
        cr_expect_eq(address_equal(&a, &b), rows[i].equal, "%s and %s", rows[i].a, rows[i].b);
        cr_expect_eq(address_equal(&b, &a), rows[i].equal, "%s and %s", rows[i].b, rows[i].a);
    }
}
