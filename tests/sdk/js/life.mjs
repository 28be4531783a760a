// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict'
import { test, until } from './tap.mjs'

const unique = () => Math.random().toString(36).slice(2)

export default function life({ sdk, box, isOld }) {
  const { Sandbox } = sdk

  test('created with metadata, environment and time', async () => {
    const tag = unique()
    const one = await Sandbox.create('base', {
      metadata: { tag, 'k=&': 'b c/ü' }, envs: { WORD: 'from create' }, timeoutMs: 60_000,
    })
    try {
      const r = await one.commands.run('echo $WORD $E2B_SANDBOX')
      assert.equal(r.stdout, 'from create true\n')
      const over = await one.commands.run('echo $WORD', { envs: { WORD: 'from run' } })
      assert.equal(over.stdout, 'from run\n')
      const info = await one.getInfo()
      assert.equal(info.sandboxId, one.sandboxId)
      assert.deepEqual(info.metadata, { tag, 'k=&': 'b c/ü' })
      assert.equal(info.state, 'running')
      const life = info.endAt.getTime() - info.startedAt.getTime()
      assert.ok(Math.abs(life - 60_000) < 3000, String(life))
      const found = await Sandbox.list({ query: { metadata: { 'k=&': 'b c/ü', tag } } }).nextItems()
      assert.deepEqual(found.map((s) => s.sandboxId), [one.sandboxId])
    } finally {
      await one.kill()
    }
  })

  test('list: pages, metadata, state, newest first', async () => {
    const tag = unique()
    const made = []
    for (let i = 0; i < 5; i += 1) {
      made.push(await Sandbox.create('base', { metadata: { tag }, timeoutMs: 60_000 }))
    }
    try {
      const pages = []
      const paginator = Sandbox.list({ limit: 2, query: { metadata: { tag }, state: ['running'] } })
      while (paginator.hasNext) pages.push((await paginator.nextItems()).map((s) => s.sandboxId))
      assert.deepEqual(pages.map((p) => p.length), [2, 2, 1])
      assert.deepEqual(pages.flat(), made.map((s) => s.sandboxId).reverse())
      const paused = await Sandbox.list({ query: { metadata: { tag }, state: ['paused'] } }).nextItems()
      assert.deepEqual(paused, [])
      const none = await Sandbox.list({ query: { metadata: { tag: 'other' } } }).nextItems()
      assert.deepEqual(none, [])
    } finally {
      await Promise.all(made.map((s) => s.kill()))
    }
    const after = await Sandbox.list({ query: { metadata: { tag } } }).nextItems()
    assert.deepEqual(after, [])
  })

  test('connect to a running sandbox by its id', async () => {
    const again = await Sandbox.connect(box.sandboxId)
    assert.equal(again.sandboxId, box.sandboxId)
    assert.equal((await again.commands.run('echo same')).stdout, 'same\n')
  })

  test('setTimeout shortens and lengthens; the end comes', async () => {
    const one = await Sandbox.create('base', { timeoutMs: 60_000 })
    await one.setTimeout(600_000)
    const long = (await one.getInfo()).endAt.getTime() - Date.now()
    assert.ok(Math.abs(long - 600_000) < 5000, String(long))
    await one.setTimeout(2000)
    assert.equal(await one.isRunning(), true)
    await until(async () => !(await one.isRunning()), 10)
    await assert.rejects(one.commands.run('true'), (e) =>
      e instanceof sdk.TimeoutError || e instanceof sdk.NotFoundError)
    await assert.rejects(Sandbox.getInfo(one.sandboxId), sdk.NotFoundError)
  })

  test('metrics', async () => {
    await until(async () => (await box.getMetrics()).length > 0, 20)
    const [m] = await box.getMetrics()
    assert.ok(m.cpuCount >= 1 && m.memTotal > 0 && m.memUsed >= 0 && m.diskTotal > 0, JSON.stringify(m))
    assert.ok(Math.abs(m.timestamp.getTime() - Date.now()) < 120_000)
  })

  test('what does not exist: kill is false, the rest is not found', async () => {
    const id = 'i00000000000000000000'
    assert.equal(await Sandbox.kill(id), false)
    await assert.rejects(Sandbox.getInfo(id), sdk.NotFoundError)
    await assert.rejects(Sandbox.connect(id), sdk.NotFoundError)
    await assert.rejects(Sandbox.setTimeout(id, 10_000), sdk.NotFoundError)
    await assert.rejects(Sandbox.create('no-such-template'), sdk.SandboxError)
  })

  test('a wrong key is refused', async () => {
    await assert.rejects(
      Sandbox.create('base', { apiKey: `e2b_${'1'.repeat(40)}` }), sdk.AuthenticationError)
  })

  test('killed during a stream: the error of the SDK, at once', async () => {
    const one = await Sandbox.create('base', { timeoutMs: 60_000 })
    let lines = 0
    const handle = await one.commands.run('while true; do echo x; sleep 0.05; done', {
      background: true, onStdout: () => { lines += 1 },
    })
    const end = handle.wait()
    end.catch(() => {})
    await until(() => lines > 3)
    const before = Date.now()
    await one.kill()
    await assert.rejects(end, (e) => {
      assert.ok(isOld ? e instanceof Error : e instanceof sdk.TimeoutError, String(e))
      return true
    })
    assert.ok(Date.now() - before < 10_000)
    assert.equal(await one.isRunning(), false)
    assert.equal(await Sandbox.kill(one.sandboxId), false)
  })

  test('what is not built yet says so', async () => {
    const pause = isOld ? box.betaPause() : box.pause()
    await assert.rejects(pause, (e) => e instanceof sdk.SandboxError && /501/.test(e.message))
    assert.equal(await box.isRunning(), true)
  })

  test('a server inside is reached by its host name', async () => {
    const served = await box.commands.run(
      'mkdir -p /tmp/www && echo hello > /tmp/www/index.html && cd /tmp/www && python3 -m http.server 8123',
      { background: true })
    const host = box.getHost(8123)
    assert.ok(host.startsWith(`8123-${box.sandboxId}.`), host)
    const { request } = await import('node:http')
    const url = new URL(process.env.E2B_SANDBOX_URL)
    const get = () => new Promise((resolve) => {
      const r = request({ host: url.hostname, port: url.port, path: '/', headers: { host } }, (res) => {
        let body = ''
        res.on('data', (d) => { body += d })
        res.on('end', () => resolve([res.statusCode, body]))
      })
      r.on('error', () => resolve([0, '']))
      r.end()
    })
    await until(async () => (await get())[0] === 200)
    assert.deepEqual(await get(), [200, 'hello\n'])
    await served.kill()
  })
}
