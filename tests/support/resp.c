#include "resp.h"
#include "kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Length of the first line in the buffer with its newline; 0 = the line is incomplete. */
static size_t line_length(const char *data, size_t length) {
    const char *end = memchr(data, '\n', length);
    return end ? (size_t)(end - data) + 1 : 0;
}

/* Returns how many more frames belong to the frame that begins with this line; sets *body to the bytes of its body. -2: not RESP.
 */
static long more_frames(const char *line, size_t *body) {
    long number = strtol(line + 1, NULL, 10); /* the line has its newline: strtol stops there */
    *body = 0;
    switch (line[0]) {
    case '+':
    case '-':
    case ':':
    case ',':
    case '#':
    case '_':
    case '(': return 0;
    case '$':
    case '=':
    case '!':
        if (number >= 0) *body = (size_t)number + 2;
        return 0;
    case '*':
    case '~':
    case '>': return number > 0 ? number : 0;
    case '%': return number > 0 ? 2 * number : 0;
    case '|': return number > 0 ? 2 * number + 1 : 1;
    default: return -2;
    }
}

ssize_t resp_reply_length(const char *data, size_t length) {
    size_t at = 0;
    for (long wanted = 1; wanted > 0; wanted--) {
        size_t line = at < length ? line_length(data + at, length - at) : 0;
        if (line == 0) return 0;
        size_t body;
        long more = more_frames(data + at, &body);
        if (more < 0) return -1;
        if (body > length - at - line) return 0;
        at += line + body;
        wanted += more;
    }
    return (ssize_t)at;
}

ssize_t resp_request_length(const char *data, size_t length) {
    if (length == 0) return 0;
    return data[0] == '*' ? resp_reply_length(data, length) : (ssize_t)line_length(data, length);
}

long resp_request_arguments(const char *data, size_t length) {
    if (length > 0 && data[0] == '*') return strtol(data + 1, NULL, 10);
    long count = 0;
    for (size_t i = 0; i < length; i++) count += data[i] > ' ' && (i == 0 || data[i - 1] <= ' ');
    return count;
}

static void put_text(FILE *out, const char *data, size_t length, size_t max) {
    for (size_t i = 0; i < length && i < max; i++) {
        unsigned char byte = (unsigned char)data[i];
        if (byte >= ' ' && byte < 127) {
            fputc(byte, out);
        } else {
            fprintf(out, "\\x%02x", byte);
        }
    }
}

char *resp_request_text(const char *data, size_t length, size_t max_argument) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) abort();
    if (length > 0 && data[0] != '*') {
        put_text(out, data, strcspn(data, "\r\n"), max_argument);
    } else {
        size_t at = line_length(data, length);
        for (bool first = true; at < length; first = false) {
            size_t line = line_length(data + at, length - at);
            size_t body = strtoul(data + at + 1, NULL, 10);
            if (line == 0 || body > length - at - line) break;
            if (!first) fputc(' ', out);
            put_text(out, data + at + line, body, max_argument);
            at += line + body + 2;
        }
    }
    fclose(out);
    return kept(text);
}

bool resp_is_push(const char *data, size_t length) {
    static const char *const kinds[] = {"$7\r\nmessage\r\n", "$8\r\npmessage\r\n", "$8\r\nsmessage\r\n"};
    if (length == 0 || data[0] == '>') return length > 0;
    size_t line = data[0] == '*' ? line_length(data, length) : length;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        size_t kind = strlen(kinds[i]);
        if (length - line >= kind && memcmp(data + line, kinds[i], kind) == 0) return true;
    }
    return false;
}
