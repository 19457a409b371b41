// What became of each failure, for people and programs.
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/audit/requeue.h"
#include "cli/encode.h"

enum { SAID_OF_EACH = 10, JSON_PROBLEMS = 1000, PROGRESS_MS = 200 };

static const struct {
    const char *word, *text;
    bool fails;
} fates[FATE_COUNT] = {
#define X(name, word_, fails_, text_) [FATE_##name] = {.word = (word_), .text = (text_), .fails = (fails_)},
    FATE_LIST(X)
#undef X
};

void tally_begin(tally_t *tally, const requeue_wish_t *wish, int64_t total, int64_t answered) {
    *tally = (tally_t){.wish = wish, .total = total, .before = answered, .began = mono_now(), .shown = mono_now()};
    tally->of[FATE_ANSWERED] = answered;
}

static const char *done_word(const requeue_wish_t *wish) { return wish->discards ? "discarded" : "put back"; }

static void add_json(buffer_t *out, const tally_t *tally, const subject_t *subject, fate_t fate, const char *detail) {
    const requeue_wish_t *wish = tally->wish;
    buffer_printf(out, "{\"ref\":\"%s\",\"event\":\"%s\",\"queue\":", subject->ref, subject->event);
    encode_json(out, slice_text(subject->queue));
    buffer_str(out, ",\"job_id\":");
    encode_json(out, slice_text(subject->job));
    buffer_printf(out, ",\"action\":\"%s\",\"result\":\"%s\"", wish->discards ? "discard" : "requeue", fates[fate].word);
    if (!wish->discards && fate <= FATE_WOULD) {
        buffer_str(out, ",\"to\":");
        encode_json(out, slice_text(wish->keys->queues[subject->to].config->name));
    }
    buffer_str(out, ",\"detail\":");
    encode_json(out, slice_text(detail ? detail : fates[fate].text));
    buffer_str(out, "}");
}

static void clear_progress(tally_t *tally) {
    if (tally->progress) fputs("\r\x1b[K", stderr);
    tally->progress = false;
}

// A line of plain text: nothing of a job may move the cursor.
static void print_plain(FILE *to, const char *text) {
    buffer_t plain = {0};
    encode_plain(&plain, slice_text(text), false);
    fputs(buffer_text(&plain), to);
    buffer_free(&plain);
}

// In bulk only what went wrong is told one by one, and of each kind no more than the first.
static bool worth_telling(const tally_t *tally, fate_t fate) {
    return !tally->wish->bulk || (fate != FATE_DONE && tally->of[fate] <= SAID_OF_EACH);
}

static void tell_good(const tally_t *tally, const subject_t *subject, fate_t fate) {
    const requeue_wish_t *wish = tally->wish;
    printf("%s  %s%s", subject->ref, fate == FATE_WOULD ? "would be " : "", done_word(wish));
    if (!wish->discards) printf(" into %s", wish->keys->queues[subject->to].config->name);
    fputs(": ", stdout);
    print_plain(stdout, subject->job);
    fputs("\n", stdout);
}

