#include "config/file/lexer.h"

#include <ctype.h>

typedef struct cursor {
    const char *at;
    int line;
    lexer_t *lexer;
} cursor_t;

static void lexer_add(cursor_t *cursor, token_kind_t kind, const char *end, int line) {
    lexer_t *lexer = cursor->lexer;
    lexer->tokens = mem_grown(lexer->tokens, lexer->count, sizeof *lexer->tokens);
    lexer->tokens[lexer->count++] = (token_t){kind, line, {cursor->at, (size_t)(end - cursor->at)}};
    cursor->at = end;
}

static void lexer_skip_comment(cursor_t *cursor) {
    int begin = cursor->line;
    for (cursor->at += 2; *cursor->at; cursor->at++) {
        if (cursor->at[0] == '*' && cursor->at[1] == '/') {
            cursor->at += 2;
            return;
        }
        if (*cursor->at == '\n') cursor->line++;
    }
    cursor->lexer->open_comment = begin;
}

static bool lexer_skip_blank(cursor_t *cursor) {
    const char *at = cursor->at;
    if (isspace((unsigned char)*at)) {
        if (*at == '\n') cursor->line++;
        cursor->at++;
    } else if (*at == '#' || (at[0] == '/' && at[1] == '/')) {
        cursor->at += strcspn(at, "\n");
    } else if (at[0] == '/' && at[1] == '*') {
        lexer_skip_comment(cursor);
    } else {
        return false;
    }
    return true;
}

static void lexer_take_string(cursor_t *cursor) {
    int begin = cursor->line;
    const char *at = cursor->at + 1;
    for (; *at && *at != '"'; at++) {
        if (*at == '\n') cursor->line++;
        if (*at != '\\' || !at[1]) continue;
        if (!cursor->lexer->nul_escape && strncmp(at, "\\x00", 4) == 0) cursor->lexer->nul_escape = cursor->line;
        at++;
        if (*at == '\n') cursor->line++;
    }
    if (!*at) cursor->lexer->open_string = begin;
    lexer_add(cursor, TOKEN_STRING, *at ? at + 1 : at, begin);
}

static const char *lexer_number_end(const char *at) {
    bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    for (at++; *at; at++) {
        bool sign = (*at == '+' || *at == '-') && !hex && (at[-1] == 'e' || at[-1] == 'E');
        if (!isalnum((unsigned char)*at) && *at != '.' && *at != '_' && !sign) break;
    }
    return at;
}

static bool lexer_begins_number(const char *at) {
    if (*at == '-' || *at == '+') at++;
    if (*at == '.') at++;
    return isdigit((unsigned char)*at);
}

static bool lexer_is_name_letter(char c) { return isalnum((unsigned char)c) || (c && strchr("-_*", c)); }

static void lexer_take_token(cursor_t *cursor) {
    const char *at = cursor->at;
    if (*at == '"') {
        lexer_take_string(cursor);
    } else if (lexer_begins_number(at)) {
        lexer_add(cursor, TOKEN_NUMBER, lexer_number_end(at), cursor->line);
    } else if (isalpha((unsigned char)*at) || *at == '*') {
        while (lexer_is_name_letter(*at)) at++;
        lexer_add(cursor, TOKEN_NAME, at, cursor->line);
    } else {
        lexer_add(cursor, TOKEN_MARK, at + 1, cursor->line);
    }
}

void lexer_read(const char *text, lexer_t *lexer) {
    *lexer = (lexer_t){0};
    cursor_t cursor = {.at = text, .line = 1, .lexer = lexer};
    while (*cursor.at) {
        if (!lexer_skip_blank(&cursor)) lexer_take_token(&cursor);
    }
}

void lexer_free(lexer_t *lexer) {
    free(lexer->tokens);
    *lexer = (lexer_t){0};
}

static bool token_is_mark(const token_t *token, char mark) { return token->kind == TOKEN_MARK && *token->text.data == mark; }

static bool token_is_assignment(const token_t *token) { return token_is_mark(token, '=') || token_is_mark(token, ':'); }

