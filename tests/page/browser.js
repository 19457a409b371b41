// A Chromium that looks at the page, and notes what a hostile text might do to it.
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const puppeteer = require('puppeteer-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const SHOTS = path.resolve(__dirname, '../../build/page');
const WIDE = {width: 1280, height: 900};
const PHONE = {width: 360, height: 740, isMobile: true, hasTouch: true};
const ZOOMED = {width: 640, height: 450, deviceScaleFactor: 2}; // a window of 1280 px at 200 %

// `hosts`: names that stand for this machine.
const launch = (hosts = []) => puppeteer.launch({
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    // Root may not use the sandbox, and in a container the shared memory is small.
    args: ['--no-sandbox', '--disable-dev-shm-usage', `--host-resolver-rules=${hosts.map((h) => `MAP ${h} 127.0.0.1`).join(',')}`],
});

class Viewer {
    static async open(browser, url, {token, view = WIDE, dark = false, hasty} = {}) {
        const viewer = new Viewer();
        const context = await browser.createBrowserContext();
        const page = (viewer.page = await context.newPage());
        Object.assign(viewer, {context, url, seen: [], requests: []});
        page.setDefaultTimeout(60000);
        await page.setViewport(view);
        await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]);
        page.on('dialog', (dialog) => { viewer.seen.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
        page.on('pageerror', (error) => viewer.seen.push(`error: ${error.stack}`));
        page.on('console', (m) => { if (/Content Security|Trusted|Refused/i.test(m.text())) viewer.seen.push(m.text()); });
        page.on('request', (request) => {
            viewer.requests.push({at: Date.now(), url: request.url(), method: request.method()});
            if (!request.url().startsWith(url) && !request.url().startsWith('blob:')) viewer.seen.push(`request: ${request.url()}`);
        });
        await page.evaluateOnNewDocument((t, wait) => {
            // A timer of `hasty` ms, such as that of the refresh, comes sooner, and is counted.
            const later = window.setTimeout;
            window.turns = 0;
            if (wait) window.setTimeout = (f, ms, ...rest) => later(() => { window.turns += ms === wait; f(); }, ms === wait ? 200 : ms, ...rest);
            addEventListener('securitypolicyviolation', (e) => console.error(`Content Security Policy: ${e.violatedDirective} ${e.sample}`));
            if (t && location.protocol === 'http:' && !sessionStorage.getItem('token')) sessionStorage.setItem('token', t);
        }, token, hasty);
        return viewer;
    }

    // Answers requests in place of the sidecar: `make` gets the address and returns the JSON, that of a problem, or null: the sidecar answers.
    async answer(pattern, make) {
        if (!this.answers) {
            this.answers = [];
            await this.page.setRequestInterception(true);
            this.page.on('request', async (request) => {
                const [, of] = this.answers.find(([p]) => p.test(request.url())) || [];
                const answer = of && await of(new URL(request.url()));
                if (answer) request.respond({status: answer.status || 200, contentType: 'application/json', body: JSON.stringify(answer)});
                else request.continue();
            });
        }
        this.answers.push([pattern, make]);
    }

    // Goes to a view and waits until it is shown.
    async go(hash) {
        await this.page.goto('about:blank');
        await this.page.goto(this.url + hash);
        await this.shown();
    }

    shown() {
        return this.page.waitForSelector('main:not([aria-busy]) h1');
    }

    text(selector = 'main') {
        return this.page.$eval(selector, (node) => node.innerText);
    }

    // Waits until a text is in the page.
    async reads(text, selector = 'body') {
        const source = text instanceof RegExp ? text.source : text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
        await this.page.waitForFunction((s, sel) => new RegExp(s).test(document.querySelector(sel)?.innerText || ''), {}, source, selector).catch(async () => {
            assert.fail(`the page does not say ${text}; it says: ${await this.text('body')}`);
        });
    }

    // Presses the button or link with this text.
    async press(text, within = 'body') {
        const find = (t, sel) => [...document.querySelectorAll(`${sel} :is(button, a, summary)`)].find((e) => e.textContent.trim() === t && !e.disabled);
        const handle = await this.page.waitForFunction(find, {}, text, within);
        await handle.asElement().click();
    }

    async fill(label, text, within = 'body') {
        const handle = await this.page.waitForFunction((t, sel) => [...document.querySelectorAll(`${sel} label`)].find((l) => !l.hidden && l.textContent.trim().startsWith(t))?.querySelector('input, select'), {}, label, within);
        if (await handle.evaluate((node) => node.nodeName === 'SELECT')) await handle.select(text);
        else await handle.asElement().type(text);
    }

    // The page's own token asks the API.
    api(route, options = {}) {
        return this.page.evaluate(async (r, o) => {
            const headers = {Authorization: `Bearer ${sessionStorage.getItem('token')}`, ...o.headers};
            const response = await fetch(`api/v1/${r}`, {...o, headers});
            return {status: response.status, body: await response.json().catch(() => null)};
        }, route, options);
    }

    async shot(name) {
        fs.mkdirSync(SHOTS, {recursive: true});
        await this.page.screenshot({path: path.join(SHOTS, `${name}.png`), fullPage: true});
    }

    // The findings of axe-core, as texts. The page's policy forbids scripts that are not its own, and not those of the debugger.
    async axe() {
        const session = await this.page.createCDPSession();
        await session.send('Runtime.evaluate', {expression: axe});
        const found = await this.page.evaluate(() => window.axe.run());
        await session.detach();
        return found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(' ')}`);
    }

    // The elements that make the page wider than its window.
    wide() {
        return this.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
            .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)));
    }

    // No dialog, no error of a script, no request to another place, no report of the policy.
    quiet() {
        assert.deepStrictEqual(this.seen, []);
    }

    async close() {
        await this.context.close();
    }
}

module.exports = {launch, Viewer, WIDE, PHONE, ZOOMED};
