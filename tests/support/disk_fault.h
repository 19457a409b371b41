/* Makes file operations of the test process fail: defines its pwrite, fsync, fdatasync and ftruncate. */
#pragma once

enum { DISK_WRITE = 1, DISK_SYNC = 2, DISK_CUT = 4 }; /* DISK_CUT: ftruncate */

/* Counts, from now on, operations of these kinds on files whose path contains `part`. Number nth to nth + times - 1 fail with
 * this errno; with 0 they wait for disk_fault_off. `part` is borrowed until then. */
void disk_fault_on(const char *part, int kinds, int nth, int times, int error);
void disk_fault_off(void);
int disk_fault_hits(void); /* operations that have failed or waited */
