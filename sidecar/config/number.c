#include "config/number.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
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
    if (type == KEY_DURATION) return duration_parse(text, value);
    if (type == KEY_SIZE) return size_parse(text, value);
    return config_number_parse(text, value);
}

bool config_number_in_bounds(const config_key_t *key, int64_t value) {
    key_type_t type = key->type == KEY_STEPS                               ? KEY_DURATION
                      : key->type == KEY_DURATION || key->type == KEY_SIZE ? key->type
                                                                           : KEY_INT;
    int64_t low = 0, high = 0;
    return config_number_of(type, key->low, &low) && config_number_of(type, key->high, &high) && value >= low && value <= high;
}

void config_number_write(key_type_t type, int64_t value, buffer_t *out) {
    switch (type) {
    case KEY_DURATION: duration_write(out, value); break;
    case KEY_SIZE: size_write(out, value); break;
    default: buffer_printf(out, "%" PRId64, value);
    }
}
