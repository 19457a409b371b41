#include "base/text/suggest.h"

#include <ctype.h>

enum { LONGEST = 64 }; // a longer word is no typo

static int suggest_fold(char letter) { return letter == '-' ? '_' : tolower((unsigned char)letter); }

static size_t suggest_least(size_t a, size_t b) { return a < b ? a : b; }

// Edits between two words: insert, delete, replace, and swap of neighbours, each at 1 (optimal string alignment).
static size_t suggest_distance(const char *a, const char *b) {
    size_t rows[3][LONGEST + 1];
    size_t a_len = strlen(a), b_len = strlen(b);
    for (size_t j = 0; j <= b_len; j++) rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t replace = last[j - 1] + (suggest_fold(a[i - 1]) != suggest_fold(b[j - 1]));
            now[j] = suggest_least(replace, suggest_least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && suggest_fold(a[i - 1]) == suggest_fold(b[j - 2]) &&
                suggest_fold(a[i - 2]) == suggest_fold(b[j - 1]))
                now[j] = suggest_least(now[j], before[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

// The only candidate that begins with the word; NULL = there is none, or there are several.
static const char *suggest_completed(const char *word, const char *const *candidates, size_t count) {
    const char *completed = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;
        while (candidates[i] && word[same] && suggest_fold(word[same]) == suggest_fold(candidates[i][same])) same++;
        if (word[same] || !candidates[i] || (completed && strcmp(completed, candidates[i]) == 0)) continue;
        if (completed) return NULL;
        completed = candidates[i];
    }
    return completed;
}

const char *suggest_nearest(const char *word, const char *const *candidates, size_t count) {
    size_t len = strlen(word);
    if (len == 0 || len > LONGEST) return NULL;
    const char *nearest = NULL;
    size_t limit = (len + 2) / 3 + 1; // the allowed edits plus one
    if (limit > len) limit = len;
    for (size_t i = 0; i < count; i++) {
        if (!candidates[i] || strlen(candidates[i]) > LONGEST) continue;
        size_t edits = suggest_distance(word, candidates[i]);
        if (edits >= limit) continue;
        limit = edits;
        nearest = candidates[i];
    }
    return nearest || len == 1 ? nearest : suggest_completed(word, candidates, count);
}
