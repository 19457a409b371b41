/* libFuzzer over what strangers send to the API: `make fuzz`. The first byte of the input says what the rest is: q a query, p a
 * path, o the body of an order, c a cursor, t a token file. What is refused has a problem with status 400 or 404 that is JSON. */
#include "base/json/json.h"
#include "base/utf8.h"
#include "http/api/answers/order.h"
#include "http/api/answers/plan.h"
#include "http/api/questions/cursor.h"
#include "http/api/routes.h"
#include "operate/filter.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool holds) {
    if (!holds) abort();
}

static void check_problem(const answer_t *answer, unsigned status) {
    slice_t body = {answer->body.data, answer->body.len};
    json_value_t value;
    insist(answer->status == status && utf8_is_valid(body.data, body.len));
    insist(json_find(body, "/detail", &value) == JSON_FOUND && value.type == JSON_STRING && value.raw.len > 0);
}

static void check_value(const param_t *param, const char *value) {
    int64_t number;
    insist(utf8_is_valid(value, strlen(value)));
    if (param->type == PARAM_NUMBER)
        insist(slice_integer(slice_text(value), &number) && number >= param->low && number <= param->high);
    if (param->type == PARAM_TEXT) insist((int64_t)strlen(value) >= param->low && (int64_t)strlen(value) <= param->high);
    if (param->type != PARAM_TIME) return;
    buffer_t why = {0};
    int64_t ms = 0;
    insist(filter_read_time(value, true, &ms, &why) || why.len > 0);
    buffer_free(&why);
}

static void fuzz_query(const char *text) {
    for (size_t i = 0; i < route_count; i++) {
        params_t params;
        answer_t answer = {0};
        bool good = params_read(text, routes[i].params, routes[i].param_count, &params, &answer);
        if (!good) check_problem(&answer, 400);
        for (size_t row = 0; good && row < routes[i].param_count; row++)
            if (params.values[row]) check_value(&routes[i].params[row], params.values[row]);
        params_free(&params);
        answer_free(&answer);
    }
}

static void fuzz_path(const char *text) {
    static const char *const methods[] = {"GET", "HEAD", "POST", "DELETE", "PUT"};
    buffer_t path = {0};
    for (size_t i = 0; url_decode(slice_text(text), &path) && i < sizeof methods / sizeof *methods; i++) {
        answer_t answer = {0};
        char *argument = NULL;
        const route_t *route = route_find(methods[i], buffer_text(&path), &argument, &answer);
        if (route) insist(!argument == !strchr(route->path, '{') && (!argument || !strchr(argument, '/')));
        if (!route) check_problem(&answer, answer.allow ? 405 : 404);
        buffer_clear(&path);
        free(argument);
        answer_free(&answer);
    }
    buffer_free(&path);
}

static void check_plan(const char *text) {
    plan_text_t plan, again;
    char written[PLAN_SIZE];
    if (!plan_read(text, &plan)) return;
    plan_write(&plan, written);
    insist(plan_read(written, &again) && again.expires == plan.expires && again.seen == plan.seen);
}

static void fuzz_order(slice_t body) {
    order_t order;
    answer_t answer = {0};
    if (order_read(body, &order, &answer)) {
        plan_text_t plan = {0};
        insist((order.ref_count > 0) != order.filtered && order.ref_count <= ORDER_REFS_MAX);
        insist(order.dry_run || !order.filtered || order.plan);
        for (size_t i = 0; i < failure_filter_count; i++)
            if (order.filter.values[i]) check_value(&failure_filters[i], order.filter.values[i]);
        plan_of_order(&order, &plan);
        if (order.plan) check_plan(order.plan);
    } else {
        check_problem(&answer, 400);
    }
    order_free(&order);
    answer_free(&answer);
}

static void fuzz_cursor(const char *text) {
    cursor_t cursor;
    char written[CURSOR_SIZE];
    check_plan(text);
    if (cursor_read(text, &cursor)) insist(cursor.at >= 0 && cursor.seq > 0 && memchr(cursor.log, '\0', sizeof cursor.log));
    /* With the digits that a forger would compute. */
    cursor = (cursor_t){.at = 1, .seq = 1};
    memcpy(cursor.log, text, strnlen(text, sizeof cursor.log - 1));
    cursor_write(&cursor, written);
    if (!strchr(cursor.log, '.')) insist(cursor_read(written, &cursor));
}

static void fuzz_tokens(slice_t text) {
    while (text.len) {
        const char *end = memchr(text.data, '\n', text.len), *why = NULL;
        slice_t line = {text.data, end ? (size_t)(end - text.data) : text.len};
        token_t token;
        if (token_parse(line, &token, &why))
            insist(!token.rights == !*token.name && token.rights < 1u << RIGHTS && utf8_is_valid(token.name, strlen(token.name)));
        else
            insist(why && *why);
        text = (slice_t){text.data + line.len + (end != NULL), text.len - line.len - (end != NULL)};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    char *text = malloc(size); /* without the first byte, with a NUL */
    slice_t bytes = {text, size - 1};
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (*data) {
    case 'q': fuzz_query(text); break;
    case 'p': fuzz_path(text); break;
    case 'o': fuzz_order(bytes); break;
    case 'c': fuzz_cursor(text); break;
    case 't': fuzz_tokens(bytes); break;
    default: break;
    }
    free(text);
    return 0;
}
