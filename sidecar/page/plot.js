// Plots: SVG, each with its numbers as a table.
import {clock, h, minutes, number, svg, table} from './dom.js';

const WIDTH = 480, HEIGHT = 100;

// The highest of each bucket; null where nothing was written, because a gap is no zero.
function buckets(values, count) {
    const size = Math.max(1, Math.ceil(values.length / count));
    const out = [];
    for (let i = 0; i < values.length; i += size) {
        const known = values.slice(i, i + size).filter((v) => v != null);
        out.push(known.length ? Math.max(...known) : null);
    }
    return out;
}

function line(values, top, width, height) {
    const step = width / Math.max(1, values.length - 1);
    let path = '', pen = 'M';
    values.forEach((v, i) => {
        if (v != null) path += `${pen}${(i * step).toFixed(1)} ${(height - (v / top) * height).toFixed(1)}`;
        // A lone point is a line of no length, which round ends make visible.
        if (v != null && pen === 'M') path += 'h0';
        pen = v == null ? 'M' : 'L';
    });
    return path;
}

function bars(values, top, width, height) {
    const step = width / Math.max(1, values.length);
    return values.map((v, i) => (v ? `M${((i + 0.5) * step).toFixed(1)} ${height}V${(height - Math.max(2, (v / top) * height)).toFixed(1)}` : '')).join('');
}

const highest = (series) => Math.max(0, ...series.flatMap((s) => s.values.filter((v) => v != null)));

// `series`: {name, values, bars}. `at`: the time of each value.
export function plot(title, at, series, unit = '') {
    const drawn = series.map((s) => ({...s, values: buckets(s.values, WIDTH / 2)}));
    const top = highest(drawn);
    const rows = buckets(at.map((t) => Date.parse(t)), 96);
    const columns = series.map((s) => buckets(s.values, 96));
    const each = Math.round((Date.parse(at.at(-1)) - Date.parse(at[0])) / 60000 / Math.max(1, rows.length)) || 1;
    const cells = [{title: 'until', cell: (i) => minutes(rows[i])}, ...series.map((s, n) => ({title: s.name, kind: 'number', cell: (i) => number(columns[n][i])}))];
    const known = series.some((s) => s.values.some((v) => v != null));
    return h('figure.plot', {'data-key': title}, h('figcaption', h('b', title), series.length > 1 && h('span.legend', series.map((s, i) => h(`span.series${i}`, s.name)))),
        known ? [
            h('div.scale', h('span', `${number(top)}${unit}`), h('span', '0')),
            svg('svg', {viewBox: `0 -4 ${WIDTH} ${HEIGHT + 8}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: at most ${number(top)}${unit}`},
                svg('path', {class: 'base', d: `M0 ${HEIGHT}H${WIDTH}M0 0H${WIDTH}`}),
                drawn.map((s, i) => svg('path', {class: `series${i}`, d: (s.bars ? bars : line)(s.values, top || 1, WIDTH, HEIGHT)}))),
            h('div.ends', h('span', minutes(at[0])), h('span', clock(at.at(-1)).slice(0, 5))),
            h('details', h('summary', 'Numbers'), h('div.scroll', {tabindex: 0, role: 'region', 'aria-label': `${title}: numbers`},
                table(`${title}: the highest of each ${each} min`, cells, rows.map((_, i) => i).reverse()))),
        ] : h('p.none', 'Nothing was recorded yet.'));
}

// The last hour in a cell: ready jobs as a line, failures as bars.
export function sparkline(history) {
    const last = (values) => (values || []).slice(-60);
    const ready = last(history.ready), failures = last(history.failures);
    const most = highest([{values: ready}]), failed = failures.reduce((sum, n) => sum + (n || 0), 0);
    return svg('svg', {class: 'sparkline', viewBox: '0 -1 60 18', role: 'img', 'aria-label': `last hour: at most ${number(most)} ready, ${number(failed)} failures`},
        svg('path', {class: 'failures', d: bars(failures, highest([{values: failures}]) || 1, 60, 16)}),
        svg('path', {class: 'series0', d: line(ready, most || 1, 60, 16)}));
}
