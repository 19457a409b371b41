/* base/units: durations and sizes, exact as in a config and rounded for people. */
#include "base/text/units.h"
#include "suite.h"

typedef struct number_row {
    const char *text;
    int64_t value; // -1 = refused
} number_row_t;

Test(unit_units, reads_durations) {
    static const number_row_t rows[] = {
        {"250ms", 250},
        {"0s", 0},
        {"30s", 30000},
        {"3m", 180000},
        {"24h", 86400000},
        {"30d", INT64_C(2592000000)},
        {"", -1},
        {"5", -1},
        {"s", -1},
        {"-5s", -1},
        {"5 s", -1},
        {" 5s", -1},
        {"5S", -1},
        {"1h30m", -1},
        {"1.5s", -1},
        {"5sec", -1},
        {"+5s", -1},
        {"99999999999999999999s", -1},
        {"106751991167d", INT64_C(106751991167) * 86400000},
        {"106751991168d", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t got = -7;
        bool good = duration_parse(rows[i].text, &got);
        cr_expect_eq(good, rows[i].value >= 0, "%s", rows[i].text);
        cr_expect_eq(got, good ? rows[i].value : -7, "%s", rows[i].text);
    }
}

Test(unit_units, reads_microseconds) {
    static const number_row_t rows[] = {
        {"500us", 500}, {"2ms", 2000}, {"1s", 1000000}, {"500", -1}, {"5m", -1}, {"1.5ms", -1}, {"-1us", -1}, {"", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t got = -7;
        bool good = micros_parse(rows[i].text, &got);
        cr_expect_eq(good, rows[i].value >= 0, "%s", rows[i].text);
        cr_expect_eq(got, good ? rows[i].value : -7, "%s", rows[i].text);
    }
    cr_expect_str_eq(micros_exact(500).text, "500us");
    cr_expect_str_eq(micros_exact(100000).text, "100ms");
}

Test(unit_units, reads_sizes) {
    static const number_row_t rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"12B", 12},
        {"64KiB", 65536},
        {"16MiB", 16777216},
        {"1GiB", 1073741824},
        {"2TiB", INT64_C(1) << 41},
        {"16MB", -1},
        {"16M", -1},
        {"1.5MiB", -1},
        {"-1", -1},
        {"", -1},
        {"KiB", -1},
        {"16 MiB", -1},
        {"8388608TiB", -1},
        {"99999999999999999999", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t got = -7;
        bool good = size_parse(rows[i].text, &got);
        cr_expect_eq(good, rows[i].value >= 0, "%s", rows[i].text);
        cr_expect_eq(got, good ? rows[i].value : -7, "%s", rows[i].text);
    }
}

Test(unit_units, writes_the_largest_unit_that_divides) {
    static const struct {
        int64_t number;
        const char *duration, *size;
    } rows[] = {{0, "0", "0"},
                {1, "1ms", "1B"},
                {1024, "1024ms", "1KiB"},
                {180000, "3m", "180000B"},
                {3 << 20, "3145728ms", "3MiB"},
                {3600000, "1h", "3600000B"},
                {86400000, "24h", "84375KiB"},
                {172800000, "2d", "168750KiB"},
                {INT64_C(5) << 40, "5497558138880ms", "5TiB"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_str_eq(duration_exact(rows[i].number).text, rows[i].duration);
        cr_expect_str_eq(size_exact(rows[i].number).text, rows[i].size);
    }
}

Test(unit_units, rounds_for_people) {
    static const struct {
        int64_t number;
        const char *duration, *size, *count;
    } rows[] = {{-1, "0.0 s", "-1 bytes", "?"},
                {0, "0.0 s", "0 bytes", "0"},
                {999, "0.9 s", "999 bytes", "999"},
                {9949, "9.9 s", "9.7 KiB", "9,949"},
                {9950, "9 s", "9.7 KiB", "9,950"},
                {119999, "119 s", "117 KiB", "119,999"},
                {120000, "2 min", "117 KiB", "120,000"},
                {7199999, "119 min", "6.9 MiB", "7.2M"},
                {7200000, "2 h", "6.9 MiB", "7.2M"},
                {172800000, "2 d", "165 MiB", "172.8M"},
                {INT64_C(5000000000), "57 d", "4.7 GiB", "5.0G"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_str_eq(duration_text(rows[i].number).text, rows[i].duration);
        cr_assert_str_eq(size_text(rows[i].number).text, rows[i].size);
        cr_assert_str_eq(count_text(rows[i].number).text, rows[i].count);
    }
    cr_assert_str_eq(number_text(-1234567).text, "-1,234,567");
}
