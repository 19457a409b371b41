# retry.rb KIND NUMBER: retries the dead job with these arguments, as the Web UI does.
require_relative "app"
require "sidekiq/api"
Sidekiq::DeadSet.new.each { |job| job.retry if job.args[0] == ARGV.fetch(0) && job.args[1] == ARGV.fetch(1).to_i }
