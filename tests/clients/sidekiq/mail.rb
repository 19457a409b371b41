# mail.rb: pushes a job of the worker in docs/dialects/sidekiq.md for each line "DELAY KIND NUMBER".
require_relative "worker"
$stdin.each_line(chomp: true) do |line|
  delay, text = line.split(" ", 2)
  delay.to_i > 0 ? Mail.perform_in(delay.to_i / 1000.0, text) : Mail.perform_async(text)
end
