#include "base/host.h"
#include "suite.h"
#include "wait.h"

#include <sys/wait.h>
#include <unistd.h>

/* A process whose first signal came just now. */
static pid_t process_that_ends(void) {
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t ends;
        sigemptyset(&ends);
        sigaddset(&ends, SIGTERM);
        sigaddset(&ends, SIGINT);
        sigprocmask(SIG_BLOCK, &ends, NULL);
        host_end_at_repeated_signal(&ends);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]), close(ready[1]);
    return pid;
}

Test(unit_host, repeated_signal_ends_the_process_after_a_second, .timeout = 30) {
    int status = 0;
    int64_t began = wait_now_us();
    pid_t pid = process_that_ends();
    cr_assert(wait_for((kill(pid, SIGTERM), waitpid(pid, &status, WNOHANG) == pid), 20000));
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    cr_assert_geq(wait_now_us() - began, 1000000);
}
