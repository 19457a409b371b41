// Addresses: what is shown is behind the #, so that a filter reaches no log of a server.
import {h} from './dom.js';

// ['queue', 'email'], {state: 'ready'} -> #/queue/email?state=ready
export function address(path, filters = {}) {
    const query = new URLSearchParams(Object.entries(filters).filter(([, v]) => v != null && v !== '')).toString();
    return `#/${path.map(encodeURIComponent).join('/')}${query && '?' + query}`;
}

export function link(path, filters, text, current) {
    return h('a', {href: address(path, filters), 'aria-current': current ? 'page' : null}, text);
}

export function parse(hash) {
    const [path, query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
    const [name, ...arg] = path.split('/').map((part) => {
        try {
            return decodeURIComponent(part);
        } catch {
            return part;
        }
    });
    const search = new URLSearchParams(query);
    return {name: name || 'queues', arg: arg.join('/'), query: search, filters: Object.fromEntries(search), hash};
}
