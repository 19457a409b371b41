// Questions to the API. The token is in sessionStorage: no cookie, so no other site can use it.

const TIMEOUT_MS = 30000;

export const token = {
    get: () => sessionStorage.getItem('token'),
    set: (text) => sessionStorage.setItem('token', text),
    drop: () => sessionStorage.removeItem('token'),
};

// An answer that is none. `status` 0: nobody has answered.
export class Problem extends Error {
    constructor(status, body, wait) {
        super(body.detail || body.title || `the sidecar answers ${status}`);
        Object.assign(this, {status, nearest: body.nearest, candidates: body.candidates, wait});
    }

    // Whether to request again: the sidecar, its log or Redis is away, or has too much to do.
    get passes() {
        return this.status === 0 || this.status === 429 || this.status >= 500;
    }
}

async function apiSend(path, {query, body, method, signal} = {}) {
    const headers = {};
    if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
    if (body) headers['Content-Type'] = 'application/json';
    const search = query ? new URLSearchParams(query).toString() : '';
    const limit = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(`api/v1/${path}${search && '?' + search}`, {
        method: method || (body ? 'POST' : 'GET'), headers, cache: 'no-store', redirect: 'error',
        body: body && JSON.stringify(body), signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    throw new Problem(response.status, problem, Number(response.headers.get('Retry-After')) || 0);
}

async function request(path, options, read) {
    try {
        return await read(await apiSend(path, options));
    } catch (error) {
        if (error instanceof Problem || options?.signal?.aborted) throw error;
        throw new Problem(0, {detail: 'the sidecar does not answer'}, 0);
    }
}

export const get = (path, query, signal) => request(path, {query, signal}, (r) => r.json());
export const post = (path, body) => request(path, {body}, (r) => r.json());
export const drop = (path) => request(path, {method: 'DELETE'}, (r) => r.json());
export const blob = (path) => request(path, {}, (r) => r.blob());

// For a part of a view: where it is refused, the others stay.
export const part = (promise) => promise.catch((problem) => {
    if (!problem.status || problem.status === 401) throw problem;
    return {problem};
});
