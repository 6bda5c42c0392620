# puma rack.ru: Rack alone, then Sinatra or Rails by APP.
require "json"
require "rack"

module Saw
  def self.of(q)
    JSON.generate({ "saw" => true, "id" => q["id"], "topic_id" => q["topic_id"] })
  rescue JSON::GeneratorError, Encoding::UndefinedConversionError
    JSON.generate({ "saw" => true, "id" => nil, "topic_id" => nil })
  end
end

case ENV["APP"]
when "sinatra"
  require "sinatra/base"
  class Topic < Sinatra::Base
    set :environment, :production
    get("/topic") { Saw.of(params) }
    post("/topic") { Saw.of(params) }
  end
  run Topic
when "rails"
  require "action_controller/railtie"
  class TopicController < ActionController::API
    def show = render(plain: Saw.of(params))
  end
  class App < Rails::Application
    config.eager_load = false
    config.secret_key_base = "none"
    config.hosts.clear
    config.logger = Logger.new(File::NULL)
    routes.append { get "/topic", to: "topic#show" }
  end
  App.initialize!
  run App
else
  run(lambda do |env|
    r = Rack::Request.new(env)
    next [404, {}, []] unless r.path_info == "/topic"
    [200, { "Content-Type" => "application/json" }, [Saw.of(r.params)]]
  rescue Rack::QueryParser::InvalidParameterError, Rack::QueryParser::ParameterTypeError
    [400, {}, []]
  end)
end
