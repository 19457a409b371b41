/* The steps of producers and workers of each dialect. A job is a JSON object with the id "j<number>", or a task or hash of that
 * id. The ids of `task` are those of jobs of other queues, mostly of `beat`.
 *
 * Each script gets: ARGV[1] the queue; [2] the handle, which is the number for `add` and else what `take` has returned; [3] the
 * name of the worker; [4] the time by the clock of the worker's host, ms; [5] the due time by Redis's clock for `add` ('' = at
 * once), the text of a report for `report`. `storm` gets: [2] and [3] the first and the last number, [4] Redis's time, ms.
 *
 * Replies: take: the handle, or nil; finish: how many copies the worker has removed; report: 0 if the worker does not hold the
 * job; beat: 0 if the heartbeat was not there any more; left: how many jobs Redis still holds. */
#include "chaos.h"

#define ARGUMENTS                                                                                                                \
    "local q, h, worker, now, text = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] local id = string.match(h, 'j%d+') "
#define JOB "local job = '{\"id\":\"j' .. h .. '\"}' "
/* Entries of a list that are no sentinel. */
#define ENTRIES                                                                                                                  \
    "local function entries(key) local n = 0 for _, e in ipairs(redis.call('LRANGE', key, 0, -1)) do "                           \
    "if string.find(e, '\"id\":\"j', 1, true) then n = n + 1 end end return n end "
#define BEAT                                                                                                                     \
    ARGUMENTS "local old = redis.call('SET', q .. ':' .. id .. '_alive', worker, 'PX', 1500, 'GET') "                            \
              "return old == worker and 1 or 0"
#define REST "local beat = q .. ':' .. id .. '_alive' if redis.call('GET', beat) == worker then redis.call('DEL', beat) end "

#define LIST_SCRIPTS                                                                                                             \
    .add = ARGUMENTS JOB "if text == '' then return redis.call('LPUSH', q, job) end "                                            \
                         "return redis.call('ZADD', q .. ':delayed', text, job)",                                                \
    .take = ARGUMENTS "return redis.call('LMOVE', q, q .. ':backup', 'RIGHT', 'LEFT')",                                          \
    .finish = ARGUMENTS REST "return redis.call('LREM', q .. ':backup', 1, h)",                                                  \
    .report =                                                                                                                    \
        ARGUMENTS REST "redis.call('HSET', q .. ':errors', h, text) return redis.call('LPOS', q .. ':backup', h) and 1 or 0",    \
    .beat = BEAT,                                                                                                                \
    .left = ARGUMENTS ENTRIES "return redis.call('LLEN', q) + entries(q .. ':backup') + redis.call('ZCARD', q .. ':delayed') + " \
                              "redis.call('HLEN', q .. ':errors')",                                                              \
    .storm = "for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do local q, job = ARGV[1], '{\"id\":\"j' .. i .. '\"}' "              \
             "if i % 2 == 0 then redis.call('LPUSH', q .. ':backup', job) "                                                      \
             "else redis.call('ZADD', q .. ':delayed', ARGV[4], job) end end return 1",                                          \
    .times_out = true, .counts = true, .has_delays = true

#define ROLES           "roles = [\"dispatcher\", \"monitor\"]; "
#define MONITOR         "roles = [\"monitor\"]; "
#define PROTECTED       "protected_timeout = \"1s\"; "
#define HEARTBEAT(name) "heartbeat = \"" name ":*_alive\"; "

/* Bull's own scripts, cut down to what the sidecar can see: moveToActive-8, extendLock-2, moveToFinished-9, retryJob-3. */
#define BULL                                                                                                                     \
    ARGUMENTS "local b = 'bull:' .. q .. ':' local t = redis.call('TIME') local ms = t[1] * 1000 + math.floor(t[2] / 1000) "
#define BULL_OWN                                                                                                                 \
    "if redis.call('GET', b .. h .. ':lock') ~= worker or redis.call('LREM', b .. 'active', -1, h) == 0 then return 0 end "      \
    "redis.call('DEL', b .. h .. ':lock') redis.call('SREM', b .. 'stalled', h) "

/* BullMQ's own scripts, cut down likewise: moveToActive-11, extendLock-2, moveToFinished-14, retryJob-11. The worker that takes a
 * job with `defa` fails it. */
