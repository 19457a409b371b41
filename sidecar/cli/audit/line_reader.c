#include "cli/audit/line_reader.h"

#include <errno.h>
#include <unistd.h>

enum { READ_BYTES = 256 * 1024 };

line_reader_t line_reader_new(int fd) { return (line_reader_t){.fd = fd, .max_bytes = LINE_MAX_BYTES}; }

void line_reader_free(line_reader_t *reader) { buffer_free(&reader->window); }

static slice_t reader_rest(const line_reader_t *reader) {
    return (slice_t){buffer_text(&reader->window) + reader->at, reader->window.len - reader->at};
}

static void reader_drop_consumed(line_reader_t *reader) {
    slice_t rest = reader_rest(reader);
    if (reader->at == 0) return;
    memmove(reader->window.data, rest.data, rest.len);
    reader->window.len = rest.len;
    reader->at = 0;
}

// False at the end of the file, and after an error.
static bool reader_fill(line_reader_t *reader) {
    static char chunk[READ_BYTES];
    ssize_t got;
    if (reader->ended) return false;
    reader_drop_consumed(reader);
    do got = read(reader->fd, chunk, sizeof chunk);
    while (got < 0 && errno == EINTR);
    if (got < 0) reader->error = errno;
    reader->ended = got <= 0;
    if (got > 0) buffer_add(&reader->window, chunk, (size_t)got);
    return got > 0;
}

slice_t line_reader_peek(line_reader_t *reader) {
    static const char mark[] = "\xef\xbb\xbf";
    slice_t rest = reader_rest(reader);
    while (rest.len < READ_BYTES && !memchr(rest.data, '\n', rest.len) && reader_fill(reader)) rest = reader_rest(reader);
    bool marked = rest.len >= sizeof mark - 1 && memcmp(rest.data, mark, sizeof mark - 1) == 0;
    if (marked) reader->at += sizeof mark - 1;
    return reader_rest(reader);
}

// Skips the rest of a line, which may be longer than memory.
static void reader_skip_line(line_reader_t *reader) {
    do {
        slice_t rest = reader_rest(reader);
        const char *end = memchr(rest.data, '\n', rest.len);
        reader->at += end ? (size_t)(end - rest.data) + 1 : rest.len;
        if (end) return;
    } while (reader_fill(reader));
}

line_result_t line_reader_next(line_reader_t *reader, slice_t *line) {
    const char *end;
    size_t searched = 0;
    for (;;) {
        *line = reader_rest(reader);
        end = memchr(line->data + searched, '\n', line->len - searched);
        searched = line->len;
        if (end || line->len > reader->max_bytes || !reader_fill(reader)) break;
    }
    if (reader->error) {
        errno = reader->error;
        return LINE_FAILED;
    }
    if (line->len == 0) return LINE_END;
    reader->number++;
    if (!end && line->len > reader->max_bytes) {
        reader_skip_line(reader);
        return LINE_TOO_LONG;
    }
    if (end) line->len = (size_t)(end - line->data);
    reader->at += line->len + (end != NULL);
    if (line->len && line->data[line->len - 1] == '\r') line->len--;
    return LINE_READ;
}
