#include "model/event.h"

enum { INT64_TEXT_SIZE = 21, REF_BITS = 5, REF_DIGITS = EVENT_REF_SIZE - 1 };

static slice_t event_number(int64_t number, char text[INT64_TEXT_SIZE]) {
    int len = snprintf(text, INT64_TEXT_SIZE, "%" PRId64, number);
    return (slice_t){text, (size_t)len};
}

// Never change: all instances and releases must compute the same id.
void event_id(event_t *event, int64_t life, int64_t nth, char id[EVENT_ID_SIZE]) {
    char life_text[INT64_TEXT_SIZE], attempts_text[INT64_TEXT_SIZE], nth_text[INT64_TEXT_SIZE];
    slice_t parts[] = {
        event->dialect,
        event->queue,
        event->job,
        event->sha256,
        event_number(life, life_text),
        event_number(event->attempts, attempts_text),
        event->kind,
        event_number(nth, nth_text),
    };
    digest_t digest = digest_of_parts(parts, sizeof parts / sizeof *parts);
    digest_hex(&digest, id);
    event->event = slice_text(id);
}

bool event_ref(slice_t id, char ref[EVENT_REF_SIZE]) {
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    digest_t digest;
    if (!digest_parse(id, &digest)) return false;
    uint64_t high = 0; // the first 64 bits, of which the ref shows the highest 60
    for (size_t i = 0; i < sizeof high; i++) high = high << 8 | digest.bytes[i];
    for (int i = 0; i < REF_DIGITS; i++, high <<= REF_BITS) ref[i] = digits[high >> (64 - REF_BITS)];
    ref[REF_DIGITS] = '\0';
    return true;
}

bool event_set(event_t *event, slice_t name, slice_t value) {
#define X(field, help)                                                                                                           \
    if (slice_is(name, #field)) {                                                                                                \
        event->field = value;                                                                                                    \
        return true;                                                                                                             \
    }
    EVENT_TEXTS(X)
#undef X
#define X(field, help)                                                                                                           \
    if (slice_is(name, #field)) return slice_integer(value, &event->field);
    EVENT_NUMBERS(X)
#undef X
    return false;
}
