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

bool token_is_mark(const token_t *token, char mark) { return token->kind == TOKEN_MARK && *token->text.data == mark; }

bool token_is_assignment(const token_t *token) { return token_is_mark(token, '=') || token_is_mark(token, ':'); }

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

bool token_spans_lines(const token_t *token) {
    return token->kind == TOKEN_STRING && memchr(token->text.data, '\n', token->text.len);
}

int lexer_stray_string_line(const lexer_t *lexer) {
    char open[LEXER_DEPTH_MAX];
    size_t depth = 0;
    for (size_t i = 0; i < lexer->count; i++) {
        const token_t *token = &lexer->tokens[i], *before = token - 1;
        char mark = token->kind == TOKEN_MARK ? *token->text.data : ' ';
        if (strchr("{([", mark) && depth < LEXER_DEPTH_MAX) open[depth++] = mark;
        if (strchr("})]", mark) && depth > 0) depth--;
        if (token->kind != TOKEN_STRING) continue;
        if (i == 0) return token->line;
        bool include = slice_is(before->text, "include") && i > 1 && token_is_mark(before - 1, '@');
        bool value = before->kind == TOKEN_STRING || (before->kind == TOKEN_MARK && strchr("=:([,", *before->text.data));
        if (depth == 0 || open[depth - 1] == '{') value = value && !token_is_mark(before, ','); // no list
        if (!include && !value) return token->line;
        const token_t *next = i + 1 < lexer->count ? token + 1 : NULL;
        bool ends = !next || next->kind == TOKEN_NAME || next->kind == TOKEN_STRING ||
                    (next->kind == TOKEN_MARK && strchr(";,)]}@", *next->text.data));
        if (!ends) return next->line;
    }
    return 0;
}

int lexer_open_string_line(const lexer_t *lexer) {
    for (size_t i = 0; lexer->open_string && i < lexer->count; i++)
        if (token_spans_lines(&lexer->tokens[i])) return lexer->tokens[i].line;
    return lexer->open_string;
}
