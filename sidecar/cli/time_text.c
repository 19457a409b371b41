#include "cli/time_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MS = 1000, MINUTE = 60, HOUR = 3600, DAY = 86400 };

int64_t time_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * MS + now.tv_nsec / 1000000;
}

static int64_t time_unit_seconds(char letter) {
    switch (letter) {
    case 's': return 1;
    case 'm': return MINUTE;
    case 'h': return HOUR;
    case 'd': return DAY;
    case 'w': return 7 * DAY;
    default: return 0;
    }
}

static bool time_parse_ago(const char *text, int64_t now_ms, int64_t *out) {
    int64_t count = 0;
    size_t digits = strspn(text, "0123456789");
    int64_t unit = time_unit_seconds(text[digits]);
    if (digits == 0 || digits > 9 || unit == 0 || text[digits + 1]) return false;
    for (size_t i = 0; i < digits; i++) count = count * 10 + (text[i] - '0');
    *out = now_ms - count * unit * MS;
    if (*out < 1) *out = 1; // 0 means that no time was given
    return true;
}

// Reads so many digits and moves behind them.
static bool time_parse_digits(const char **at, int digits, int min, int max, int *out) {
    *out = 0;
    for (int i = 0; i < digits; i++, (*at)++) {
        if (!isdigit((unsigned char)**at)) return false;
        *out = *out * 10 + (**at - '0');
    }
    return *out >= min && *out <= max;
}

static bool time_skip_any(const char **at, const char *any) {
    if (!**at || !strchr(any, **at)) return false;
    (*at)++;
    return true;
}

static bool time_parse_date(const char **at, struct tm *tm) {
    bool good = time_parse_digits(at, 4, 1970, 9999, &tm->tm_year) && time_skip_any(at, "-") &&
                time_parse_digits(at, 2, 1, 12, &tm->tm_mon) && time_skip_any(at, "-") &&
                time_parse_digits(at, 2, 1, 31, &tm->tm_mday);
    tm->tm_year -= 1900;
    tm->tm_mon -= 1;
    return good;
}

// The seconds may be missing.
static bool time_parse_clock(const char **at, struct tm *tm) {
    return time_parse_digits(at, 2, 0, 23, &tm->tm_hour) && time_skip_any(at, ":") &&
           time_parse_digits(at, 2, 0, 59, &tm->tm_min) &&
           (!time_skip_any(at, ":") || time_parse_digits(at, 2, 0, 59, &tm->tm_sec));
}

// Z, +hh:mm, -hh:mm, or nothing: then *has_zone is false.
static bool time_parse_zone(const char **at, bool *has_zone, int64_t *offset) {
    int hours, minutes;
    *has_zone = **at != '\0';
    if (!*has_zone || time_skip_any(at, "Zz")) return true;
    int64_t sign = **at == '-' ? -1 : 1;
    if (!time_skip_any(at, "+-") || !time_parse_digits(at, 2, 0, 14, &hours)) return false;
    time_skip_any(at, ":");
    if (!time_parse_digits(at, 2, 0, 59, &minutes)) return false;
    *offset = sign * (hours * HOUR + minutes * MINUTE);
    return true;
}

// False for 30 February and the like.
static bool time_join(struct tm *tm, bool utc, int64_t *ms) {
    int day = tm->tm_mday;
    *ms = (int64_t)(utc ? timegm(tm) : mktime(tm)) * MS;
    return tm->tm_mday == day;
}

bool time_parse(const char *text, bool utc, int64_t now_ms, int64_t *out) {
    struct tm tm = {.tm_isdst = -1};
    const char *at = text;
    bool has_zone = false;
    int64_t offset = 0;
    if (time_parse_ago(text, now_ms, out)) return true;
    if (!time_parse_date(&at, &tm)) return false;
    if (time_skip_any(&at, "Tt ") && (!time_parse_clock(&at, &tm) || !time_parse_zone(&at, &has_zone, &offset))) return false;
    if (*at || !time_join(&tm, utc || has_zone, out)) return false;
    *out -= offset * MS;
    if (*out < 1) *out = 1; // 0 means that no time was given
    return true;
}

bool time_parse_rfc3339(const char *text, int64_t *ms) {
    struct tm tm = {0};
    int fraction = 0;
    const char *at = text;
    if (!time_parse_date(&at, &tm) || !time_skip_any(&at, "T") || !time_parse_clock(&at, &tm)) return false;
    if (at - text != (ptrdiff_t)strlen("2026-11-21T02:14:07")) return false;
    if (time_skip_any(&at, ".") && !time_parse_digits(&at, 3, 0, 999, &fraction)) return false;
    if (!time_skip_any(&at, "Z") || *at || !time_join(&tm, true, ms)) return false;
    *ms += fraction;
    return true;
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

void time_format(int64_t ms, bool utc, char text[TIME_TEXT_SIZE]) {
    struct tm tm = time_split(ms, utc);
    if (ms == 0 || strftime(text, TIME_TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &tm) == 0) snprintf(text, TIME_TEXT_SIZE, "-");
}

void time_shorten(char text[TIME_TEXT_SIZE]) {
    static const char whole[] = "2026-11-21 02:14:07";
    if (strlen(text) != sizeof whole - 1) return; // "-"
    memmove(text, text + strlen("2026-"), strlen("11-21 02:14"));
    text[strlen("11-21 02:14")] = '\0';
}

void time_format_rfc3339(int64_t ms, char text[TIME_TEXT_SIZE]) {
    struct tm tm = time_split(ms, true);
    size_t len = strftime(text, TIME_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + len, TIME_TEXT_SIZE - len, ".%03dZ", (int)(((ms % MS) + MS) % MS));
}

void time_zone_name(int64_t ms, bool utc, char text[TIME_TEXT_SIZE]) {
    struct tm tm = time_split(ms, utc);
    if (utc || strftime(text, TIME_TEXT_SIZE, "%Z", &tm) == 0) snprintf(text, TIME_TEXT_SIZE, "UTC");
}
