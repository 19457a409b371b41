#include "config/file/hint.h"

static bool token_is_bad_number(const token_t *token) {
    if (token->kind != TOKEN_NUMBER) return false;
    char *text = mem_printf("%.*s", (int)token->text.len, token->text.data), *end;
    (void)strtod(text, &end);
    bool bad = *end && strcmp(end, "L") != 0 && strcmp(end, "LL") != 0;
    free(text);
    return bad;
}

static bool token_is_one_of(const token_t *token, const char *marks) {
    return token->kind == TOKEN_MARK && strchr(marks, *token->text.data);
}

static bool token_is_word_of(const token_t *token, const char *const *words) {
    for (; *words; words++)
        if (token->kind == TOKEN_NAME && token->text.len == strlen(*words) &&
            strncasecmp(token->text.data, *words, token->text.len) == 0)
            return true;
    return false;
}

static bool token_is_bool(const token_t *token) {
    static const char *const words[] = {"true", "false", NULL};
    return token_is_word_of(token, words);
}

static bool token_is_other_bool(const token_t *token) {
    static const char *const words[] = {"yes", "no", "on", "off", NULL};
    return token_is_word_of(token, words);
}

// Whether a value cannot begin with the token.
static bool token_lacks_quotes(const token_t *token) {
    return token->kind == TOKEN_MARK ? !token_is_one_of(token, "{[(=:;,})]") : token->kind == TOKEN_NAME && !token_is_bool(token);
}

static bool token_ends_value(const token_t *token) {
    return token->kind == TOKEN_STRING || token->kind == TOKEN_NUMBER || token_is_bool(token) || token_is_one_of(token, "})]");
}

// Explains two tokens that cannot follow each other. Never shows a value: the key may be a misspelled `password`.
static bool hint_pair(const token_t *a, const token_t *b, buffer_t *out) {
    if (token_is_mark(a, ',') && token_is_one_of(b, ")]"))
        buffer_printf(out, " (remove the comma before `%c`: not every libconfig accepts it there)", *b->text.data);
    else if (token_is_one_of(a, ",(") && token_is_mark(b, ','))
        buffer_str(out, " (an entry is missing before the comma, or remove it)");
    else if (token_is_assignment(a) && token_is_assignment(b))
        buffer_str(out, " (write one `=` between name and value)");
    else if (token_is_assignment(a) && token_is_one_of(b, ";,})]"))
        buffer_str(out, " (a value is missing behind `=`)");
    else if (token_is_assignment(a) && token_is_other_bool(b))
        buffer_str(out, " (write true or false, or a text in double quotes)");
    else if (token_is_mark(a, '[') && token_is_mark(b, '{'))
        buffer_str(out, " (a list of groups has round brackets: ( { ... }, { ... } ))");
    else if (token_ends_value(a) && token_is_mark(b, '{'))
        buffer_str(out, " (a comma is missing between two entries)");
    else if (token_is_bad_number(b) || (token_is_assignment(a) && token_lacks_quotes(b)))
        buffer_str(out, " (write the value in double quotes)");
    else if (token_spans_lines(a) && !token_is_one_of(b, ";,}"))
        buffer_printf(out, " (is the closing quote missing of the string on line %d?)", a->line);
    else if (a->kind == TOKEN_STRING && token_is_assignment(b))
        buffer_str(out, " (write the name of a key without quotes)");
    else if (a->kind == TOKEN_NAME && !token_is_bool(a) && token_is_mark(b, '.'))
        buffer_printf(out, " (write keys of a section into its group: %.*s = { ... };)", (int)a->text.len, a->text.data);
    else if (a->kind == TOKEN_NAME && !token_is_bool(a) && (b->kind != TOKEN_MARK || token_is_one_of(b, "{([")))
        buffer_str(out, " (`=` is missing between name and value)");
    else if (a->kind == TOKEN_NAME && !token_is_bool(a) && token_is_one_of(b, ";,})"))
        buffer_str(out, " (`=` and a value are missing behind the name)");
    else if ((a->kind == TOKEN_STRING || a->kind == TOKEN_NUMBER) && (b->kind == TOKEN_STRING || b->kind == TOKEN_NUMBER))
        buffer_str(out, " (a comma is missing between two values, or remove one)");
    else
        return false;
    return true;
}

