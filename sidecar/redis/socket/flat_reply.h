// A reply of many small parts as one list, in the order of the bytes. hiredis would make an object of each part, and take four
// times the memory.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

typedef struct flat_item {
    uint32_t len; // of a text; of an array the number of its items, which follow
    bool is_array;
    size_t at; // of the text in `bytes`; a NUL follows it
} flat_item_t;

typedef struct flat_reply {
    buffer_t items; // flat_item_t
    buffer_t bytes; // of the texts
} flat_reply_t;

void flat_reply_clear(flat_reply_t *reply); // keeps the memory
void flat_reply_free(flat_reply_t *reply);  // leaves an empty reply
void flat_reply_add_array(flat_reply_t *reply, size_t elements);
void flat_reply_add_text(flat_reply_t *reply, const char *text, size_t len);

// Reads a reply item by item. An item of another kind than wanted is skipped with all that is in it.
typedef struct flat_cursor {
    const flat_reply_t *reply;
    size_t next;
} flat_cursor_t;
size_t flat_array(flat_cursor_t *cursor); // enters an array; returns the number of its items, 0 if the item is no array
slice_t flat_text(flat_cursor_t *cursor); // borrowed, NUL-ended; "" if the item is no text
void flat_skip(flat_cursor_t *cursor, size_t items);
