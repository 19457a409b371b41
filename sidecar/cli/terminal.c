#include "cli/terminal.h"

#include <sys/ioctl.h>

#include "base/text/units.h"
#include "base/utf8.h"

enum { NARROW_COLUMNS = 112, PROGRESS_MS = 200 };

typedef struct code_range {
    uint32_t from, to;
} code_range_t;

static bool terminal_in_ranges(uint32_t code, const code_range_t *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].from && code <= ranges[i].to) return true;
    return false;
}

// Knows the blocks of Unicode's EastAsianWidth (W and F) and of combining marks; good enough to align a table.
static size_t terminal_code_width(uint32_t code) {
    static const code_range_t wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xac00, 0xd7a3},
                                        {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6},
                                        {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
    static const code_range_t none[] = {{0x300, 0x36f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
    if (terminal_in_ranges(code, none, sizeof none / sizeof *none)) return 0;
    return terminal_in_ranges(code, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

bool terminal_print(buffer_t *text, FILE *out) {
    buffer_t safe = {0};
    for (size_t at = 0; at < text->len && isatty(fileno(out));) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->len - at);
        size_t len = end ? (size_t)(end - line) : text->len - at;
        bool ends_in_cr = end && len && line[len - 1] == '\r'; // of a row of CSV
        terminal_escape(&safe, (slice_t){line, len - ends_in_cr}, false);
        if (end) buffer_str(&safe, "\n");
        at += len + (end != NULL);
    }
    const buffer_t *shown = safe.len ? &safe : text;
    bool printed = fwrite(buffer_text(shown), 1, shown->len, out) == shown->len;
    buffer_free(&safe);
    buffer_free(text);
    return printed;
}

// Returns how many bytes of `text` fit into `max_width` columns, in whole characters; *width is their number of columns.
static size_t terminal_measure(slice_t text, size_t max_width, size_t *width) {
    size_t i = 0;
    *width = 0;
    while (i < text.len) {
        size_t len = utf8_sequence(text.data + i, text.len - i);
        size_t columns = len ? terminal_code_width(utf8_code_point(text.data + i, len)) : 1;
        if (*width + columns > max_width) break;
        *width += columns;
        i += len ? len : 1;
    }
    return i;
}

size_t terminal_width(slice_t text) {
    size_t width;
    terminal_measure(text, SIZE_MAX, &width);
    return width;
}

size_t terminal_fit(slice_t text, size_t columns) {
    size_t width;
    return terminal_measure(text, columns, &width);
}

size_t terminal_columns(FILE *out) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    unsigned long given = columns ? strtoul(columns, NULL, 10) : 0;
    if (given > 0 && given < 10000) return given;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0) return size.ws_col;
    return 0;
}

bool terminal_is_narrow(FILE *out) {
    size_t columns = terminal_columns(out);
    return columns > 0 && columns < NARROW_COLUMNS;
}

// Returns the bytes before the next place where a line may end. A ` without a closing one within `width` is an ordinary letter.
static size_t wrap_piece(const char *text, size_t len, size_t width, bool brackets) {
    int depth = 0;
    for (size_t i = 0; i < len; i++) {
        if (brackets) depth += (text[i] == '[') - (text[i] == ']');
        if ((text[i] == ' ' && depth <= 0) || text[i] == '\n') return i;
        if (text[i] != '`') continue;
        const char *close = memchr(text + i + 1, '`', len - i - 1);
        if (close && (size_t)(close - text) < width) i = (size_t)(close - text);
    }
    return len;
}

void wrap_add(buffer_t *out, const char *text, size_t len, const wrap_t *wrap) {
    size_t column = wrap->column;
    bool begins = true; // this line is still empty
    for (size_t at = 0; at < len;) {
        size_t piece = wrap_piece(text + at, len - at, wrap->width, wrap->brackets),
               wide = terminal_width((slice_t){text + at, piece});
        if (!begins && column + 1 + wide > wrap->width) {
            buffer_printf(out, "\n%*s", (int)wrap->indent, "");
            column = wrap->indent;
        } else if (!begins) {
            buffer_str(out, " ");
            column++;
        }
        begins = false;
        if (wrap->hard && column + wide > wrap->width && wrap->width > wrap->indent + 1) {
            piece = terminal_fit((slice_t){text + at, piece}, wrap->width - column); // the rest is the next piece
            wide = terminal_width((slice_t){text + at, piece});
        }
        buffer_add(out, text + at, piece);
        column += wide;
        at += piece;
        for (; at < len && (text[at] == ' ' || text[at] == '\n'); at++) {
            if (text[at] != '\n') continue;
            buffer_printf(out, "\n%*s", (int)wrap->indent, "");
            column = wrap->indent;
            begins = true;
        }
    }
    buffer_str(out, "\n");
}

void wrap_at(buffer_t *out, const char *text, size_t indent, size_t width) {
    const wrap_t wrap = {.width = width, .indent = indent, .column = indent};
    wrap_add(out, text, strlen(text), &wrap);
}

// ---- Progress.

static mono_t progress_next(void) { return mono_add(mono_now(), PROGRESS_MS * NS_PER_MS); }

progress_t progress_begin(const char *what) {
    return (progress_t){.what = what, .enabled = isatty(STDERR_FILENO) == 1, .began = mono_now(), .next = progress_next()};
}

void progress_show(progress_t *progress, int64_t done, int64_t total) {
    if (!progress->enabled || !mono_reached(progress->next, mono_now())) return;
    progress->next = progress_next();
    progress->shown = true;
    int64_t ms = mono_diff(mono_now(), progress->began) / NS_PER_MS + 1, own = done - progress->start;
    fprintf(stderr, "\r\x1b[K%s: %s", progress->what, number_text(done).text);
    if (total > 0)
        fprintf(stderr, " of %s (%d %%), %s/s, %" PRId64 " s left", number_text(total).text,
                (int)(100.0 * (double)done / (double)total), number_text(own * 1000 / ms).text,
                own > 0 ? (total - done) * ms / own / 1000 : 0);
    fflush(stderr);
}

void progress_end(progress_t *progress) {
    if (progress->shown) fputs("\r\x1b[K", stderr);
    progress->shown = false;
}
