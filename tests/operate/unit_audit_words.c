/* `audit` accepts exactly the reasons that events can have. */
#include "audit/audit.h"
#include "model/metrics.h"
#include "operate/filter.h"
#include "operate/status/status.h"

#include <criterion/criterion.h>
#include <string.h>

static bool is_in_list(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len])) return true;
    return false;
}

Test(unit_audit_words, failure_reasons_equal_those_of_metrics_and_status) {
    static const char counted[] =
#define X(name) " " #name
        METRICS_REASONS(X);
#undef X
    char *decided = mem_printf("%s cancelled", counted + 1); /* by an operator; no sidecar counts it */
    cr_assert_str_eq(decided, AUDIT_FAILURE_REASONS);
    free(decided);
    char *words = mem_str("");
    for (size_t i = 0; i < STATUS_REASONS; i++) {
        char *longer = mem_printf("%s%s ", words, status_reasons[i]);
        free(words);
        words = longer;
    }
    cr_assert_str_eq(words, AUDIT_FAILURE_REASONS " other ");
    free(words);
}

Test(unit_audit_words, other_reasons_include_all_recorded_ones) {
    static const char *const words[] = {"stalled",     "trimmed",      "removed_by_others", AUDIT_DAMAGED,
                                        AUDIT_MISSING, AUDIT_REPLACED, "imported"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_expect(is_in_list(AUDIT_OTHER_REASONS, words[i]), "%s", words[i]);
}
