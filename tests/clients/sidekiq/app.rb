# Jobs of the tests (tests/clients/README.md), for Sidekiq 6.4 of Debian 12 and 7.3 of Debian 13. Sidekiq loads this file: sidekiq -r
require "sidekiq"
require "logger"
$stdout.sync = true

def say(word, key, detail = "-")
  $stdout.write("#{word} #{key} #{(Time.now.to_f * 1000).to_i} #{detail.to_s.gsub(/\s+/, " ")}\n")
end

def flag?(name)
  Sidekiq.redis { |c| c.get(name) }
end

class TestJob
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform(kind, number, _text)
    key = "#{kind}-#{number}"
    say("taken", key, jid)
    raise "poison #{number}" if kind == "poison"
    raise "flaky #{number}" if kind == "flaky" && Sidekiq.redis { |c| c.incr("tries:#{key}") } == 1
    sleep 0.05 until kind != "wait" || flag?("go")
    say("finished", key, jid)
  end
end

Sidekiq.configure_server do |config|
  log = Logger.new($stderr)
  config.respond_to?(:logger=) ? config.logger = log : Sidekiq.logger = log
  pace = ENV["POLL"].to_i
  target = config.respond_to?(:average_scheduled_poll_interval=) ? config : Sidekiq
  target.average_scheduled_poll_interval = pace if pace > 0
  config.on(:startup) { say("ready", "-", Process.pid) }
end
