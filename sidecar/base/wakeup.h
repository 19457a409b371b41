// A flag that ends another thread's poll(): an eventfd.
#pragma once

int wakeup_new(void);      // a descriptor to poll for reading, owned (close it); -1 with errno set
void wakeup_raise(int fd); // from any thread; -1 does nothing
void wakeup_clear(int fd);
