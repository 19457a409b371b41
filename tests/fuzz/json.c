/* libFuzzer over base/json: `make fuzz`. The first line of the input is a pointer, the rest a text. */
#include "base/json/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool holds) {
    if (!holds) abort();
}

static void check_value(slice_t text, json_value_t value) {
    static buffer_t decoded;
    insist(value.raw.data >= text.data && value.raw.data + value.raw.len <= text.data + text.len);
    if (value.type == JSON_STRING) {
        insist(value.raw.data[-1] == '"' && value.raw.data[value.raw.len] == '"');
        buffer_clear(&decoded);
        insist(json_decode(value.raw, &decoded) ? decoded.len <= value.raw.len : decoded.len == 0);
        return;
    }
    /* The value that was found is JSON itself; json_find returns it again. */
    json_value_t again;
    insist(json_find(value.raw, "", &again) == JSON_FOUND);
    insist(again.type == value.type && slice_equal(again.raw, value.raw));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    if (!line) return 0;
    size_t len = (size_t)(line - data);
    char *pointer = malloc(len + 1), *copy = malloc(size - len);
    memcpy(pointer, data, len);
    pointer[len] = '\0';
    slice_t text = {copy, size - len - 1};
    memcpy(copy, line + 1, text.len);
    json_value_t value;
    json_found_t whole = json_find(text, "", &value);
    bool good = whole == JSON_FOUND;
    insist(good || whole == JSON_BAD);
    if (good) check_value(text, value);
    json_found_t found = json_find(text, pointer, &value);
    insist(good || found == JSON_BAD);
    if (found == JSON_FOUND) check_value(text, value);
    free(copy);
    free(pointer);
    return 0;
}