#define BULLMQ_FAIL(error)                                                                                                       \
    "redis.call('HSET', b .. h, 'failedReason', " error ", 'stacktrace', '[]', 'finishedOn', at) "                               \
    "redis.call('ZADD', b .. 'failed', at, h) redis.call('XADD', b .. 'events', 'MAXLEN', '~', 10000, '*', 'event', 'failed', "  \
    "'jobId', h, 'failedReason', " error ", 'prev', 'active') "

/* Sidekiq's own steps: client.rb (atomic_push, raw_push), fetch.rb, job_retry.rb (process_retry, send_to_morgue), and the beat of
 * launcher.rb, which writes the work of a process anew. Each process has one thread, and notes a job at once. Its keys last for
 * 42 s, so that it is gone after 2 s without a beat, not after 20 s. */
#define SIDEKIQ                                                                                                                  \
    ARGUMENTS                                                                                                                    \
    "local p, t = 'sk:' .. worker .. ':1:a', redis.call('TIME') local at = t[1] .. string.format('.%06d', t[2]) "                \
    "local function beat(work) redis.call('DEL', p .. ':work') "                                                                 \
    "if work then redis.call('HSET', p .. ':work', 't1', cjson.encode({queue = q, payload = work, run_at = t[1] * 1})) "         \
    "redis.call('PEXPIRE', p .. ':work', 42000) end redis.call('SADD', 'sk:processes', worker .. ':1:a') "                       \
    "redis.call('HSET', p, 'beat', at, 'info', '{}', 'rtt_us', 1, 'busy', work and 1 or 0) "                                     \
    "redis.call('PEXPIRE', p, 42000) end "
#define SIDEKIQ_JOB "'{\"class\":\"Mail\",\"args\":[],\"queue\":\"' .. q .. '\",\"jid\":\"j' .. h .. '\",\"created_at\":' .. at "

#define GROUP       "redis.pcall('XGROUP', 'CREATE', q, 'workers', '0', 'MKSTREAM') "
#define ENTRY       "local entry = string.match(h, '^%S+') "

