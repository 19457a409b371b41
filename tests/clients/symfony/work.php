<?php
// work.php: gets messages as Symfony's Worker does, one at a time, until SIGTERM.
require __DIR__.'/story.php';

use Symfony\Component\Messenger\Exception\TransportException;

$stop = false;
pcntl_async_signals(true);
pcntl_signal(SIGTERM, function () use (&$stop) { $stop = true; });
$transport = transport('w'.getmypid());
$transport->setup();
say('ready', '-', (string) getmypid());
while (!$stop) {
    $found = false;
    foreach ($transport->get() as $envelope) {
        $found = true;
        $text = $envelope->getMessage()->text;
        say('taken', key_of($text));
        handle($text);
        say('done', key_of($text));
        try {
            $transport->ack($envelope);
        } catch (TransportException $late) {
            say('late', key_of($text), $late->getMessage()); // the sidecar has given it back meanwhile
        }
    }
    if (!$found) {
        usleep(50000);
    }
}
