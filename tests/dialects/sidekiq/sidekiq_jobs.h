/* Jobs as Sidekiq writes them: the bytes of 6.4 and 7.3 come from the packages of Debian 12 and 13, those of 8.1 follow its
 * sources (lib/sidekiq/client.rb, job_util.rb, job_retry.rb of v8.1.7). */
#pragma once

#define JOB_6(jid, more)                                                                                                         \
    "{\"retry\":0,\"queue\":\"default\",\"args\":[\"caf\xc3\xa9 \\\"q\\\" \\\\\",12345678901234567890,{\"queue\":\"x\"}],"       \
    "\"class\":\"Mail\",\"jid\":\"" jid "\",\"created_at\":1700000000.1234567,\"enqueued_at\":1700000000.2345678" more "}"
#define JOB_8(jid, more)                                                                                                         \
    "{\"retry\":true,\"queue\":\"mailers\",\"wrapped\":\"WelcomeMail\",\"args\":[{\"enqueued_at\":\"2023\"}],"                   \
    "\"class\":\"Sidekiq::ActiveJob::Wrapper\",\"jid\":\"" jid                                                                   \
    "\",\"created_at\":1700000000123,\"enqueued_at\":1700000000234" more "}"
#define FAILED(count, at)                                                                                                        \
    ",\"error_message\":\"boom \\u00e9\",\"error_class\":\"RuntimeError\",\"failed_at\":" at ",\"retry_count\":" count
