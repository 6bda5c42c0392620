<?php
// php -S: a router script. With FPM nginx has routed already.
if (PHP_SAPI === 'cli-server' && urldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) ?? '') !== '/topic') {
    http_response_code(404);
    return;
}
header('Content-Type: application/json');
echo json_encode(
    ['saw' => true, 'id' => $_GET['id'] ?? null, 'topic_id' => $_GET['topic_id'] ?? null],
    JSON_INVALID_UTF8_SUBSTITUTE
);
