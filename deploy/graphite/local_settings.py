# What graphite-web needs beside its defaults; into /etc/graphite/local_settings.py.

CARBONLINK_HOSTS = ["127.0.0.1:7002"]  # CACHE_QUERY_PORT of carbon.conf
CARBONLINK_TIMEOUT = 1.0
LOG_INFO_PERFORMANCE = False
LOG_RENDERING_PERFORMANCE = False
LOG_CACHE_PERFORMANCE = False
