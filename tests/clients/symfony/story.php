<?php
// Common code of worker and producer: the kinds of jobs and the lines that a test counts (tests/clients/README.md), and Symfony's own
// transport.
require_once 'Symfony/Component/Messenger/autoload.php';
require_once 'Symfony/Component/Messenger/Bridge/Redis/autoload.php';

use Symfony\Component\Messenger\Bridge\Redis\Transport\RedisTransportFactory;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

final class Job
{
    public function __construct(public string $text)
    {
    }
}

function say(string $word, string $key, string $detail = '-'): void
{
    fwrite(STDOUT, sprintf("%s %s %d %s\n", $word, $key, (int) (microtime(true) * 1000), preg_replace('/\s+/', ' ', $detail)));
}

function key_of(string $text): string
{
    return implode('-', array_slice(explode(' ', $text), 0, 2));
}

function handle(string $text): void
{
    $kind = explode(' ', $text)[0];
    if ('die' === $kind && false !== @fopen('seen-'.key_of($text), 'x')) {
        posix_kill(getmypid(), SIGKILL);
    }
    while ('wait' === $kind && !file_exists('go')) {
        usleep(10000);
        clearstatcache();
    }
}

function transport(string $consumer)
{
    $dsn = getenv('REDIS_URL').'/messages/symfony/'.$consumer;
    $options = ['delete_after_ack' => true, 'redeliver_timeout' => 3600];

    return (new RedisTransportFactory())->createTransport($dsn, $options, new PhpSerializer());
}
