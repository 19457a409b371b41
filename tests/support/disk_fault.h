/* Operations on files of this process that fail when they are told to. In the test's own process, whose pwrite, fsync and
 * ftruncate are these. */
#pragma once

enum { DISK_WRITE = 1, DISK_SYNC = 2, DISK_CUT = 4 };

/* From now on operations of these kinds on files whose path contains `part` are counted; the nth and all that follow, `times` of
 * them altogether, fail with this errno. `part` is borrowed until disk_fault_off. */
void disk_fault_on(const char *part, int kinds, int nth, int times, int error);
void disk_fault_off(void);
int disk_fault_hits(void); /* that have failed */
