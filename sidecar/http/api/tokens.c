#include "http/api/tokens.h"

#include <sys/stat.h>

#include "base/buffer.h"
#include "base/condition.h"
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"

enum { FILE_BYTES_MAX = 64 * 1024, REFUSED_FREE = 10, REFUSED_LEAK_S = 6, REFUSED_MAX = 20, DELAY_MS = 500 };

static const char ROLE[] = "http";

const char *const right_words[RIGHTS] = {"look", "payloads", "act", "proxy"};

struct tokens {
    const char *path;
    struct stat seen; // of the file that was read last; st_ino 0 = none
    condition_t unreadable;
    token_t *items; // owned
    size_t count;
    double refused; // refused tokens, less those that have leaked
    mono_t leaked_at;
};

tokens_t *tokens_new(const char *path) {
    tokens_t *tokens = mem_alloc(sizeof *tokens);
    tokens->path = path;
    tokens->leaked_at = mono_now();
    return tokens;
}

static void tokens_clear(tokens_t *tokens) {
    free(tokens->items);
    tokens->items = NULL;
    tokens->count = 0;
}

void tokens_free(tokens_t *tokens) {
    if (!tokens) return;
    tokens_clear(tokens);
    condition_free(&tokens->unreadable);
    free(tokens);
}

bool tokens_configured(const tokens_t *tokens) { return *tokens->path != '\0'; }

// ---- Reading.

// Takes the next word of *line. Empty = there is none.
static slice_t token_word(slice_t *line) {
    static const char space[] = " \t\r";
    while (line->len && strchr(space, *line->data)) *line = (slice_t){line->data + 1, line->len - 1};
    slice_t word = {line->data, 0};
    while (word.len < line->len && !strchr(space, line->data[word.len])) word.len++;
    *line = (slice_t){line->data + word.len, line->len - word.len};
    return word;
}

static bool token_parse_rights(slice_t list, unsigned *rights) {
    for (size_t from = 0, at = 0; at <= list.len; at++) {
        if (at < list.len && list.data[at] != ',') continue;
        size_t right = 0;
        while (right < RIGHTS && !slice_is((slice_t){list.data + from, at - from}, right_words[right])) right++;
        if (right == RIGHTS) return false;
        *rights |= 1u << right;
        from = at + 1;
    }
    return true;
}

bool token_parse(slice_t line, token_t *out, const char **why) {
    *out = (token_t){0};
    if (memchr(line.data ? line.data : "", '\0', line.len)) {
        *why = "it holds a NUL byte";
        return false;
    }
    slice_t words[4];
    size_t count = 0;
    while (count < 4 && (words[count] = token_word(&line)).len) count++;
    if (count == 0 || *words[0].data == '#') return true;
    *why = "it must be `NAME RIGHTS TOKEN`, or a token alone";
    if (count != 1 && count != 3) return false;
    slice_t name = count == 3 ? words[0] : slice_text("token"), token = words[count - 1];
    *why = "the name must be UTF-8 of at most 128 bytes without control characters";
    if (name.len > TOKEN_NAME_MAX || !utf8_is_valid(name.data, name.len)) return false;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.data[i] < ' ' || name.data[i] == 0x7f) return false;
    *why = "the token must have at least 16 bytes";
    if (token.len < TOKEN_BYTES_MIN) return false;
    *why = "the rights must be out of look, payloads, act and proxy, separated by commas";
    unsigned rights = count == 3 ? 0 : RIGHT_LOOK | RIGHT_PAYLOADS | RIGHT_ACT;
    if (count == 3 && !token_parse_rights(words[1], &rights)) return false;
    memcpy(out->name, name.data, name.len);
    out->rights = rights;
    out->digest = digest_of(token.data, token.len);
    return true;
}

static void tokens_parse(tokens_t *tokens, slice_t text, tokens_fault_fn *fault, void *self) {
    int64_t number = 0;
    while (text.len) {
        const char *end = memchr(text.data, '\n', text.len);
        slice_t line = {text.data, end ? (size_t)(end - text.data) : text.len};
        token_t token;
        const char *why;
        number++;
        if (!token_parse(line, &token, &why)) {
            fault(self, number, why);
        } else if (token.rights) {
            tokens->items = mem_grown(tokens->items, tokens->count, sizeof *tokens->items);
            tokens->items[tokens->count++] = token;
        }
        size_t used = line.len + (end != NULL);
        text = (slice_t){text.data + used, text.len - used};
    }
}

