/* libFuzzer over json_pick and json_splice: `make fuzz`. The first line of the input is a key, the second a key in its value (or
 * empty: none), the rest a text. json_pick finds what json_find finds, and a splice changes that value and nothing else. */
#include "base/json/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool holds) {
    if (!holds) abort();
}

/* Appends the next line of the input to the pointer, as a key. False: there is no line, or it holds a NUL. */
static bool take_key(const uint8_t **data, size_t *size, buffer_t *pointer) {
    const uint8_t *line = *size ? memchr(*data, '\n', *size) : NULL;
    if (!line) return false;
    buffer_str(pointer, "/");
    for (const uint8_t *at = *data; at < line; at++) {
        if (*at == '\0') return false;
        if (*at == '~' || *at == '/')
            buffer_str(pointer, *at == '~' ? "~0" : "~1");
        else
            buffer_add(pointer, at, 1);
    }
    *size -= (size_t)(line - *data) + 1;
    *data = line + 1;
    return true;
}

static void check_splice(slice_t text, const json_pick_t *pick) {
    static buffer_t after;
    slice_t raw = pick->value.raw, with = slice_text(pick->value.type == JSON_STRING ? "new" : "-12");
    size_t before = (size_t)(raw.data - text.data), behind = text.len - before - raw.len;
    buffer_clear(&after);
    insist(json_splice(text, &(json_cut_t){raw, with}, 1, &after));
    insist(after.len == before + with.len + behind);
    insist(memcmp(after.data, text.data, before) == 0 && memcmp(after.data + before, with.data, with.len) == 0);
    insist(memcmp(after.data + before + with.len, raw.data + raw.len, behind) == 0);
    json_pick_t again = {.pointer = pick->pointer};
    insist(json_pick((slice_t){after.data, after.len}, &again, 1) && again.found == JSON_FOUND);
    insist(again.value.raw.data == after.data + before && slice_equal(again.value.raw, with));
    int64_t number;
    if (pick->value.type == JSON_NUMBER) json_integer(raw, &number);
}

static void check_pick(const char *pointer, const uint8_t *data, size_t size) {
    char *copy = malloc(size + (size == 0));
    memcpy(copy, data, size);
    slice_t text = {copy, size};
    json_pick_t pick = {.pointer = pointer};
    insist(json_pick(text, &pick, 1) == (pick.found != JSON_BAD));
    json_value_t whole, value;
    if (json_find(text, "", &whole) == JSON_FOUND) {
        json_found_t found = json_find(text, pointer, &value);
        insist((whole.type == JSON_OBJECT ? found : JSON_BAD) == pick.found);
        if (pick.found == JSON_FOUND) insist(value.type == pick.value.type && value.raw.data == pick.value.raw.data);
        if (pick.found == JSON_FOUND) insist(value.raw.len == pick.value.raw.len);
    } else {
        insist(pick.found == JSON_BAD || size > 2 * JSON_MAX_TOKENS); /* beyond the bounds of json_find alone */
    }
    if (pick.found == JSON_FOUND) check_splice(text, &pick);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static buffer_t pointer;
    buffer_clear(&pointer);
    if (!take_key(&data, &size, &pointer)) return 0;
    const uint8_t *second = memchr(data, '\n', size);
    if (!second || (second > data ? !take_key(&data, &size, &pointer) : false)) return 0;
    if (second == data) data++, size--;
    check_pick(buffer_text(&pointer), data, size);
    return 0;
}
