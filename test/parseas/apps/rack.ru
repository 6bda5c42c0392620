# puma rack.ru: Rack alone, then Sinatra or Rails by APP.
require "json"
require "rack"

module Saw
  def self.of(q)
    JSON.generate({ "saw" => true, "id" => q["id"], "topic_id" => q["topic_id"] })
  rescue JSON::GeneratorError, Encoding::UndefinedConversionError
    JSON.generate({ "saw" => true, "id" => nil, "topic_id" => nil })
  end

  def self.login(method, host, account)
    text = [method, host, account].map { |s| s&.dup&.force_encoding("UTF-8")&.scrub }
    JSON.generate({ "saw" => true, "method" => text[0], "host" => text[1], "account" => text[2] })
  end
end

case ENV["APP"]
when "sinatra"
  require "sinatra/base"
  class Topic < Sinatra::Base
    set :environment, :production
    get("/topic") { Saw.of(params) }
    post("/topic") { Saw.of(params) }
    login = proc { Saw.login(request.request_method, request.host, request.env["HTTP_X_ACCOUNT"]) }
    get("/login", &login)
    post("/login", &login)
  end
  run Topic
when "rails"
  require "action_controller/railtie"
  class TopicController < ActionController::API
    def show = render(plain: Saw.of(params))

    def login = render(plain: Saw.login(request.request_method, request.host, request.headers["X-Account"]))
  end
  class App < Rails::Application
    config.eager_load = false
    config.secret_key_base = "none"
    config.hosts.clear
    config.logger = Logger.new(File::NULL)
    routes.append do
      get "/topic", to: "topic#show"
      match "/login", to: "topic#login", via: %i[get post]
    end
  end
  App.initialize!
  run App
else
  run(lambda do |env|
    r = Rack::Request.new(env)
    if r.path_info == "/login"
      next [405, {}, []] unless r.get? || r.post?
      next [200, {}, [Saw.login(r.request_method, r.host, env["HTTP_X_ACCOUNT"])]]
    end
    next [404, {}, []] unless r.path_info == "/topic"
    [200, { "Content-Type" => "application/json" }, [Saw.of(r.params)]]
  rescue Rack::QueryParser::InvalidParameterError, Rack::QueryParser::ParameterTypeError
    [400, {}, []]
  end)
end
