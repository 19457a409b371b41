// Safe access to replies: a reply of an unexpected shape reads as 0 or "", never out of bounds.
#pragma once

#include <hiredis/hiredis.h>

#include "base/slice.h"

static inline const redisReply *reply_at(const redisReply *reply, size_t index) {
    return reply && reply->type == REDIS_REPLY_ARRAY && index < reply->elements ? reply->element[index] : NULL;
}

static inline int64_t reply_int(const redisReply *reply) {
    return reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
}

static inline bool reply_is_text(const redisReply *reply) {
    return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

// Borrowed from the reply; NUL-ended, may hold further NUL bytes.
static inline const char *reply_text(const redisReply *reply) { return reply_is_text(reply) ? reply->str : ""; }

static inline size_t reply_len(const redisReply *reply) { return reply_is_text(reply) ? reply->len : 0; }

// A number that a script returned as text.
static inline int64_t reply_number(const redisReply *reply) { return strtoll(reply_text(reply), NULL, 10); }

// Borrowed from the reply.
static inline slice_t reply_slice(const redisReply *reply) { return (slice_t){reply_text(reply), reply_len(reply)}; }

// The reply to TIME.
static inline int64_t reply_time_us(const redisReply *reply) {
    return reply_number(reply_at(reply, 0)) * 1000000 + reply_number(reply_at(reply, 1));
}
static inline int64_t reply_time_ms(const redisReply *reply) { return reply_time_us(reply) / 1000; }

static inline bool reply_is(const redisReply *reply, const char *text) { return strcmp(reply_text(reply), text) == 0; }

// The value behind `key`, such as "redis_version:", in the reply to INFO; borrowed; len 0 = none. A line end follows the value.
static inline slice_t reply_info(const redisReply *reply, const char *key) {
    const char *at = strstr(reply_text(reply), key);
    if (!at) return slice_text("");
    at += strlen(key);
    return (slice_t){at, strcspn(at, "\r\n")};
}
// The same as a number; -1 = none.
static inline int64_t reply_info_number(const redisReply *reply, const char *key) {
    slice_t value = reply_info(reply, key);
    return value.len ? strtoll(value.data, NULL, 10) : -1;
}
