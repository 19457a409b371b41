// The jobs of bull.js and bullmq.js: `count` jobs of 100 bytes, in pages. Both libraries take a delay, and add it to the timestamp.
const JOBS_PER_PAGE = 500;

function* delayedJobs(start, rate, count) {
  for (let first = 0; first < count; first += JOBS_PER_PAGE) {
    const timestamp = Date.now();
    const jobs = [];
    for (let i = first; i < Math.min(first + JOBS_PER_PAGE, count); i++) {
      const due = start + (rate ? Math.floor((i * 1000) / rate) : 0);
      jobs.push({ name: "job", data: { text: String(i).padStart(100, "0") }, opts: { timestamp, delay: due - timestamp } });
    }
    yield jobs;
  }
}

module.exports = { delayedJobs };
