#include "http/api/answers/order.h"

#include "base/json/walk.h"
#include "operate/requeue/requeue.h"

static const param_t order_fields[] = {
    {"action", PARAM_WORD, 0, 0, "requeue discard", true, "requeue or discard"},
    {"refs", PARAM_TEXT, 1, 64, NULL, false, "a list of refs"},
    {"filter", PARAM_TEXT, 0, 0, NULL, false, "an object with the filters of failures"},
    {"to", PARAM_TEXT, 1, 128, NULL, false, "the queue that receives the jobs"},
    {"rate", PARAM_TEXT, 1, 16, NULL, false, "a number with /s or /m, like 50/s"},
    {"because", PARAM_TEXT, 0, ORDER_NOTE_MAX, NULL, false, "the reason"},
    {"again", PARAM_BOOL, 0, 0, NULL, false, "also failures that were answered before"},
    {"dry_run", PARAM_BOOL, 0, 0, NULL, false, "only count"},
    {"plan", PARAM_TEXT, 1, 256, NULL, false, "the plan of a dry run of the same filter"},
};
enum {
    FIELD_ACTION,
    FIELD_REFS,
    FIELD_FILTER,
    FIELD_TO,
    FIELD_RATE,
    FIELD_BECAUSE,
    FIELD_AGAIN,
    FIELD_DRY_RUN,
    FIELD_PLAN,
    FIELDS
};

typedef struct order_reader {
    json_walk_t walk;
    order_t *order;
    answer_t *answer;
    bool given[FIELDS];
    buffer_t text; // of the value read last
} order_reader_t;

static bool order_fail_json(const order_reader_t *reader, slice_t body) {
    answer_problem(reader->answer, 400, NULL, "the body is not valid JSON at byte %td", reader->walk.at - body.data + 1);
    return false;
}

static bool order_decode(order_reader_t *reader, slice_t token) {
    buffer_clear(&reader->text);
    if (json_decode(json_unquoted(token), &reader->text)) return true;
    answer_problem(reader->answer, 400, NULL, "the body holds a lone surrogate, which has no UTF-8");
    return false;
}

// Reads a string, or a bool as its word, into reader->text.
static bool order_take_value(order_reader_t *reader, const param_t *field) {
    if (json_walk_next(&reader->walk) == JSON_AT_VALUE) {
        slice_t token = reader->walk.token;
        json_type_t type = json_token_value(token).type;
        buffer_clear(&reader->text);
        if (type == JSON_BOOL && field->type == PARAM_BOOL) {
            buffer_add(&reader->text, token.data, token.len);
            return true;
        }
        if (type == JSON_STRING && field->type != PARAM_BOOL)
            return order_decode(reader, token) &&
                   params_check(field, (slice_t){buffer_text(&reader->text), reader->text.len}, reader->answer);
    }
    answer_problem(reader->answer, 400, NULL, "bad `%s`: it must be %s", field->name,
                   field->type == PARAM_BOOL ? "true or false" : "a string");
    return false;
}

// Finds the row of the key that the walk is at. False: *answer is the problem.
static bool order_find_key(order_reader_t *reader, const param_t *table, size_t count, const char *what, size_t *row) {
    if (!order_decode(reader, reader->walk.token)) return false;
    slice_t name = {buffer_text(&reader->text), reader->text.len};
    for (*row = 0; *row < count && !slice_is(name, table[*row].name);) ++*row;
    if (*row == count) params_unknown(name, what, table, count, reader->answer);
    return *row < count;
}

static bool order_fail_twice(order_reader_t *reader, const char *name) {
    answer_problem(reader->answer, 400, NULL, "`%s` is given twice", name);
    return false;
}

static bool order_take_filter(order_reader_t *reader) {
    json_event_t event = json_walk_next(&reader->walk);
    if (event != JSON_AT_OPEN || *reader->walk.token.data != '{') {
        answer_problem(reader->answer, 400, NULL, "bad `filter`: it must be an object");
        return false;
    }
    while ((event = json_walk_next(&reader->walk)) == JSON_AT_KEY) {
        size_t row;
        if (!order_find_key(reader, failure_filters, failure_filter_count, "filter", &row)) return false;
        if (reader->order->filter.values[row]) return order_fail_twice(reader, failure_filters[row].name);
        if (!order_take_value(reader, &failure_filters[row])) return false;
        reader->order->filter.values[row] = mem_str(buffer_text(&reader->text));
    }
    reader->order->filtered = true;
    return event == JSON_AT_CLOSE;
}