static const token_t *lexer_find_number(lexer_t *lexer, const char *name) {
    for (size_t i = lexer->next; i + 2 < lexer->count; i++) {
        const token_t *token = &lexer->tokens[i];
        if (token->kind != TOKEN_NAME || !slice_is(token->text, name)) continue;
        if (!token_is_assignment(&token[1]) || token[2].kind != TOKEN_NUMBER) continue;
        lexer->next = i + 1;
        return &token[2];
    }
    return NULL;
}

const token_t *lexer_number(lexer_t *lexer, const char *name) {
    const token_t *found = lexer_find_number(lexer, name);
    if (found) return found;
    lexer->next = 0; // a file that is included twice begins again
    return lexer_find_number(lexer, name);
}

static bool token_spans_lines(const token_t *token) {
    return token->kind == TOKEN_STRING && memchr(token->text.data, '\n', token->text.len);
}

static bool token_is_bad_number(const token_t *token) {
    if (token->kind != TOKEN_NUMBER) return false;
    char *text = mem_printf("%.*s", (int)token->text.len, token->text.data), *end;
    (void)strtod(text, &end);
    bool bad = *end && strcmp(end, "L") != 0 && strcmp(end, "LL") != 0;
    free(text);
    return bad;
}

// Whether a value cannot begin with the token.
static bool token_lacks_quotes(const token_t *token) {
    if (token->kind == TOKEN_MARK) return !strchr("{[(", *token->text.data);
    return token->kind == TOKEN_NAME && !slice_is(token->text, "true") && !slice_is(token->text, "false");
}

// Explains two tokens that cannot follow each other. Never shows a value: the key may be a misspelled `password`.
static bool lexer_hint_pair(const token_t *a, const token_t *b, buffer_t *out) {
    if (token_is_mark(a, ',') && (token_is_mark(b, ')') || token_is_mark(b, ']')))
        buffer_printf(out, " (remove the comma before `%c`: not every libconfig accepts it there)", *b->text.data);
    else if ((token_is_mark(a, '}') && token_is_mark(b, '{')) || (a->kind == TOKEN_STRING && token_is_mark(b, '{')))
        buffer_str(out, " (a comma is missing between two entries)");
    else if (token_is_bad_number(b) || (token_is_assignment(a) && token_lacks_quotes(b)))
        buffer_str(out, " (write the value in double quotes)");
    else if (token_spans_lines(a) && !token_is_mark(b, ';') && !token_is_mark(b, ',') && !token_is_mark(b, '}'))
        buffer_printf(out, " (is the closing quote missing of the string on line %d?)", a->line);
    else if (a->kind == TOKEN_NAME && b->kind != TOKEN_MARK && !slice_is(a->text, "true") && !slice_is(a->text, "false"))
        buffer_str(out, " (`=` is missing between name and value)");
    else
        return false;
    return true;
}

int lexer_stray_string_line(const lexer_t *lexer) {
    for (size_t i = 0; i < lexer->count; i++) {
        const token_t *token = &lexer->tokens[i], *before = token - 1;
        if (token->kind != TOKEN_STRING) continue;
        if (i == 0) return token->line;
        bool include = slice_is(before->text, "include") && i > 1 && token_is_mark(before - 1, '@');
        bool value = before->kind == TOKEN_STRING || (before->kind == TOKEN_MARK && strchr("=:([,", *before->text.data));
        if (!include && !value) return token->line;
    }
    return 0;
}

int lexer_open_string_line(const lexer_t *lexer) {
    for (size_t i = 0; lexer->open_string && i < lexer->count; i++)
        if (token_spans_lines(&lexer->tokens[i])) return lexer->tokens[i].line;
    return lexer->open_string;
}

void lexer_hint(const lexer_t *lexer, int line, buffer_t *out) {
    if (lexer->count && strncmp(lexer->tokens[0].text.data, "\xef\xbb\xbf", 3) == 0) {
        buffer_str(out, " (the file begins with a byte order mark: save it as UTF-8 without one)");
        return;
    }
    for (size_t i = 1; i < lexer->count && lexer->tokens[i].line <= line; i++) {
        if (lexer->tokens[i].line == line && lexer_hint_pair(&lexer->tokens[i - 1], &lexer->tokens[i], out)) return;
    }
}
