#include "config/file/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *at;
    int line;
    scan_t *scan;
} reader_t;

static void add_token(reader_t *reader, token_kind_t kind, const char *end, int line) {
    scan_t *scan = reader->scan;
    if (scan->count == scan->cap) {
        size_t cap = scan->cap ? 2 * scan->cap : 256;
        token_t *tokens = mem_array(cap, sizeof *tokens);
        if (scan->count) memcpy(tokens, scan->tokens, scan->count * sizeof *tokens);
        free(scan->tokens);
        scan->tokens = tokens;
        scan->cap = cap;
    }
    scan->tokens[scan->count++] = (token_t){kind, line, reader->at, (size_t)(end - reader->at)};
    reader->at = end;
}

static void skip_block_comment(reader_t *reader) {
    int begin = reader->line;
    for (reader->at += 2; *reader->at; reader->at++) {
        if (reader->at[0] == '*' && reader->at[1] == '/') {
            reader->at += 2;
            return;
        }
        if (*reader->at == '\n') reader->line++;
    }
    reader->scan->open_comment = begin;
}

static bool skip_blank(reader_t *reader) {
    const char *at = reader->at;
    if (isspace((unsigned char)*at)) {
        if (*at == '\n') reader->line++;
        reader->at++;
    } else if (*at == '#' || (at[0] == '/' && at[1] == '/')) {
        reader->at += strcspn(at, "\n");
    } else if (at[0] == '/' && at[1] == '*') {
        skip_block_comment(reader);
    } else {
        return false;
    }
    return true;
}

static void scan_string(reader_t *reader) {
    int begin = reader->line;
    const char *at = reader->at + 1;
    for (; *at && *at != '"'; at++) {
        if (*at == '\n') reader->line++;
        if (*at != '\\' || !at[1]) continue;
        if (!reader->scan->nul_escape && strncmp(at, "\\x00", 4) == 0) reader->scan->nul_escape = reader->line;
        at++;
        if (*at == '\n') reader->line++;
    }
    if (!*at) reader->scan->open_string = begin;
    add_token(reader, TOKEN_STRING, *at ? at + 1 : at, begin);
}

static const char *number_end(const char *at) {
    bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    for (at++; *at; at++) {
        bool sign = (*at == '+' || *at == '-') && !hex && (at[-1] == 'e' || at[-1] == 'E');
        if (!isalnum((unsigned char)*at) && *at != '.' && *at != '_' && !sign) break;
    }
    return at;
}

static bool begins_number(const char *at) {
    if (*at == '-' || *at == '+') at++;
    if (*at == '.') at++;
    return isdigit((unsigned char)*at);
}

static bool name_letter(char c) { return isalnum((unsigned char)c) || (c && strchr("-_*", c)); }

static void scan_token(reader_t *reader) {
    const char *at = reader->at;
    if (*at == '"') {
        scan_string(reader);
    } else if (begins_number(at)) {
        add_token(reader, TOKEN_NUMBER, number_end(at), reader->line);
    } else if (isalpha((unsigned char)*at) || *at == '*') {
        while (name_letter(*at)) at++;
        add_token(reader, TOKEN_NAME, at, reader->line);
    } else {
        add_token(reader, TOKEN_MARK, at + 1, reader->line);
    }
}

void config_scan(const char *text, scan_t *scan) {
    *scan = (scan_t){0};
    reader_t reader = {.at = text, .line = 1, .scan = scan};
    while (*reader.at) {
        if (!skip_blank(&reader)) scan_token(&reader);
    }
}

void config_scan_free(scan_t *scan) {
    free(scan->tokens);
    *scan = (scan_t){0};
}

static bool token_is(const token_t *token, const char *text) {
    return token->len == strlen(text) && memcmp(token->at, text, token->len) == 0;
}

static bool is_mark(const token_t *token, char mark) { return token->kind == TOKEN_MARK && *token->at == mark; }

static bool is_assignment(const token_t *token) { return is_mark(token, '=') || is_mark(token, ':'); }

static const token_t *find_number(scan_t *scan, const char *name) {
    for (size_t i = scan->cursor; i + 2 < scan->count; i++) {
        const token_t *token = &scan->tokens[i];
        if (token->kind != TOKEN_NAME || !token_is(token, name)) continue;
        if (!is_assignment(&token[1]) || token[2].kind != TOKEN_NUMBER) continue;
        scan->cursor = i + 1;
        return &token[2];
    }
    return NULL;
}

const token_t *config_scan_number(scan_t *scan, const char *name) {
    const token_t *found = find_number(scan, name);
    if (found) return found;
    scan->cursor = 0; // a file that is included twice begins again
    return find_number(scan, name);
}

static bool spans_lines(const token_t *token) { return token->kind == TOKEN_STRING && memchr(token->at, '\n', token->len); }

enum { NUMBER_SIZE = 64 };

