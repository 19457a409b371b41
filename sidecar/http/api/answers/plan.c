#include "http/api/answers/plan.h"

// With an empty `order`: the numbers alone.
static void plan_write_parts(const plan_text_t *plan, const char *order, char text[PLAN_SIZE]) {
    snprintf(text, PLAN_SIZE, "%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64 ".%s", plan->expires, plan->since, plan->newest,
             plan->seen, order);
}

void plan_of_order(const order_t *order, plan_text_t *plan) {
    char numbers[PLAN_SIZE];
    plan_write_parts(plan, "", numbers);
    slice_t parts[PARAMS_MAX + 4] = {slice_text(numbers), slice_text(order->discard ? "discard" : "requeue"),
                                     slice_text(order->again ? "again" : ""), slice_text(order->to ? order->to : "")};
    for (size_t i = 0; i < PARAMS_MAX; i++) parts[i + 4] = slice_text(order->filter.values[i] ? order->filter.values[i] : "");
    digest_t digest = digest_of_parts(parts, PARAMS_MAX + 4);
    digest_hex(&digest, plan->order);
}

void plan_write(const plan_text_t *plan, char text[PLAN_SIZE]) { plan_write_parts(plan, plan->order, text); }

bool plan_read(const char *text, plan_text_t *plan) {
    int64_t *const numbers[] = {&plan->expires, &plan->since, &plan->newest, &plan->seen};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t len = strcspn(text, ".");
        if (!text[len] || !slice_integer((slice_t){text, len}, numbers[i]) || *numbers[i] < 0) return false;
        text += len + 1;
    }
    digest_t digest;
    bool good = digest_parse(slice_text(text), &digest) && plan->newest < INT64_MAX;
    if (good) digest_hex(&digest, plan->order);
    return good;
}
