// SPDX-License-Identifier: Apache-2.0
// The least TAP: a list of named cases, run in order; a failure says why and the next one runs.
import { inspect } from 'node:util'

const cases = []

export function test(name, fn, seconds = 60) {
  cases.push({ name, fn, seconds })
}

function within(promise, seconds) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${seconds} s`)), seconds * 1000)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

export async function run() {
  const only = process.env.TOUR_ONLY
  const chosen = cases.filter((c) => !only || c.name.includes(only))
  let failed = 0
  console.log(`1..${chosen.length}`)
  for (const [i, c] of chosen.entries()) {
    try {
      await within(c.fn(), c.seconds)
      console.log(`ok ${i + 1} - ${c.name}`)
    } catch (e) {
      failed += 1
      for (const line of inspect(e).split('\n').slice(0, 14)) console.log(`  # ${line}`)
      console.log(`not ok ${i + 1} - ${c.name}`)
    }
  }
  return failed
}

// Wait until probe() is true; what it waits for is announced to nobody.
export async function until(probe, seconds = 10) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    if (await probe()) return
    if (Date.now() > end) throw new Error(`not true within ${seconds} s: ${probe}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