static bool copy_number(const token_t *token, char text[NUMBER_SIZE]) {
    if (token->kind != TOKEN_NUMBER || token->len >= NUMBER_SIZE) return false;
    memcpy(text, token->at, token->len);
    text[token->len] = '\0';
    return true;
}

static bool bad_number(const token_t *token) {
    char text[NUMBER_SIZE], *end = NULL;
    if (!copy_number(token, text)) return false;
    (void)strtod(text, &end);
    return *end && strcmp(end, "L") != 0 && strcmp(end, "LL") != 0;
}

// An integer that 64 bits cannot hold, which libconfig 1.7 stops at.
static bool huge_number(const token_t *token) {
    char text[NUMBER_SIZE], *end = NULL;
    if (!copy_number(token, text)) return false;
    errno = 0;
    (void)strtoll(text, &end, 0);
    return errno == ERANGE && (!*end || *end == 'L');
}

// What is odd about two tokens that stand side by side.
static bool hint_pair(const token_t *a, const token_t *b, buffer_t *out) {
    int len = (int)b->len;
    if (is_mark(a, ',') && (is_mark(b, ')') || is_mark(b, ']')))
        buffer_printf(out, " (take away the comma before `%c`: not every libconfig accepts it there)", *b->at);
    else if ((is_mark(a, '}') && is_mark(b, '{')) || (a->kind == TOKEN_STRING && is_mark(b, '{')))
        buffer_str(out, " (a comma is missing between two entries)");
    else if (huge_number(b))
        buffer_printf(out, " (%.*s is larger than any setting can be)", len, b->at);
    else if (bad_number(b))
        buffer_printf(out, " (write \"%.*s\" in quotes)", len, b->at);
    else if (is_assignment(a) && b->kind == TOKEN_NAME && !token_is(b, "true") && !token_is(b, "false"))
        buffer_printf(out, " (write \"%.*s\" in quotes)", len, b->at);
    else if (spans_lines(a) && !is_mark(b, ';') && !is_mark(b, ',') && !is_mark(b, '}'))
        buffer_printf(out, " (is the closing quote missing of the text that begins on line %d?)", a->line);
    else if (a->kind == TOKEN_NAME && b->kind != TOKEN_MARK && !token_is(a, "true") && !token_is(a, "false"))
        buffer_printf(out, " (`=` is missing after `%.*s`)", (int)a->len, a->at);
    else
        return false;
    return true;
}

int config_scan_stray_string(const scan_t *scan) {
    for (size_t i = 0; i < scan->count; i++) {
        const token_t *token = &scan->tokens[i], *before = token - 1;
        if (token->kind != TOKEN_STRING) continue;
        if (i == 0) return token->line;
        bool include = token_is(before, "include") && i > 1 && is_mark(before - 1, '@');
        bool value = before->kind == TOKEN_STRING || (before->kind == TOKEN_MARK && strchr("=:([,", *before->at));
        if (!include && !value) return token->line;
    }
    return 0;
}

int config_scan_open_string(const scan_t *scan) {
    for (size_t i = 0; i < scan->count; i++) {
        if (spans_lines(&scan->tokens[i])) return scan->tokens[i].line;
    }
    return scan->open_string;
}

void config_scan_hint(const scan_t *scan, int line, buffer_t *out) {
    if (scan->count && strncmp(scan->tokens[0].at, "\xef\xbb\xbf", 3) == 0) {
        buffer_str(out, " (the file begins with a byte order mark: save it as UTF-8 without one)");
        return;
    }
    for (size_t i = 1; i < scan->count && scan->tokens[i].line <= line; i++) {
        if (scan->tokens[i].line == line && hint_pair(&scan->tokens[i - 1], &scan->tokens[i], out)) return;
    }
}

static bool is_key(const scan_t *scan, size_t i) {
    return scan->tokens[i].kind == TOKEN_NAME && i + 1 < scan->count && is_assignment(&scan->tokens[i + 1]);
}

// Walks back from key i through its own group, passing over groups nested in it.
static bool earlier_key(const scan_t *scan, size_t i, size_t *found) {
    const token_t *key = &scan->tokens[i];
    int depth = 0;
    for (size_t j = i; j-- > 0;) {
        const token_t *token = &scan->tokens[j];
        if (token->kind == TOKEN_MARK && strchr(")]}", *token->at)) depth++;
        if (token->kind == TOKEN_MARK && strchr("([{", *token->at) && depth-- == 0) return false;
        if (depth == 0 && is_key(scan, j) && token->len == key->len && memcmp(token->at, key->at, key->len) == 0) {
            *found = j;
            return true;
        }
    }
    return false;
}

bool config_scan_duplicate(const scan_t *scan, token_t *first, token_t *second) {
    size_t found;
    for (size_t i = 0; i < scan->count; i++) {
        if (!is_key(scan, i) || !earlier_key(scan, i, &found)) continue;
        *first = scan->tokens[found];
        *second = scan->tokens[i];
        return true;
    }
    return false;
}
