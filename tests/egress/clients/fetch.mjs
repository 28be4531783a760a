// SPDX-License-Identifier: Apache-2.0
// fetch.mjs URL: the body on standard output; status 1 and the body for anything but 2xx.
const r = await fetch(process.argv[2]);
console.log(await r.text());
process.exitCode = r.ok ? 0 : 1;