static bool order_take_refs(order_reader_t *reader) {
    order_t *order = reader->order;
    json_event_t event = json_walk_next(&reader->walk);
    bool list = event == JSON_AT_OPEN && *reader->walk.token.data == '[';
    while (list && (event = json_walk_next(&reader->walk)) == JSON_AT_VALUE && *reader->walk.token.data == '"' &&
           order->ref_count < ORDER_REFS_MAX) {
        if (!order_decode(reader, reader->walk.token)) return false;
        slice_t ref = {buffer_text(&reader->text), reader->text.len};
        if (!params_check(&order_fields[FIELD_REFS], ref, reader->answer)) return false;
        order->refs = mem_grown(order->refs, order->ref_count, sizeof *order->refs);
        order->refs[order->ref_count++] = mem_str(buffer_text(&reader->text));
    }
    if (event == JSON_AT_BAD) return false;
    if (event == JSON_AT_CLOSE && order->ref_count) return true;
    answer_problem(reader->answer, 400, NULL, "bad `refs`: it must be a list of 1 to %d strings", ORDER_REFS_MAX);
    return false;
}

static bool order_set(order_reader_t *reader, size_t row) {
    order_t *order = reader->order;
    const char *text = buffer_text(&reader->text);
    bool yes = strcmp(text, "true") == 0;
    switch (row) {
    case FIELD_ACTION: order->discard = strcmp(text, "discard") == 0; break;
    case FIELD_TO: order->to = mem_str(text); break;
    case FIELD_BECAUSE: order->because = mem_str(text); break;
    case FIELD_PLAN: order->plan = mem_str(text); break;
    case FIELD_AGAIN: order->again = yes; break;
    case FIELD_DRY_RUN: order->dry_run = yes; break;
    default:
        if (requeue_read_rate(text, &order->per_minute)) return true;
        answer_problem(reader->answer, 400, NULL, "bad `rate`: it must be a number from 1 to 1000000 with /s or /m, like 50/s");
        return false;
    }
    return true;
}

static bool order_take_member(order_reader_t *reader) {
    size_t row;
    if (!order_find_key(reader, order_fields, FIELDS, "field", &row)) return false;
    if (reader->given[row]) return order_fail_twice(reader, order_fields[row].name);
    reader->given[row] = true;
    if (row == FIELD_REFS) return order_take_refs(reader);
    if (row == FIELD_FILTER) return order_take_filter(reader);
    return order_take_value(reader, &order_fields[row]) && order_set(reader, row);
}

static bool order_any_filter(const order_t *order) {
    bool any = false;
    for (size_t i = 0; i < failure_filter_count; i++)
        any = any || (order->filter.values[i] && failure_filters[i].type != PARAM_BOOL);
    return any;
}

// Whether the fields fit together.
static bool order_check(const order_reader_t *reader) {
    const order_t *order = reader->order;
    answer_t *answer = reader->answer;
    if (!reader->given[FIELD_ACTION])
        answer_problem(answer, 400, NULL, "`action` is missing: it must be requeue or discard");
    else if (reader->given[FIELD_REFS] == reader->given[FIELD_FILTER])
        answer_problem(answer, 400, NULL, "give either `refs` or `filter`");
    else if (order->filtered && !order_any_filter(order))
        answer_problem(answer, 400, NULL, "`filter` is empty; for all failures: \"since\": \"1970-01-01\"");
    else if (order->discard && order->to)
        answer_problem(answer, 400, NULL, "`to` is for requeue");
    else if (order->plan && (!order->filtered || order->dry_run))
        answer_problem(answer, 400, NULL, "`plan` is for a `filter` that is carried out");
    else if (order->filtered && !order->dry_run && !order->plan)
        answer_problem(answer, 400, NULL, "`plan` is missing: send the same with \"dry_run\": true first");
    else
        return true;
    return false;
}

bool order_read(slice_t body, order_t *out, answer_t *answer) {
    order_reader_t reader = {.order = out, .answer = answer};
    json_event_t event;
    *out = (order_t){0};
    if (body.len == 0) {
        answer_problem(answer, 400, NULL, "the body is empty: it must be a JSON object");
        return false;
    }
    json_walk_begin(&reader.walk, body);
    event = json_walk_next(&reader.walk);
    bool good = event == JSON_AT_OPEN && *reader.walk.token.data == '{';
    if (!good && event != JSON_AT_BAD) answer_problem(answer, 400, NULL, "the body must be a JSON object");
    while (good && (event = json_walk_next(&reader.walk)) == JSON_AT_KEY) good = order_take_member(&reader);
    good = good && event == JSON_AT_CLOSE && json_walk_next(&reader.walk) == JSON_AT_END;
    if (!good && !answer->status) order_fail_json(&reader, body);
    buffer_free(&reader.text);
    return good && order_check(&reader);
}

void order_free(order_t *order) {
    for (size_t i = 0; i < order->ref_count; i++) free(order->refs[i]);
    free(order->refs);
    free(order->to);
    free(order->because);
    free(order->plan);
    params_free(&order->filter);
    *order = (order_t){0};
}
