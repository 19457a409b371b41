#include "dialects/delayed_queue/internal.h"

#include "base/json/json.h"

enum {
    MAX_ATTEMPT = 1000000,
    FAST_DIGITS = 5, // the largest number of digits of an attempt that the script reads
};

delayed_name_t delayed_name(slice_t member) {
    const char *cut = memmem(member.data, member.len, DELAYED_DELIMITER, sizeof DELAYED_DELIMITER - 1);
    if (!cut) return (delayed_name_t){.id = member};
    const char *id = cut + sizeof DELAYED_DELIMITER - 1;
    return (delayed_name_t){.class = {member.data, (size_t)(cut - member.data)},
                            .id = {id, (size_t)(member.data + member.len - id)}};
}

bool delayed_class(const delayed_config_t *own, slice_t name, size_t *out) {
    for (*out = 0; *out < own->classes.count; ++*out)
        if (slice_is(name, own->classes.items[*out])) return true;
    return false;
}

bool delayed_read(slice_t text, slice_t class, delayed_envelope_t *out) {
    enum { PAYLOAD, TYPE, ATTEMPT, PICKS };
    json_pick_t picks[PICKS] = {
        [PAYLOAD] = {.pointer = "/payload"}, [TYPE] = {.pointer = "/type"}, [ATTEMPT] = {.pointer = "/attempt"}};
    if (!json_pick(text, picks, PICKS)) return false;
    for (size_t i = 0; i < PICKS; i++)
        if (picks[i].found != JSON_FOUND) return false;
    out->digits = picks[ATTEMPT].value.raw;
    return picks[PAYLOAD].value.type == JSON_OBJECT && picks[TYPE].value.type == JSON_STRING &&
           slice_equal(picks[TYPE].value.raw, class) && picks[ATTEMPT].value.type == JSON_NUMBER &&
           json_integer(out->digits, &out->attempt) && out->attempt >= 1 && out->attempt <= MAX_ATTEMPT;
}

bool delayed_is_fast(slice_t text, slice_t class, const delayed_envelope_t *envelope) {
    char *tail = mem_printf(",\"type\":\"%.*s\",\"attempt\":%" PRId64 ",\"logContext\":{}}", (int)class.len, class.data,
                            envelope->attempt);
    size_t len = strlen(tail);
    bool fast = envelope->digits.len <= FAST_DIGITS && text.len > len && memcmp(text.data + text.len - len, tail, len) == 0;
    free(tail);
    return fast;
}

void delayed_splice(slice_t text, const delayed_envelope_t *envelope, int64_t attempt, buffer_t *out) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, attempt);
    json_cut_t cut = {.raw = envelope->digits, .with = slice_text(digits)};
    (void)json_splice(text, &cut, 1, out); // cannot fail: there is one cut, and it lies inside the text
}

int64_t delayed_delay_ms(const delayed_config_t *own, int64_t attempt) {
    for (size_t i = 0; i + 1 < own->delays.count; i++)
        if (attempt < own->delays.items[i].below) return own->delays.items[i].delay_ms;
    return own->delays.items[own->delays.count - 1].delay_ms;
}
