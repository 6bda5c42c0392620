<?php
// php -S: a router script. With FPM nginx has routed already.
if ($_SERVER['REQUEST_URI'] === '/login') {
    http_response_code(in_array($_SERVER['REQUEST_METHOD'], ['GET', 'POST'], true) ? 200 : 405);
    header('Content-Type: application/json');
    echo json_encode(
        ['saw' => true, 'method' => $_SERVER['REQUEST_METHOD'], 'host' => $_SERVER['HTTP_HOST'] ?? null,
            'account' => $_SERVER['HTTP_X_ACCOUNT'] ?? null],
        JSON_INVALID_UTF8_SUBSTITUTE
    );
    return;
}
$id = $_GET['id'] ?? null;
if (PHP_SAPI === 'cli-server') {
    $path = array_map('urldecode', explode('/', parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) ?: ''));
    if (count($path) === 4 && $path[0] === '' && $path[1] === 'articles' && $path[2] !== '' && $path[3] !== '') {
        $id = $path[2];
    } elseif ($path !== ['', 'topic']) {
        http_response_code(404);
        return;
    }
}
header('Content-Type: application/json');
echo json_encode(
    ['saw' => true, 'id' => $id, 'topic_id' => $_GET['topic_id'] ?? null],
    JSON_INVALID_UTF8_SUBSTITUTE
);
