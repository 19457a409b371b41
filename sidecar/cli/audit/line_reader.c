#include "cli/audit/line_reader.h"

static bool line_has_mark(slice_t line) {
    static const char mark[] = "\xef\xbb\xbf";
    return line.len >= sizeof mark - 1 && memcmp(line.data, mark, sizeof mark - 1) == 0;
}

line_result_t line_reader_next(line_reader_t *reader, slice_t *line) {
    int byte;
    bool too_long = false;
    buffer_clear(&reader->buffer);
    while ((byte = getc_unlocked(reader->in)) != EOF && byte != '\n') {
        too_long = reader->buffer.len == reader->max_bytes;
        if (!too_long) buffer_add(&reader->buffer, &(char){(char)byte}, 1);
    }
    *line = (slice_t){buffer_text(&reader->buffer), reader->buffer.len};
    if (ferror(reader->in)) return LINE_FAILED;
    if (byte == EOF && line->len == 0) return LINE_END;
    if (++reader->number == 1 && line_has_mark(*line)) *line = (slice_t){line->data + 3, line->len - 3};
    if (too_long) return LINE_TOO_LONG;
    if (line->len && line->data[line->len - 1] == '\r') line->len--;
    return LINE_READ;
}
