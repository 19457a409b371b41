// Times on the command line, in milliseconds since 1970. Local time is that of $TZ.
#pragma once

#include "base/std.h"

// Reads "90s" "2h30m" "7d" "1w" (so long before now_ms), "today", "yesterday", "2026-11-21", "2026-11-21T02:00" or
// "2026-11-21 02:00:30", "2026-11-21T02:00:00.123"; a time of day may end in Z or +hh:mm. Without a zone it is local time, or UTC
// if `utc`.
bool time_parse(const char *text, bool utc, int64_t now_ms, int64_t *out);

int64_t time_now_ms(void); // by this machine's clock

typedef struct time_text {
    char text[40];
} time_text_t;

#define TIME_SECONDS "%Y-%m-%d %H:%M:%S"
#define TIME_MINUTES "%Y-%m-%d %H:%M"
#define TIME_SHORT   "%m-%d %H:%M"
time_text_t time_text(int64_t ms, bool utc, const char *format); // "-" for 0, which means unknown
time_text_t time_zone(int64_t ms, bool utc);                     // name of the zone at that time: "UTC", "CET"
time_text_t time_rfc3339(int64_t ms);                            // in UTC, "2026-11-21T02:14:07.123Z"
// Reads the text of time_rfc3339, with or without milliseconds.
bool time_parse_rfc3339(const char *text, int64_t *ms);
