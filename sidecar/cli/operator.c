#include "cli/operator.h"

#include <pwd.h>

#include "base/clock.h"
#include "base/host.h"
#include "cli/command.h"
#include "dialects/requeue.h"

char *operator_name(const char *by) {
    const char *sudo = getenv("SUDO_USER"), *user = getenv("USER");
    const struct passwd *entry = getpwuid(getuid());
    char host[256] = "";
    if (by) return mem_str(by);
    const char *name = sudo && *sudo ? sudo : user && *user ? user : entry ? entry->pw_name : "nobody";
    if (gethostname(host, sizeof host - 1) != 0 || !*host) snprintf(host, sizeof host, "unknown");
    return mem_printf("%.60s@%.60s", name, host);
}

bool operator_name_is_good(const char *name) {
    size_t len = strlen(name);
    bool good = len > 0 && len <= MAX_REQUEUE_BY;
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) good = false;
    return good;
}

int operator_confirms(void) {
    char line[16] = "";
    bool can_ask = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    fputs(can_ask ? ".\nGo on? [y/N] " : ".\nCannot ask without a terminal: add --yes, or try --dry-run first\n", stderr);
    fflush(stderr);
    if (!can_ask) return CLI_USAGE;
    bool yes = fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
    if (!yes) fputs("queue-sidecar: nothing was done\n", stderr);
    return yes ? CLI_OK : CLI_FAILED;
}

void operator_block_signals(sigset_t *signals) {
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGHUP);
    sigprocmask(SIG_BLOCK, signals, NULL);
}

int operator_wait(const sigset_t *signals, int64_t ns) {
    struct timespec timeout = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    int got = sigtimedwait(signals, NULL, &timeout);
    if (got <= 0) return 0;
    host_end_at_repeated_signal(signals);
    return got;
}
