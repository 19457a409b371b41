// The results of a run, in words and as JSON. Never rename a word or a field.
#include "base/json/json.h"
#include "operate/requeue/requeue.h"

const struct requeue_word requeue_words[RESULT_COUNT] = {
#define X(name, word_, fails_, text_) [RESULT_##name] = {.word = (word_), .text = (text_), .fails = (fails_)},
    RESULT_LIST(X)
#undef X
};

bool requeue_has_failed(const requeue_counts_t *counts) {
    bool failed = false;
    for (int i = 0; i < RESULT_COUNT; i++) failed |= counts->of[i] && requeue_words[i].fails;
    return failed;
}

const char *requeue_action(const requeue_options_t *options) {
    return options->erase ? "erase" : options->discard ? "discard" : "requeue";
}

static void result_add_text(buffer_t *out, const char *name, const char *text) {
    buffer_printf(out, "%s\"%s\":", out->data[out->len - 1] == '{' ? "" : ",", name);
    json_write_string(out, slice_text(text));
}

void requeue_write_result(buffer_t *out, const requeue_t *requeue, const requeue_target_t *target, requeue_result_t result,
                          const char *detail) {
    buffer_str(out, "{");
    result_add_text(out, "ref", target->ref);
    result_add_text(out, "event", target->event);
    result_add_text(out, "queue", target->queue);
    result_add_text(out, "job_id", target->job);
    result_add_text(out, "action", requeue_action(&requeue->options));
    result_add_text(out, "result", requeue_words[result].word);
    if (requeue_pushes(&requeue->options) && result <= RESULT_WOULD)
        result_add_text(out, "to", requeue->keys->queues[target->to].config->name);
    result_add_text(out, "detail", *detail ? detail : requeue_words[result].text);
    buffer_str(out, "}");
}

void requeue_write_counts(buffer_t *out, const requeue_counts_t *counts) {
    for (int i = 0; i < RESULT_COUNT; i++)
        buffer_printf(out, "%s\"%s\":%" PRId64, i ? "," : "", requeue_words[i].word, counts->of[i]);
}