const chaos_queue_t chaos_queues[CHAOS_QUEUES] = {
    {.name = "beat", .settings = ROLES PROTECTED HEARTBEAT("beat") "id_path = \"/id\"; retry_window = \"3650d\"; ", LIST_SCRIPTS},
    {.name = "plain",
     .settings = ROLES PROTECTED HEARTBEAT(
         "plain") "id_path = \"/id\"; retry_window = \"30m\"; retry_backoff = \"fixed\"; retry_delay = \"200ms\"; "
                  "alive_timeout = \"5m\"; ",
     LIST_SCRIPTS,
     .forgets = true},
    {.name = "task",
     .settings =
         MONITOR PROTECTED HEARTBEAT("task") "dialect = \"kmqueue\"; queues = [\"task:safe\"]; backup = \"task:backup\"; ",
     .add = ARGUMENTS
     "if redis.call('SADD', q .. '_unique', 'j' .. h) == 0 then return 0 end return redis.call('LPUSH', q, "
     "'{\"data\":\"d\",\"id\":\"j' .. h .. '\",\"queue\":\"task\",\"taskStatus\":{\"excTimestamp\":0,\"genTimestamp\":' "
     ".. now .. ',\"retry\":0,\"state\":\"normal\"},\"type\":\"t\",\"unique\":true}')",
     .take = ARGUMENTS "local task = redis.call('RPOP', q) if not task then return false end "
                       "task = string.gsub(task, '\"excTimestamp\":%d+', '\"excTimestamp\":' .. now) "
                       "redis.call('LPUSH', q .. ':backup', task) return task",
     .finish = ARGUMENTS REST "redis.call('SREM', q .. '_unique', id) return redis.call('LREM', q .. ':backup', 0, h)",
     .beat = BEAT,
     .left = ARGUMENTS ENTRIES "return redis.call('LLEN', q) + entries(q .. ':backup')",
     .times_out = true,
     .counts = true,
     .apart = 2},
    {.name = "fight",
     .settings = MONITOR PROTECTED "dialect = \"private_queues\"; main = \"fight\"; private = \"own-*\"; id_path = \"/id\"; "
                                   "retry_window = \"30m\"; ",
     .add = ARGUMENTS JOB "return redis.call('LPUSH', q, job)",
     .take = ARGUMENTS "return redis.call('LMOVE', q, 'own-' .. worker, 'RIGHT', 'LEFT')",
     .finish = ARGUMENTS "return redis.call('LREM', 'own-' .. worker, 1, h)",
     .left = ARGUMENTS "local n = redis.call('LLEN', q) "
                       "for _, key in ipairs(redis.call('KEYS', 'own-*')) do n = n + redis.call('LLEN', key) end return n",
     .times_out = true,
     .counts = true,
     .forgets = true},
    {.name = "video",
     .settings = ROLES "dialect = \"bull\"; stalled_interval = \"1s\"; max_stalled = 3; ",
     .add =
         BULL "redis.call('HSET', b .. 'j' .. h, 'name', '__default__', 'data', '{}', 'opts', '{\"attempts\":2}', 'timestamp', "
              "string.format('%.0f', ms), 'delay', '0', 'priority', '0') "
              "if text == '' then return redis.call('LPUSH', b .. 'wait', 'j' .. h) end "
              "return redis.call('ZADD', b .. 'delayed', string.format('%.0f', text * 4096), 'j' .. h)",
     .take = BULL "local job = redis.call('RPOPLPUSH', b .. 'wait', b .. 'active') if not job then return false end "
                  "if redis.call('EXISTS', b .. job .. ':lock') == 1 then return 'locked ' .. job end "
                  "redis.call('SET', b .. job .. ':lock', worker, 'PX', 1500) "
                  "redis.call('HSET', b .. job, 'processedOn', string.format('%.0f', ms)) return job",
     .finish = BULL BULL_OWN "redis.call('ZADD', b .. 'completed', string.format('%.0f', ms), h) return 1",
     .report = BULL BULL_OWN "local at = string.format('%.0f', ms) "
                             "if redis.call('HINCRBY', b .. h, 'attemptsMade', 1) < 2 and text ~= '!' then redis.call('LPUSH', b "
                             ".. 'wait', h) return 1 end "
                             "redis.call('HSET', b .. h, 'failedReason', 'boom', 'stacktrace', '[]', 'finishedOn', at) "
                             "redis.call('ZADD', b .. 'failed', at, h) "
                             "redis.call('PUBLISH', b .. 'failed', '{\"jobId\":\"' .. h .. '\",\"val\":\"boom\"}') return 1",
     .beat = BULL "if redis.call('GET', b .. h .. ':lock') ~= worker then return 0 end "
                  "redis.call('SET', b .. h .. ':lock', worker, 'PX', 1500) redis.call('SREM', b .. 'stalled', h) return 1",
     .left =
         BULL "return redis.call('LLEN', b .. 'wait') + redis.call('LLEN', b .. 'active') + redis.call('ZCARD', b .. 'delayed')",
     .storm =
         "local b = 'bull:' .. ARGV[1] .. ':' for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do redis.call('HSET', b .. 'j' .. "
         "i, 'name', '__default__', 'data', '{}', 'opts', '{\"attempts\":2}', 'timestamp', ARGV[4], 'delay', '0', "
         "'priority', '0') if i % 2 == 0 then redis.call('LPUSH', b .. 'active', 'j' .. i) else redis.call('ZADD', b .. "
         "'delayed', string.format('%.0f', ARGV[4] * 4096), 'j' .. i) end end return 1",
     .has_delays = true,
     .is_bull = true},
    {.name = "photo",
     .settings = ROLES "dialect = \"bullmq\"; stalled_interval = \"1s\"; max_stalled = 3; ",
     .add = BULL "redis.call('HSET', b .. 'meta', 'version', 'bullmq:6.7.0') "
                 "redis.call('HSET', b .. 'j' .. h, 'name', 'n', 'data', '{}', 'opts', '{\"attempts\":2}', 'timestamp', "
                 "string.format('%.0f', ms), 'delay', '0', 'priority', h % 3) "
                 "if text == '' then return redis.call('LPUSH', b .. 'wait', 'j' .. h) end "
                 "return redis.call('ZADD', b .. 'delayed', string.format('%.0f', text * 4096), 'j' .. h)",
     .take =
         BULL "local job = redis.call('RPOPLPUSH', b .. 'wait', b .. 'active') "
              "if not job then job = redis.call('ZPOPMIN', b .. 'prioritized')[1] "
              "if not job then return false end redis.call('LPUSH', b .. 'active', job) end "
              "if redis.call('EXISTS', b .. job .. ':lock') == 1 then return 'locked ' .. job end "
              "local defa, at, h = redis.call('HGET', b .. job, 'defa'), string.format('%.0f', ms), job "
              "if defa then redis.call('LREM', b .. 'active', -1, h) redis.call('HDEL', b .. h, 'defa') " BULLMQ_FAIL(
                  "defa") "return false end "
                          "redis.call('SET', b .. job .. ':lock', worker, 'PX', 1500) "
                          "redis.call('HINCRBY', b .. job, 'ats', 1) redis.call('HSET', b .. job, 'processedOn', at) return job",
     .finish = BULL BULL_OWN "redis.call('ZADD', b .. 'completed', string.format('%.0f', ms), h) return 1",
     .report = BULL BULL_OWN "local at = string.format('%.0f', ms) "
                             "if redis.call('HINCRBY', b .. h, 'atm', 1) < 2 and text ~= '!' then redis.call('LPUSH', b "
                             ".. 'wait', h) return 1 end " BULLMQ_FAIL("'boom'") "return 1",
     .beat = BULL "if redis.call('GET', b .. h .. ':lock') ~= worker then return 0 end "
                  "redis.call('SET', b .. h .. ':lock', worker, 'PX', 1500) redis.call('SREM', b .. 'stalled', h) return 1",
     .left = BULL "return redis.call('LLEN', b .. 'wait') + redis.call('LLEN', b .. 'active') + redis.call('ZCARD', b .. "
                  "'delayed') + redis.call('ZCARD', b .. 'prioritized')",
     .storm =
         "local b = 'bull:' .. ARGV[1] .. ':' for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do redis.call('HSET', b .. 'j' .. "
         "i, 'name', 'n', 'data', '{}', 'opts', '{\"attempts\":2}', 'timestamp', ARGV[4], 'delay', '0', "
         "'priority', '0') if i % 2 == 0 then redis.call('LPUSH', b .. 'active', 'j' .. i) else redis.call('ZADD', b .. "
         "'delayed', string.format('%.0f', ARGV[4] * 4096), 'j' .. i) end end return 1",
     .has_delays = true,
     .is_bull = true},
    {.name = "mailer",
     .settings =
         ROLES "dialect = \"sidekiq\"; queues = [\"mailer\"]; prefix = \"sk:\"; dead_after = \"20s\"; min_run = \"0s\"; }, "
               "{ name = \"mailer-retry\"; dialect = \"sidekiq\"; queues = [\"mailer\"]; prefix = \"sk:\"; "
               "set = \"retry\"; roles = [\"dispatcher\"]; ",
     .add = SIDEKIQ "redis.call('SADD', 'sk:queues', q) local job = " SIDEKIQ_JOB
                    "if text ~= '' then return redis.call('ZADD', 'sk:schedule', text / 1000, job .. '}') end "
                    "return redis.call('LPUSH', 'sk:queue:' .. q, job .. ',\"enqueued_at\":' .. at .. '}')",
     .take = SIDEKIQ "local job = redis.call('RPOP', 'sk:queue:' .. q) if not job then return false end beat(job) return job",
     .finish = SIDEKIQ "beat(nil) return 1",
     .report = SIDEKIQ
     "local job = cjson.decode(h) job.retry_count = (job.retry_count or -1) + 1 job.error_class, job.error_message = 'E', text "
     "job.failed_at = tonumber(at) "
     "if job.retry_count < 1 and text ~= '!never' then redis.call('ZADD', 'sk:retry', t[1] + 0.5, cjson.encode(job)) "
     "else redis.call('ZADD', 'sk:dead', at, cjson.encode(job)) end beat(nil) return 1",
     .beat = SIDEKIQ "local old = redis.call('HGET', p .. ':work', 't1') beat(h) "
                     "return old and cjson.decode(old).payload == h and 1 or 0",
     .left = "local q = ARGV[1] local n = redis.call('LLEN', 'sk:queue:' .. q) + redis.call('ZCARD', 'sk:schedule') + "
             "redis.call('ZCARD', 'sk:retry') for _, p in ipairs(redis.call('SMEMBERS', 'sk:processes')) do "
             "n = n + redis.call('HLEN', 'sk:' .. p .. ':work') end return n",
     .storm =
         "local q, worker, at = ARGV[1], 'storm' .. ARGV[2] .. ':1:a', ARGV[4] / 1000 "
         "for h = tonumber(ARGV[2]), tonumber(ARGV[3]) do local job = " SIDEKIQ_JOB ".. '}' "
         "if h % 2 == 0 then redis.call('HSET', 'sk:' .. worker .. ':work', 't' .. h, "
         "cjson.encode({queue = q, payload = job, run_at = 1})) "
         "else redis.call('ZADD', 'sk:schedule', at, job) end end "
         "redis.call('SADD', 'sk:processes', worker) redis.call('HSET', 'sk:' .. worker, 'beat', at, 'rtt_us', 1, 'info', '{}') "
         "redis.call('PEXPIRE', 'sk:' .. worker, 42000) redis.call('PEXPIRE', 'sk:' .. worker .. ':work', 42000) return 1",
     .times_out = true,
     .has_delays = true,
     .repeats = true},
    {.name = "event",
     .settings = ROLES "dialect = \"delayed_queue\"; prefix = \"de_\"; types = [\"a.Event\"]; retry_attempts = 4; "
                       "delays = [\"*: 1s\"]; ",
     .add = ARGUMENTS "local t, member = redis.call('TIME'), 'a.Event###j' .. h "
                      "redis.call('HSET', 'de_events', member, '{\"payload\":{\"id\":\"j' .. h .. "
                      "'\"},\"type\":\"a.Event\",\"attempt\":1,\"logContext\":{}}') "
                      "return redis.call('ZADD', 'de_delayed_events', 'NX', text ~= '' and text or t[1] * 1000, member)",
     .take = ARGUMENTS "return redis.call('RPOP', 'de_event')",
     .finish = ARGUMENTS "redis.call('ZREM', 'de_delayed_events', 'a.Event###' .. id) "
                         "return redis.call('HDEL', 'de_events', 'a.Event###' .. id)",
     .left = ARGUMENTS "return redis.call('HLEN', 'de_events') + redis.call('LLEN', 'de_event')",
     .counts = true,
     .has_delays = true,
     .is_event = true},
    {.name = "flow",
     .settings = ROLES PROTECTED "dialect = \"stream\"; group = \"workers\"; id_path = \"/id\"; retry_window = \"3650d\"; ",
     .add = ARGUMENTS JOB GROUP "if text == '' then redis.call('XADD', q, '*', 'data', job) return 1 end "
                                "return redis.call('ZADD', q .. ':delayed', text, job)",
     .take = ARGUMENTS GROUP "local got = redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', 1, 'STREAMS', q, '>') "
                             "if not got then return false end local entry = got[1][2][1] return entry[1] .. ' ' .. entry[2][2]",
     .finish = ARGUMENTS ENTRY "local done = redis.call('XACK', q, 'workers', entry) redis.call('XDEL', q, entry) return done",
     .report = ARGUMENTS ENTRY "redis.call('HSET', q .. ':errors', entry, text) "
                               "return #redis.call('XPENDING', q, 'workers', entry, entry, 1, worker)",
     .left = ARGUMENTS "return redis.call('XLEN', q) + redis.call('ZCARD', q .. ':delayed') + redis.call('HLEN', q .. ':errors')",
     .storm =
         "local q = ARGV[1] " GROUP "for i = tonumber(ARGV[2]), tonumber(ARGV[3]) do local job = '{\"id\":\"j' .. i .. '\"}' "
         "if i % 2 == 0 then redis.call('XADD', q, '*', 'data', job) "
         "else redis.call('ZADD', q .. ':delayed', ARGV[4], job) end end "
         "redis.call('XREADGROUP', 'GROUP', 'workers', 'storm', 'COUNT', 100000, 'STREAMS', q, '>') return 1",
     .times_out = true,
     .counts = true,
     .has_delays = true},
};
