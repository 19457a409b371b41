#include "base/text/time_text.h"

enum { MS = 1000 };

int64_t time_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * MS + now.tv_nsec / 1000000;
}

static struct tm time_split(int64_t ms, bool utc) {
    struct tm tm = {0};
    time_t seconds = (time_t)(ms / MS - (ms % MS < 0));
    if (utc)
        gmtime_r(&seconds, &tm);
    else
        localtime_r(&seconds, &tm);
    return tm;
}

// Reads "2h30m": each unit once, the largest first.
static bool time_parse_ago(const char *text, int64_t now_ms, int64_t *out) {
    static const char letters[] = "wdhms";
    static const int64_t seconds[] = {7 * 86400, 86400, 3600, 60, 1};
    const char *units = letters; // those that may follow
    int64_t ago = 0;
    do {
        size_t digits = strspn(text, "0123456789");
        const char *letter = digits > 0 && digits < 10 && text[digits] ? strchr(units, text[digits]) : NULL;
        if (!letter) return false;
        ago += atoll(text) * seconds[letter - letters];
        units = letter + 1;
        text += digits + 1;
    } while (*text);
    *out = now_ms - ago * MS;
    return true;
}

// Reads a word for the beginning of a day. A day of a change of the clock has 23 or 25 hours.
static bool time_parse_day(const char *text, bool utc, int64_t now_ms, int64_t *out) {
    bool yesterday = strcmp(text, "yesterday") == 0;
    struct tm tm = time_split(now_ms, utc);
    if (!yesterday && strcmp(text, "today") != 0) return false;
    tm = (struct tm){.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday - yesterday, .tm_isdst = -1};
    *out = (int64_t)(utc ? timegm(&tm) : mktime(&tm)) * MS;
    return true;
}

// Reads a time in a format of strftime and returns the end of the time. NULL: the text has another form, or the time does not
// exist (30 February).
static const char *time_read(const char *text, const char *format, struct tm *tm) {
    char written[sizeof(time_text_t)];
    const char *end = strptime(text, format, tm);
    struct tm same = *tm;
    timegm(&same); // 30 February becomes 2 March
    size_t len = strftime(written, sizeof written, format, &same);
    return end && (size_t)(end - text) == len && memcmp(text, written, len) == 0 ? end : NULL;
}

// Reads Z, +hh:mm, -hh:mm, or nothing (*has_zone is then false).
static bool time_parse_zone(const char *text, bool *has_zone, int64_t *offset_s) {
    struct tm zone = {.tm_mday = 1};
    *has_zone = *text != '\0';
    if (!*has_zone || strcasecmp(text, "Z") == 0) return true;
    if (*text != '+' && *text != '-') return false;
    const char *end = time_read(text + 1, "%H:%M", &zone);
    if (!end) end = time_read(text + 1, "%H%M", &zone);
    *offset_s = (*text == '-' ? -60 : 60) * (zone.tm_hour * 60 + zone.tm_min);
    return end && !*end && zone.tm_hour <= 14;
}

// Reads ".123" or nothing.
static const char *time_read_ms(const char *text, int64_t *ms) {
    if (*text != '.' || strspn(text + 1, "0123456789") != 3) return text;
    *ms = atoi(text + 1);
    return text + strlen(".123");
}

bool time_parse(const char *text, bool utc, int64_t now_ms, int64_t *out) {
    struct tm tm = {.tm_mday = 1};
    bool has_zone = false;
    int64_t offset_s = 0, ms = 0;
    if (!time_parse_ago(text, now_ms, out) && !time_parse_day(text, utc, now_ms, out)) {
        const char *at = time_read(text, "%Y-%m-%d", &tm);
        if (!at || tm.tm_year < 70) return false;
        if (*at) {
            const char *clock = strchr("Tt ", *at) ? at + 1 : "";
            at = time_read(clock, "%H:%M:%S", &tm);
            at = at ? time_read_ms(at, &ms) : time_read(clock, "%H:%M", &tm);
        }
        if (!at || !time_parse_zone(at, &has_zone, &offset_s)) return false;
        tm.tm_isdst = -1;
        *out = ((int64_t)(utc || has_zone ? timegm(&tm) : mktime(&tm)) - offset_s) * MS + ms;
    }
    if (*out < 1) *out = 1; // 0 means that no time was given
    return true;
}

bool time_parse_rfc3339(const char *text, int64_t *ms) {
    struct tm tm = {.tm_mday = 1};
    const char *at = time_read(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!at || tm.tm_year < 70) return false;
    int64_t fraction = 0;
    at = time_read_ms(at, &fraction);
    *ms = (int64_t)timegm(&tm) * MS + fraction;
    return strcmp(at, "Z") == 0;
}

time_text_t time_text(int64_t ms, bool utc, const char *format) {
    time_text_t out = {"-"};
    struct tm tm = time_split(ms, utc);
    if (ms != 0 && strftime(out.text, sizeof out.text, format, &tm) == 0) out = (time_text_t){"-"};
    return out;
}

time_text_t time_rfc3339(int64_t ms) {
    time_text_t out = {""};
    struct tm tm = time_split(ms, true);
    size_t len = strftime(out.text, sizeof out.text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out.text + len, sizeof out.text - len, ".%03dZ", (int)(((ms % MS) + MS) % MS));
    return out;
}

time_text_t time_zone(int64_t ms, bool utc) {
    time_text_t out = {"UTC"};
    struct tm tm = time_split(ms, utc);
    if (!utc && strftime(out.text, sizeof out.text, "%Z", &tm) == 0) out = (time_text_t){"UTC"};
    return out;
}
