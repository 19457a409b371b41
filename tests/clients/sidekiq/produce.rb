# produce.rb QUEUE: pushes a job for each line "DELAY KIND NUMBER TEXT". RETRY in the environment is the option retry.
require_relative "app"
$stdin.set_encoding("UTF-8")
$stdin.each_line(chomp: true) do |line|
  delay, kind, number, text = line.split(" ", 4)
  item = {"class" => TestJob, "args" => [kind, number.to_i, text], "queue" => ARGV.fetch(0), "retry" => ENV.fetch("RETRY", "0").to_i}
  item["at"] = Time.now.to_f + delay.to_i / 1000.0 if delay.to_i > 0
  Sidekiq::Client.push(item)
end
