// The view "Config": what is in effect, and where it came from.
import {get} from './api.js';
import {h, heading, none, plural, table} from './dom.js';

const configTable = (items, caption) => table(caption, [
    {title: 'Key', cell: (i) => h('code', i.key)},
    {title: 'Value', kind: 'wide', cell: (i) => h('code', String(i.value))},
    {title: 'From', kind: 'name long', cell: (i) => i.from},
], items, {key: (i) => i.key, header: 0});

// Values that somebody has set come first; defaults are folded.
function configTables(items, caption) {
    const [set, defaults] = [false, true].map((is) => items.filter((i) => (i.from === 'default') === is));
    return [set.length > 0 && configTable(set, caption),
        defaults.length > 0 && h('details', {'data-key': 'defaults'}, h('summary', plural(defaults.length, 'default')), configTable(defaults, 'Defaults'))];
}

export function configOfQueue(items, queue) {
    const prefix = `queues.${queue}.`;
    const own = items.filter((i) => i.key.startsWith(prefix)).map((i) => ({...i, key: i.key.slice(prefix.length)}));
    return own.length ? configTables(own, 'Config of the queue') : none('Nothing is set for this queue.');
}

export const config = {
    title: () => 'Config',
    right: 'look',
    load: (route, signal) => get('config', null, signal),
    show: (data) => [heading('Config'), h('p', 'In effect on this instance. Secrets are hidden.'), configTables(data.items, 'Config in effect')],
};