static void tell_people(tally_t *tally, const subject_t *subject, fate_t fate, const char *detail) {
    if (!worth_telling(tally, fate)) return;
    clear_progress(tally);
    if (fate == FATE_DONE || fate == FATE_WOULD) {
        tell_good(tally, subject, fate);
        return;
    }
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: %s (", subject->ref);
    print_plain(stderr, subject->queue);
    fprintf(stderr, ") %s%s", fates[fate].text, detail ? ": " : "");
    print_plain(stderr, detail ? detail : "");
    fputs("\n", stderr);
    if (tally->wish->bulk && tally->of[fate] == SAID_OF_EACH)
        fputs("queue-sidecar: others like this are counted; -o jsonl names each\n", stderr);
}

void tally_add(tally_t *tally, const subject_t *subject, fate_t fate, const char *detail) {
    bool good = fate == FATE_DONE || fate == FATE_WOULD;
    buffer_t line = {0};
    tally->of[fate]++;
    switch (tally->wish->format) {
    case FORMAT_JSON_LINES:
        add_json(&line, tally, subject, fate, detail);
        buffer_str(&line, "\n");
        fwrite(line.data, 1, line.len, stdout);
        buffer_free(&line);
        break;
    case FORMAT_JSON_ARRAY:
        if (good || tally->problem_count >= JSON_PROBLEMS) break;
        buffer_str(&tally->problems, tally->problem_count++ ? ",\n  " : "\n  ");
        add_json(&tally->problems, tally, subject, fate, detail);
        break;
    default: tell_people(tally, subject, fate, detail); break;
    }
}

static int64_t tried(const tally_t *tally) {
    int64_t sum = 0;
    for (int i = 0; i < FATE_COUNT; i++) sum += tally->of[i];
    return sum;
}

void tally_progress(tally_t *tally, bool last) {
    char done[NUMBER_SIZE], total[NUMBER_SIZE], rate[NUMBER_SIZE];
    mono_t now = mono_now();
    if (!tally->wish->bulk || tally->wish->dry || !isatty(STDERR_FILENO)) return;
    if (last) clear_progress(tally);
    if (last || mono_diff(now, tally->shown) < PROGRESS_MS * NS_PER_MS) return;
    tally->shown = now;
    int64_t ms = mono_diff(now, tally->began) / NS_PER_MS + 1, so_far = tried(tally), left = tally->total - so_far;
    int64_t by_now = so_far - tally->before;
    audit_number_text(so_far, done);
    audit_number_text(tally->total, total);
    audit_number_text(by_now * 1000 / ms, rate);
    fprintf(stderr, "\r%s of %s (%d %%), %s/s, %" PRId64 " s left\x1b[K", done, total,
            (int)(tally->total ? so_far * 100 / tally->total : 100), rate, by_now ? left * ms / by_now / 1000 : 0);
    fflush(stderr);
    tally->progress = true;
}

static void print_json(const tally_t *tally, const char *stopped) {
    buffer_t out = {0};
    buffer_printf(&out, "{\"action\":\"%s\",\"dry_run\":%s,\"planned\":%" PRId64, tally->wish->discards ? "discard" : "requeue",
                  tally->wish->dry ? "true" : "false", tally->total);
    for (int i = 0; i < FATE_COUNT; i++) buffer_printf(&out, ",\"%s\":%" PRId64, fates[i].word, tally->of[i]);
    buffer_printf(&out, ",\"left\":%" PRId64 ",\"stopped\":", tally->total - tried(tally));
    if (stopped)
        encode_json(&out, slice_text(stopped));
    else
        buffer_str(&out, "null");
    buffer_printf(&out, ",\"problems\":[%s]}\n", buffer_text(&tally->problems));
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

static void print_summary(const tally_t *tally, const char *stopped) {
    const requeue_wish_t *wish = tally->wish;
    char number[NUMBER_SIZE];
    double seconds = (double)mono_diff(mono_now(), tally->began) / (double)NS_PER_S;
    audit_number_text(tally->of[wish->dry ? FATE_WOULD : FATE_DONE], number);
    if (wish->bulk || tally->total > 1) {
        printf("%s%s %s", number, wish->dry ? " would be" : "", done_word(wish));
        if (!wish->dry) printf(" in %.1f s", seconds);
        fputs("\n", stdout);
    }
    for (int i = FATE_WOULD + 1; (wish->bulk || tally->total > 1) && i < FATE_COUNT; i++) {
        if (!tally->of[i]) continue;
        audit_number_text(tally->of[i], number);
        printf("besides, %s: %s%s\n", number, fates[i].text, i == FATE_ANSWERED ? " (--again does it once more)" : "");
    }
    if (!stopped) return;
    audit_number_text(tally->total - tried(tally), number);
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: stopped, with %s left: %s. %s\n", number, stopped,
            wish->again ? "The same command would do again what is done now, because of --again: `audit list` shows what that is"
                        : "Run the same command again: what is done is left out");
}

int tally_end(tally_t *tally, const char *stopped) {
    int status = CLI_OK;
    clear_progress(tally);
    for (int i = 0; i < FATE_COUNT; i++)
        if (tally->of[i] && fates[i].fails) status = CLI_FAILED;
    if (tally->wish->format == FORMAT_JSON_ARRAY)
        print_json(tally, stopped);
    else if (tally->wish->format == FORMAT_TABLE)
        print_summary(tally, stopped);
    if (stopped && tally->wish->format != FORMAT_TABLE) fprintf(stderr, "queue-sidecar: stopped: %s\n", stopped);
    fflush(stdout);
    buffer_free(&tally->problems);
    return status;
}