static void tokens_log_fault(void *self, int64_t line, const char *why) {
    (void)self;
    log_warn(ROLE, NULL, "skipping a line of http.token_file", F_INT("line", line), F_STR("reason", why));
}

// Returns why the file cannot be read; NULL = it was.
static const char *tokens_read_text(const char *path, struct stat *seen, buffer_t *text) {
    FILE *file = file_open_regular(path);
    if (!file) return errno == FILE_NOT_REGULAR ? "not a regular file" : strerror(errno);
    char part[4096];
    size_t len;
    fstat(fileno(file), seen);
    while (text->len <= FILE_BYTES_MAX && (len = fread(part, 1, sizeof part, file)) > 0) buffer_add(text, part, len);
    const char *why = ferror(file) ? "it cannot be read" : text->len > FILE_BYTES_MAX ? "it is larger than 64 KiB" : NULL;
    explicit_bzero(part, sizeof part);
    fclose(file);
    return why;
}

static void tokens_free_text(buffer_t *text) {
    if (text->data) explicit_bzero(text->data, text->cap);
    buffer_free(text);
}

static bool tokens_changed(const struct stat *a, const struct stat *b) {
    return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
           a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
           a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

// A file that cannot be read gives nobody any right.
void tokens_refresh(tokens_t *tokens) {
    struct stat now;
    buffer_t text = {0};
    if (!tokens_configured(tokens)) return;
    bool there = stat(tokens->path, &now) == 0;
    if (there && tokens->seen.st_ino && !tokens_changed(&tokens->seen, &now)) return;
    tokens_clear(tokens);
    tokens->seen = (struct stat){0};
    const char *why = tokens_read_text(tokens->path, &tokens->seen, &text);
    if (!why) tokens_parse(tokens, (slice_t){buffer_text(&text), text.len}, tokens_log_fault, NULL);
    if (condition_update_reason(&tokens->unreadable, why) == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "cannot read http.token_file; nobody can sign in", F_STR("reason", why));
    if (why)
        tokens->seen = (struct stat){0};
    else
        log_info(ROLE, NULL, "read http.token_file", F_INT("tokens", tokens->count));
    tokens_free_text(&text);
}

unsigned tokens_check(const char *path, tokens_fault_fn *fault, void *self) {
    tokens_t *tokens = tokens_new(path);
    buffer_t text = {0};
    const char *why = tokens_read_text(path, &tokens->seen, &text);
    unsigned rights = 0;
    if (!why) tokens_parse(tokens, (slice_t){buffer_text(&text), text.len}, fault, self);
    for (size_t i = 0; i < tokens->count; i++) rights |= tokens->items[i].rights;
    if (!why && !tokens->count) why = "it has no line `NAME RIGHTS TOKEN`";
    if (why) fault(self, 0, why);
    tokens_free_text(&text);
    tokens_free(tokens);
    return rights;
}

const token_t *tokens_find(tokens_t *tokens, slice_t sent) {
    tokens_refresh(tokens);
    digest_t digest = digest_of(sent.data, sent.len);
    const token_t *found = NULL;
    for (size_t i = 0; i < tokens->count; i++) {
        unsigned char differs = 0;
        for (size_t byte = 0; byte < DIGEST_BYTES; byte++) differs |= digest.bytes[byte] ^ tokens->items[i].digest.bytes[byte];
        found = differs ? found : &tokens->items[i];
    }
    return found;
}

// ---- Refused tokens.

static void tokens_leak(tokens_t *tokens, mono_t now) {
    double leaked = (double)mono_diff(now, tokens->leaked_at) / (REFUSED_LEAK_S * (double)NS_PER_S);
    tokens->refused = tokens->refused > leaked ? tokens->refused - leaked : 0;
    tokens->leaked_at = now;
}

int64_t tokens_delay(tokens_t *tokens, mono_t now) {
    tokens_leak(tokens, now);
    return tokens->refused >= REFUSED_FREE ? DELAY_MS * NS_PER_MS : 0;
}

void tokens_note_refused(tokens_t *tokens, mono_t now) {
    tokens_leak(tokens, now);
    if (tokens->refused < REFUSED_MAX) tokens->refused += 1;
}
