# The handler of the worker in docs/dialects/sidekiq.md. A text is "KIND NUMBER".
require_relative "app"

def handle(id, text)
  kind, number = text.split
  key = "#{kind}-#{number}"
  say("taken", key, id)
  sleep 0.05 until kind != "wait" || flag?("go")
  say("finished", key, id)
end
