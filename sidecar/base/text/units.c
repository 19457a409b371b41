#include "base/text/units.h"

#include <ctype.h>

typedef struct unit {
    const char *name;
    int64_t factor;
} unit_t;

// Largest first.
static const unit_t DURATIONS[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};
static const unit_t MICROS[] = {{"s", 1000000}, {"ms", 1000}, {"us", 1}, {NULL, 0}};
static const unit_t SIZES[] = {{"TiB", INT64_C(1) << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20},
                               {"KiB", 1 << 10},          {"B", 1},         {NULL, 0}};

static bool units_parse(const char *text, const unit_t *units, int64_t *value) {
    if (!isdigit((unsigned char)*text)) return false;
    char *end;
    errno = 0;
    int64_t count = strtoll(text, &end, 10);
    if (errno) return false;
    while (units->name && strcmp(end, units->name) != 0) units++;
    int64_t product;
    if (!units->name || __builtin_mul_overflow(count, units->factor, &product)) return false;
    *value = product;
    return true;
}

bool duration_parse(const char *text, int64_t *ms) { return units_parse(text, DURATIONS, ms); }

bool micros_parse(const char *text, int64_t *us) { return units_parse(text, MICROS, us); }

bool size_parse(const char *text, int64_t *bytes) {
    static const unit_t none[] = {{"", 1}, {NULL, 0}};
    return units_parse(text, none, bytes) || units_parse(text, SIZES, bytes);
}

static units_text_t units_exact(const unit_t *unit, int64_t value) {
    units_text_t out;
    while (unit->factor > 1 && value % unit->factor != 0) unit++;
    snprintf(out.text, sizeof out.text, "%" PRId64 "%s", value / unit->factor, value ? unit->name : "");
    return out;
}

units_text_t duration_exact(int64_t ms) {
    bool one_day = ms == DURATIONS[0].factor; // 24h reads better than 1d
    return units_exact(DURATIONS + one_day, ms);
}

units_text_t micros_exact(int64_t us) { return units_exact(MICROS, us); }

units_text_t size_exact(int64_t bytes) { return units_exact(SIZES, bytes); }

units_text_t duration_text(int64_t ms) {
    static const struct {
        int64_t below_s, factor_s;
        const char *name;
    } units[] = {{120, 1, "s"}, {120 * 60, 60, "min"}, {48 * 3600, 3600, "h"}, {INT64_MAX, 86400, "d"}};
    units_text_t out;
    if (ms < 0) ms = 0;
    size_t unit = 0;
    while (ms / 1000 >= units[unit].below_s) unit++;
    if (ms < 9950)
        snprintf(out.text, sizeof out.text, "%" PRId64 ".%" PRId64 " s", ms / 1000, ms / 100 % 10);
    else
        snprintf(out.text, sizeof out.text, "%" PRId64 " %s", ms / 1000 / units[unit].factor_s, units[unit].name);
    return out;
}

units_text_t size_text(int64_t bytes) {
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    units_text_t out;
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < sizeof names / sizeof *names; unit++) size /= 1024;
    snprintf(out.text, sizeof out.text, unit && size < 99.95 ? "%.1f %s" : "%.0f %s", size, names[unit]);
    return out;
}

units_text_t number_text(int64_t count) {
    units_text_t digits, out;
    int len = snprintf(digits.text, sizeof digits.text, "%" PRId64, count), used = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0 && digits.text[i - 1] != '-') out.text[used++] = ',';
        out.text[used++] = digits.text[i];
    }
    out.text[used] = '\0';
    return out;
}

units_text_t count_text(int64_t count) {
    if (count < 0) return (units_text_t){"?"};
    if (count < 1000000) return number_text(count);
    units_text_t out;
    bool millions = count < 1000000000;
    snprintf(out.text, sizeof out.text, "%.1f%s", (double)count / (millions ? 1e6 : 1e9), millions ? "M" : "G");
    return out;
}
