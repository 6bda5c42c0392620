SECRET_KEY = "test"
ALLOWED_HOSTS = ["*"]
WHISPER_DIR = "/opt/graphite/storage/whisper"
STORAGE_DIR = "/opt/graphite/storage"
LOG_DIR = "/opt/graphite/storage/log"
INDEX_FILE = "/opt/graphite/storage/index"
CARBONLINK_HOSTS = ["127.0.0.1:7002"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "/opt/graphite/storage/graphite.db"}}
