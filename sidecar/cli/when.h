// Times on the command line. Milliseconds since 1970; local time is that of TZ.
#ifndef QS_CLI_WHEN_H
#define QS_CLI_WHEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads "90s" "30m" "2h" "7d" "1w" (so long before now_ms), or "2026-11-21", "2026-11-21T02:00", "2026-11-21 02:00:30", with Z or
// +hh:mm behind a time of day, else in local time (utc: in UTC). False for anything else.
bool when_parse(const char *text, bool utc, int64_t now_ms, int64_t *out);

int64_t when_now(void); // by this machine's clock

enum { WHEN_SIZE = 40 };
// "2026-11-21 02:14:07"; in *text "-" where ms is 0, which means unknown.
void when_text(int64_t ms, bool utc, char text[WHEN_SIZE]);
// Of what when_text makes, what a narrow terminal shows: "11-21 02:14".
void when_shorten(char text[WHEN_SIZE]);
// RFC 3339 in UTC with milliseconds, "2026-11-21T02:14:07.123Z": for programs.
void when_rfc3339(int64_t ms, char text[WHEN_SIZE]);
// Reads what when_rfc3339 writes, from 1970 to 9999, with or without milliseconds; false for anything else.
bool when_read(const char *text, int64_t *ms);
// What the zone is called at that time: "UTC", "CET".
void when_zone(int64_t ms, bool utc, char text[WHEN_SIZE]);

#endif
