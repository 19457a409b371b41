#include "config/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/units.h"

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
    if (type == KEY_DURATION || type == KEY_STEPS) return duration_parse(text, value);
    if (type == KEY_SIZE) return size_parse(text, value);
    return config_number_parse(text, value);
}

bool config_number_in_bounds(const config_key_t *key, int64_t value) {
    int64_t low = 0, high = 0;
    return config_number_of(key->type, key->low, &low) && config_number_of(key->type, key->high, &high) && value >= low &&
           value <= high;
}
