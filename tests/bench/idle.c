// The cost of the sidecar while no job is due: requests of the leader and of a standby, commands in Redis, CPU and memory.
//
// Each instance connects to Redis through a small proxy that counts its requests, because neither MONITOR nor CLIENT LIST can
// tell the clients of a unix socket apart. The figures come from one window of BENCH_ROUNDS minutes. A minute has two safety
// polls, one count of the sizes, one request for the history, and one comparison of a part of the failure streams by each
// auditor.
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "bench.h"

enum { MAX_LINKS = 16, WINDOW_S_PER_ROUND = 60, SETTLE_US = 3000000, SWEEP_US = 120000 };

// One connection, and how far the proxy has parsed its requests.
typedef struct link {
    int client;
    int server;
    char type;
    size_t number;
    size_t skip; // bytes of an argument that have not arrived yet
} link_t;

typedef struct proxy {
    char path[128];
    char redis[128];
    int listener;
    atomic_llong requests;
    link_t links[MAX_LINKS];
    int count;
} proxy_t;

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) die("the path of a socket is too long: %s", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    return address;
}

// Parses requests. A request is an array of strings: *<count>, then $<length> and the bytes of each string.
static void count_requests(proxy_t *proxy, link_t *link, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (link->skip > 0) {
            link->skip--;
        } else if (bytes[i] == '*' || bytes[i] == '$') {
            link->type = bytes[i];
            link->number = 0;
        } else if (bytes[i] >= '0' && bytes[i] <= '9') {
            link->number = link->number * 10 + (size_t)(bytes[i] - '0');
        } else if (bytes[i] == '\n') {
            if (link->type == '*')
                atomic_fetch_add(&proxy->requests, 1);
            else
                link->skip = link->number + 2;
        }
    }
}

static bool copy(proxy_t *proxy, link_t *link, int from, int to) {
    char bytes[16384];
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) return false;
    if (from == link->client) count_requests(proxy, link, bytes, (size_t)got);
    for (ssize_t sent = 0; sent < got;) {
        ssize_t wrote = write(to, bytes + sent, (size_t)(got - sent));
        if (wrote <= 0) return false;
        sent += wrote;
    }
    return true;
}

static void open_link(proxy_t *proxy) {
    if (proxy->count == MAX_LINKS) die("too many connections");
    struct sockaddr_un address = address_of(proxy->redis);
    link_t link = {.client = accept(proxy->listener, NULL, NULL), .server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (link.client < 0 || connect(link.server, (struct sockaddr *)&address, sizeof address) != 0) die("proxy: cannot connect");
    proxy->links[proxy->count++] = link;
}

static void close_link(proxy_t *proxy, int index) {
    close(proxy->links[index].client);
    close(proxy->links[index].server);
    proxy->links[index] = proxy->links[--proxy->count];
}

static void *proxy_main(void *arg) {
    proxy_t *proxy = arg;
    for (;;) {
        struct pollfd ready[1 + 2 * MAX_LINKS] = {{.fd = proxy->listener, .events = POLLIN}};
        int count = proxy->count;
        for (int i = 0; i < count; i++) {
            ready[1 + 2 * i] = (struct pollfd){.fd = proxy->links[i].client, .events = POLLIN};
            ready[2 + 2 * i] = (struct pollfd){.fd = proxy->links[i].server, .events = POLLIN};
        }
        if (poll(ready, (nfds_t)(1 + 2 * count), -1) < 0) continue;
        for (int i = count - 1; i >= 0; i--) {
            link_t *link = &proxy->links[i];
            bool alive = !ready[1 + 2 * i].revents || copy(proxy, link, link->client, link->server);
            alive = alive && (!ready[2 + 2 * i].revents || copy(proxy, link, link->server, link->client));
            if (!alive) close_link(proxy, i);
        }
        if (ready[0].revents) open_link(proxy);
    }
    return NULL;
}

// The proxy lives as long as the bench.
static void proxy_start(const bench_t *bench, proxy_t *proxy, const char *name) {
    pthread_t thread;
    snprintf(proxy->path, sizeof proxy->path, "%s/%s", bench->dir, name);
    snprintf(proxy->redis, sizeof proxy->redis, "%s/redis.sock", bench->dir);
    struct sockaddr_un address = address_of(proxy->path);
    proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(proxy->listener, 16) != 0 ||
        pthread_create(&thread, NULL, proxy_main, proxy) != 0)
        die("cannot start the proxy");
    pthread_detach(thread);
}

static FILE *open_proc(pid_t pid, const char *name) {
    char path[384];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return fopen(path, "r");
}

// CPU time of all threads, in ns.
static double cpu_ns(pid_t pid) {
    char path[64];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (!tasks) die("no %s", path);
    for (const struct dirent *task = readdir(tasks); task; task = readdir(tasks)) {
        char name[300];
        double ns = 0;
        if (task->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "task/%s/schedstat", task->d_name);
        FILE *file = open_proc(pid, name);
        if (file && fscanf(file, "%lf", &ns) == 1) sum += ns;
        if (file) fclose(file);
    }
    closedir(tasks);
    return sum;
}

