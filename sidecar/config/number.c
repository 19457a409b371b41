#include "config/number.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct unit {
    const char *name;
    int64_t factor;
} unit_t;

// Largest first, as config_number_write tries them.
static const unit_t durations[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};
static const unit_t sizes[] = {{"TiB", INT64_C(1) << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20},
                               {"KiB", 1 << 10},          {"B", 1},         {NULL, 0}};

static bool number_parse_with_unit(const char *text, const unit_t *units, int64_t *value) {
    if (!isdigit((unsigned char)*text)) return false;
    char *end;
    errno = 0;
    int64_t count = strtoll(text, &end, 10);
    if (errno) return false;
    for (; units->name; units++) {
        int64_t product;
        if (strcmp(end, units->name) != 0) continue;
        if (__builtin_mul_overflow(count, units->factor, &product)) return false;
        *value = product;
        return true;
    }
    return false;
}

bool config_parse_duration(const char *text, int64_t *ms) { return number_parse_with_unit(text, durations, ms); }

bool config_parse_size(const char *text, int64_t *bytes) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0) return false;
    return text[digits] ? number_parse_with_unit(text, sizes, bytes) : config_number_parse(text, bytes);
}

bool config_number_parse(const char *text, int64_t *value) {
    const char *digits = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*digits)) return false;
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    char *end;
    errno = 0;
    int64_t parsed = strtoll(text, &end, hex ? 16 : 10);
    if (errno || (*end && strcmp(end, "L") != 0 && strcmp(end, "LL") != 0)) return false;
    *value = parsed;
    return true;
}

bool config_number_wraps(const char *text, int64_t value) {
    return (value > INT32_MAX || value < INT32_MIN) && text[strlen(text) - 1] != 'L';
}

bool config_number_of(key_type_t type, const char *text, int64_t *value) {
    if (type == KEY_DURATION) return config_parse_duration(text, value);
    if (type == KEY_SIZE) return config_parse_size(text, value);
    return config_number_parse(text, value);
}

void config_number_write(key_type_t type, int64_t value, buffer_t *out) {
    if (type == KEY_INT || value == 0) {
        buffer_printf(out, "%" PRId64, value);
        return;
    }
    const unit_t *unit = type == KEY_DURATION ? durations : sizes;
    while (unit->factor > 1 && value % unit->factor != 0) unit++;
    if (type == KEY_DURATION && value == unit->factor && unit == durations) unit++; // 24h reads better than 1d
    buffer_printf(out, "%" PRId64 "%s", value / unit->factor, unit->name);
}
