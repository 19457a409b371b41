#include "redis/socket/flat_reply.h"

void flat_reply_clear(flat_reply_t *reply) {
    buffer_clear(&reply->bytes);
    buffer_clear(&reply->items);
}

void flat_reply_free(flat_reply_t *reply) {
    buffer_free(&reply->bytes);
    buffer_free(&reply->items);
}

void flat_reply_add_array(flat_reply_t *reply, size_t elements) {
    buffer_add(&reply->items, &(flat_item_t){.len = (uint32_t)elements, .is_array = true}, sizeof(flat_item_t));
}

void flat_reply_add_text(flat_reply_t *reply, const char *text, size_t len) {
    buffer_add(&reply->items, &(flat_item_t){.len = (uint32_t)len, .at = reply->bytes.len}, sizeof(flat_item_t));
    buffer_add(&reply->bytes, text, len);
    buffer_add(&reply->bytes, "", 1);
}

static const flat_item_t *flat_next(const flat_cursor_t *cursor) {
    const flat_item_t *items = (const void *)cursor->reply->items.data;
    return cursor->next < cursor->reply->items.len / sizeof *items ? &items[cursor->next] : NULL;
}

void flat_skip(flat_cursor_t *cursor, size_t items) {
    const flat_item_t *item;
    for (; items > 0 && (item = flat_next(cursor)); items--, cursor->next++)
        if (item->is_array) items += item->len;
}

size_t flat_array(flat_cursor_t *cursor) {
    const flat_item_t *item = flat_next(cursor);
    if (item && item->is_array) {
        cursor->next++;
        return item->len;
    }
    flat_skip(cursor, 1);
    return 0;
}

slice_t flat_text(flat_cursor_t *cursor) {
    const flat_item_t *item = flat_next(cursor);
    flat_skip(cursor, 1);
    return item && !item->is_array ? (slice_t){cursor->reply->bytes.data + item->at, item->len} : slice_text("");
}
