// Times on the command line, in milliseconds since 1970. Local time is that of $TZ.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads "90s" "30m" "2h" "7d" "1w" (so long before now_ms), "2026-11-21", "2026-11-21T02:00" or "2026-11-21 02:00:30"; a time of
// day may end in Z or +hh:mm. Without a zone it is local time, or UTC if `utc`.
bool time_parse(const char *text, bool utc, int64_t now_ms, int64_t *out);

int64_t time_now_ms(void); // by this machine's clock

enum { TIME_TEXT_SIZE = 40 };
// "2026-11-21 02:14:07"; "-" for 0, which means unknown.
void time_format(int64_t ms, bool utc, char text[TIME_TEXT_SIZE]);
// Cuts the text of time_format down to "11-21 02:14".
void time_shorten(char text[TIME_TEXT_SIZE]);
// RFC 3339 in UTC, "2026-11-21T02:14:07.123Z".
void time_format_rfc3339(int64_t ms, char text[TIME_TEXT_SIZE]);
// Reads the text of time_format_rfc3339, with or without milliseconds.
bool time_parse_rfc3339(const char *text, int64_t *ms);
// The zone at that time: "UTC", "CET".
void time_zone_name(int64_t ms, bool utc, char text[TIME_TEXT_SIZE]);
