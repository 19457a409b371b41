// Times on the command line. Milliseconds since 1970; local time is that of TZ.
#ifndef QS_CLI_TIME_TEXT_H
#define QS_CLI_TIME_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads "90s" "30m" "2h" "7d" "1w" (so long before now_ms), or "2026-11-21", "2026-11-21T02:00", "2026-11-21 02:00:30", with Z or
// +hh:mm behind a time of day, else in local time (utc: in UTC). False for anything else.
bool time_parse(const char *text, bool utc, int64_t now_ms, int64_t *out);

int64_t time_now_ms(void); // by this machine's clock

enum { TIME_TEXT_SIZE = 40 };
// "2026-11-21 02:14:07"; in *text "-" where ms is 0, which means unknown.
void time_format(int64_t ms, bool utc, char text[TIME_TEXT_SIZE]);
// Of what time_format makes, what a narrow terminal shows: "11-21 02:14".
void time_shorten(char text[TIME_TEXT_SIZE]);
// RFC 3339 in UTC with milliseconds, "2026-11-21T02:14:07.123Z": for programs.
void time_format_rfc3339(int64_t ms, char text[TIME_TEXT_SIZE]);
// Reads what time_format_rfc3339 writes, from 1970 to 9999, with or without milliseconds; false for anything else.
bool time_parse_rfc3339(const char *text, int64_t *ms);
// What the zone is called at that time: "UTC", "CET".
void time_zone_name(int64_t ms, bool utc, char text[TIME_TEXT_SIZE]);

#endif
