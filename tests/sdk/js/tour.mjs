// SPDX-License-Identifier: Apache-2.0
// A tour of one JavaScript SDK against a server: node tour.mjs PACKAGE. Prints TAP.
// The packages are installed by tests/sdk/run, the server is named by the E2B_* variables.
import { run } from './tap.mjs'
import commands from './commands.mjs'
import files from './files.mjs'
import life from './life.mjs'
import pty from './pty.mjs'
import urls from './urls.mjs'
import watch from './watch.mjs'

const name = process.argv[2]
const sdk = await import(name)
const isOld = name !== 'e2b' // 2.7.0: what it has not yet is left out

// A command that is killed on purpose rejects a promise nobody waits for.
process.on('unhandledRejection', () => {})

const box = await sdk.Sandbox.create('base', { timeoutMs: 600_000, metadata: { tour: name } })
const ctx = { sdk, box, isOld }
for (const part of [commands, pty, files, watch, urls, life]) part(ctx)
const failed = await run()
await box.kill()
process.exit(failed ? 1 : 0)
