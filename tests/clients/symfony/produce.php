<?php
// produce.php: sends the jobs of stdin, lines "DELAY_MS KIND NUMBER TEXT".
require __DIR__.'/story.php';

use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\DelayStamp;

$transport = transport('producer');
$transport->setup();
while (false !== $line = fgets(STDIN)) {
    [$delay, $text] = explode(' ', rtrim($line, "\n"), 2);
    $transport->send(new Envelope(new Job($text), $delay > 0 ? [new DelayStamp((int) $delay)] : []));
    say('produced', key_of($text));
}