// Explains a mark in a place where no mark can be.
static bool hint_misplaced(const token_t *a, const token_t *b, buffer_t *out) {
    if (b->kind != TOKEN_MARK || token_is_one_of(b, "})]@") || (unsigned char)*b->text.data >= 0x80) return false;
    if (token_ends_value(a) && !token_is_one_of(b, ";,"))
        buffer_printf(out, " (`%c` cannot follow a value: remove it, or end the value with `;`)", *b->text.data);
    else if (token_is_one_of(a, "{;,.") && !(token_is_mark(a, ',') && token_is_mark(b, '{')))
        buffer_printf(out, " (`%c` cannot follow `%c`: remove one, or write what is missing between them)", *b->text.data,
                      *a->text.data);
    return out->len > 0;
}

static char hint_closer(char opener) { return opener == '{' ? '}' : opener == '(' ? ')' : ']'; }

typedef struct brackets {
    const token_t *open[LEXER_DEPTH_MAX];
    size_t depth;
} brackets_t;

// Explains one token by the brackets around it.
static bool hint_inside(brackets_t *brackets, const token_t *token, const token_t *before, buffer_t *out) {
    const token_t *inner = brackets->depth ? brackets->open[brackets->depth - 1] : NULL;
    if (token_is_mark(token, '{') && before && token_is_mark(before, ',') && !(inner && token_is_mark(inner, '('))) {
        buffer_str(out, " (write a list of groups in round brackets: ( { ... }, { ... } ))");
        return true;
    }
    if (token_is_one_of(token, "{([")) {
        if (brackets->depth < LEXER_DEPTH_MAX) brackets->open[brackets->depth++] = token;
        bool section = !inner && token_is_mark(token, '[') && !(before && token_is_assignment(before));
        if (section) buffer_str(out, " (write a section as a group: NAME = { ... };)");
        return section;
    }
    if (token_is_mark(token, ';') && inner && !token_is_mark(inner, '{')) {
        buffer_printf(out, " (write a comma between the entries of a list, or the `%c` that closes the `%c` of line %d)",
                      hint_closer(*inner->text.data), *inner->text.data, inner->line);
        return true;
    }
    if (!token_is_one_of(token, "})]")) return false;
    char mark = *token->text.data;
    if (!inner)
        buffer_printf(out, " (no bracket is open that this `%c` closes)", mark);
    else if (hint_closer(*inner->text.data) != mark)
        buffer_printf(out, " (a `%c` must come before this `%c`: it closes the `%c` of line %d)", hint_closer(*inner->text.data),
                      mark, *inner->text.data, inner->line);
    else
        brackets->depth--;
    return out->len > 0;
}

// A bracket that is never closed can be far above the line where libconfig gave up.
static void hint_brackets(const lexer_t *lexer, int line, buffer_t *out) {
    brackets_t brackets = {.depth = 0};
    buffer_t hint = {0};
    bool found = false;
    for (size_t i = 0; i < lexer->count && lexer->tokens[i].line <= line && !found; i++)
        found = hint_inside(&brackets, &lexer->tokens[i], i ? &lexer->tokens[i - 1] : NULL, &hint);
    const token_t *inner = brackets.depth ? brackets.open[brackets.depth - 1] : NULL;
    bool at_end = lexer->count && lexer->tokens[lexer->count - 1].line <= line;
    if (!found && inner && at_end) buffer_printf(&hint, " (the `%c` of line %d is not closed)", *inner->text.data, inner->line);
    buffer_str(out, buffer_text(&hint));
    buffer_free(&hint);
}

void syntax_hint(const lexer_t *lexer, int line, buffer_t *out) {
    buffer_t hint = {0};
    bool found = false;
    if (lexer->count && strncmp(lexer->tokens[0].text.data, "\xef\xbb\xbf", 3) == 0) {
        buffer_str(out, " (the file begins with a byte order mark: save it as UTF-8 without one)");
        return;
    }
    for (size_t i = 1; i < lexer->count && lexer->tokens[i].line <= line && !found; i++)
        found = lexer->tokens[i].line == line && hint_pair(&lexer->tokens[i - 1], &lexer->tokens[i], &hint);
    if (!found) hint_brackets(lexer, line, &hint);
    for (size_t i = 1; i < lexer->count && lexer->tokens[i].line <= line && hint.len == 0; i++)
        if (lexer->tokens[i].line == line) hint_misplaced(&lexer->tokens[i - 1], &lexer->tokens[i], &hint);
    buffer_str(out, buffer_text(&hint));
    buffer_free(&hint);
}
