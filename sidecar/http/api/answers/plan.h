// The plan of a dry run, a text that any instance can read: until when it holds, which failures it has seen, and a digest of all
// this and the order. Pure.
#pragma once

#include "base/digest.h"
#include "http/api/answers/order.h"

enum { PLAN_MS = 600000, PLAN_SIZE = 160 };

typedef struct plan_text {
    int64_t expires; // ms since 1970
    int64_t since;   // of the filter, whose ages begin with the dry run
    int64_t newest;  // the latest failure that matched
    int64_t seen;    // requeue_plan_t
    char order[DIGEST_HEX_SIZE];
} plan_text_t;

void plan_of_order(const order_t *order, plan_text_t *plan); // sets `order`; fill in the numbers before
void plan_write(const plan_text_t *plan, char text[PLAN_SIZE]);
bool plan_read(const char *text, plan_text_t *plan);