// Sum of the lines of /proc/PID/NAME that begin with `key`, which are in kB; in MiB.
static double memory_mib(pid_t pid, const char *name, const char *key) {
    char line[256];
    double sum = 0;
    FILE *file = open_proc(pid, name);
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) sum += strtod(strchr(line, ':') + 1, NULL) / 1024;
    fclose(file);
    return sum;
}

static void row(bench_t *bench, const char *label, double value, int decimals, char relation, double goal) {
    series_t series = {0};
    series_add(&series, value);
    table_row(bench, label, &series, decimals, relation, goal);
}

typedef struct sample {
    double requests[2];
    double cpu[2];
    double commands;
    int64_t at_us;
} sample_t;

static sample_t take(redisContext *redis, proxy_t *proxies, const pid_t *pids) {
    sample_t sample = {.commands = redis_commands(redis), .at_us = mono_us()};
    for (int i = 0; i < 2; i++) {
        sample.requests[i] = (double)atomic_load(&proxies[i].requests);
        sample.cpu[i] = cpu_ns(pids[i]);
    }
    return sample;
}

static void measure(bench_t *bench, redisContext *redis, proxy_t *proxies, int queues, double goal_mib) {
    pid_t pids[2];
    pids[0] = sidecar_start(bench, (sidecar_options_t){.name = "leader", .queues = queues, .socket = "leader.sock"});
    sidecar_await(redis, pids[0]);
    pids[1] = sidecar_start(bench, (sidecar_options_t){.name = "standby", .queues = queues, .socket = "standby.sock"});
    standby_await(redis);
    for (int i = 0; i < queues; i++) redis_do(redis, "ZADD q%d:delayed %lld later", i, (long long)(wall_us() / 1000 + 3600000));
    sleep_us(SETTLE_US +
             (int64_t)queues * SWEEP_US); // a new leader prunes the requeue markers of each queue once, ten queues a second
    int window_s = WINDOW_S_PER_ROUND * bench->rounds;
    fprintf(stderr, "idle: %d queue%s, window of %d s\n", queues, queues > 1 ? "s" : "", window_s);
    sample_t before = take(redis, proxies, pids);
    sleep_us((int64_t)window_s * 1000000);
    sample_t after = take(redis, proxies, pids);
    double s = (double)(after.at_us - before.at_us) / 1e6;

    char title[80];
    snprintf(title, sizeof title, "Idle, %d queue%s, lock.ttl 5s, safety_poll 30s", queues, queues > 1 ? "s" : "");
    table_head(title);
    row(bench, "leader: requests/s", (after.requests[0] - before.requests[0]) / s, 3, '<', 1);
    row(bench, "standby: requests/s", (after.requests[1] - before.requests[1]) / s, 3, '<', 0.3);
    row(bench, "commands in Redis, scripts included, per queue and s", (after.commands - before.commands) / s / queues, 3,
        queues > 1 ? '<' : 0, 0.1);
    row(bench, "leader: CPU, ms per s", (after.cpu[0] - before.cpu[0]) / 1e6 / s, 3, 0, 0);
    row(bench, "standby: CPU, ms per s", (after.cpu[1] - before.cpu[1]) / 1e6 / s, 3, 0, 0);
    row(bench, "leader: VmRSS, MiB", memory_mib(pids[0], "status", "VmRSS"), 2, queues > 1 ? '<' : 0, goal_mib);
    row(bench, "leader: PSS, MiB", memory_mib(pids[0], "smaps_rollup", "Pss:"), 2, 0, 0);
    row(bench, "leader: private, MiB", memory_mib(pids[0], "smaps_rollup", "Private_"), 2, 0, 0);
    row(bench, "standby: VmRSS, MiB", memory_mib(pids[1], "status", "VmRSS"), 2, queues > 1 ? '<' : 0, goal_mib);
    sidecar_stop(pids[1], SIGTERM);
    sidecar_stop(pids[0], SIGTERM);
    redis_do(redis, "FLUSHALL");
}

// Memory of a leader that also scans the backup lists, which are empty.
static void measure_monitor(bench_t *bench, redisContext *redis, int queues, double goal_mib) {
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "monitor", .queues = queues, .monitor = "off"});
    sidecar_await(redis, pid);
    sleep_us(SETTLE_US + (int64_t)queues * SWEEP_US);
    row(bench, "leader that monitors them, too: VmRSS, MiB", memory_mib(pid, "status", "VmRSS"), 2, '<', goal_mib);
    sidecar_stop(pid, SIGTERM);
    redis_do(redis, "FLUSHALL");
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    static proxy_t proxies[2];
    redisContext *redis = redis_open(&bench);
    proxy_start(&bench, &proxies[0], "leader.sock");
    proxy_start(&bench, &proxies[1], "standby.sock");
    redis_do(redis, "FLUSHALL"); // or the auditors would copy records of other benchmarks
    measure(&bench, redis, proxies, 1, 0);
    measure(&bench, redis, proxies, 100, 6);
    measure_monitor(&bench, redis, 100, 6);
    measure(&bench, redis, proxies, 1000, 10);
    measure_monitor(&bench, redis, 1000, 10);
    redisFree(redis);
    return bench_end(&bench);
}
