// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict'
import { test, until } from './tap.mjs'

export default function commands({ sdk, box, isOld }) {
  test('a command in the foreground: output, errors, status', async () => {
    const r = await box.commands.run('echo out; echo err >&2')
    assert.deepEqual([r.exitCode, r.stdout, r.stderr], [0, 'out\n', 'err\n'])
  })

  test('a status other than 0 is the error of the SDK, with the output', async () => {
    await assert.rejects(box.commands.run('echo so far; exit 7'), (e) => {
      assert.ok(e instanceof sdk.CommandExitError)
      assert.deepEqual([e.exitCode, e.stdout], [7, 'so far\n'])
      return true
    })
  })

  test('working directory, environment and user of a command', async () => {
    const r = await box.commands.run('pwd; echo $WORD; whoami; id -u', {
      cwd: '/tmp', envs: { WORD: 'one two' }, user: 'root',
    })
    assert.equal(r.stdout, '/tmp\none two\nroot\n0\n')
    const home = await box.commands.run('pwd; whoami; echo $HOME $USER')
    assert.equal(home.stdout, '/home/user\nuser\n/home/user user\n')
  })

  test('sudo without a password', async () => {
    const r = await box.commands.run('sudo whoami')
    assert.equal(r.stdout, 'root\n')
  })

  test('a working directory that is missing is refused', async () => {
    await assert.rejects(box.commands.run('pwd', { cwd: '/not/there' }), sdk.InvalidArgumentError)
  })

  test('a user that is missing is refused', async () => {
    await assert.rejects(box.commands.run('pwd', { user: 'nobody-here' }), sdk.AuthenticationError)
  })

  test('callbacks get the output as it comes', async () => {
    const seen = []
    const r = await box.commands.run('echo a; sleep 0.3; echo b >&2; sleep 0.3; echo c', {
      onStdout: (s) => { seen.push(`out ${s}`) },
      onStderr: (s) => { seen.push(`err ${s}`) },
    })
    assert.deepEqual(seen, ['out a\n', 'err b\n', 'out c\n'])
    assert.equal(r.stdout, 'a\nc\n')
  })

  test('20 MB of output arrive whole and in order', async () => {
    const r = await box.commands.run('seq 1 2700000', { timeoutMs: 120_000 })
    let expected = 0
    for (const line of r.stdout.split('\n')) {
      if (line === '') continue
      expected += 1
      if (line !== String(expected)) assert.fail(`line ${expected} is '${line.slice(0, 40)}'`)
    }
    assert.equal(expected, 2_700_000)
  }, 120)

  if (!isOld) { // 2.7.0 decodes each piece by itself
    test('characters of several bytes survive any cut', async () => {
      const r = await box.commands.run("python3 -c \"print('añ€😀' * 20000)\"")
      assert.ok(r.stdout === 'añ€😀'.repeat(20000) + '\n')
    })
  }

  test('in the background: list, wait', async () => {
    const handle = await box.commands.run('sleep 0.5; echo done', { background: true })
    const listed = await box.commands.list()
    const mine = listed.find((p) => p.pid === handle.pid)
    assert.ok(mine, `pid ${handle.pid} is not in ${listed.map((p) => p.pid)}`)
    assert.deepEqual([mine.cmd, ...mine.args], ['/bin/bash', '-l', '-c', 'sleep 0.5; echo done'])
    const r = await handle.wait()
    assert.equal(r.stdout, 'done\n')
    await until(async () => !(await box.commands.list()).some((p) => p.pid === handle.pid))
  })

  test('input, until it is closed', async () => {
    const handle = await box.commands.run('cat', { background: true, stdin: true })
    await box.commands.sendStdin(handle.pid, 'first\n')
    await until(() => handle.stdout === 'first\n')
    await box.commands.sendStdin(handle.pid, 'second\n')
    await until(() => handle.stdout === 'first\nsecond\n')
    if (isOld) {
      await handle.kill()
    } else {
      await box.commands.closeStdin(handle.pid)
      assert.equal((await handle.wait()).exitCode, 0)
    }
  })

  test('without input a command reads the end of file', async () => {
    const r = await box.commands.run('cat; echo end', { stdin: false })
    assert.equal(r.stdout, 'end\n')
  })

  test('kill: gone at once, and false the second time', async () => {
    const handle = await box.commands.run('sleep 600', { background: true })
    assert.equal(await box.commands.kill(handle.pid), true)
    await assert.rejects(handle.wait(), sdk.CommandExitError)
    await assert.rejects(box.commands.run(`kill -0 ${handle.pid}`), sdk.CommandExitError)
    assert.equal(await box.commands.kill(handle.pid), false)
  })

  test('a command longer than its time ends as a timeout, and its process too', async () => {
    const before = Date.now()
    await assert.rejects(
      box.commands.run('echo $$ > /tmp/late.pid; sleep 60', { timeoutMs: 1500 }), sdk.TimeoutError)
    assert.ok(Date.now() - before < 10_000)
    const r = await box.commands.run(
      'for i in $(seq 100); do kill -0 $(cat /tmp/late.pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1')
    assert.equal(r.exitCode, 0)
  })

  test('disconnect leaves it running; connect gets what follows, and the status', async () => {
    const handle = await box.commands.run(
      'for i in $(seq 60); do echo tick; sleep 0.1; done; exit 3', { background: true })
    await until(() => handle.stdout.includes('tick'))
    await handle.disconnect()
    const seen = []
    const again = await box.commands.connect(handle.pid, { onStdout: (s) => { seen.push(s) } })
    assert.equal(again.pid, handle.pid)
    await assert.rejects(again.wait(), (e) => e instanceof sdk.CommandExitError && e.exitCode === 3)
    assert.ok(seen.join('').includes('tick'))
  })

  test('connect to a process that never was', async () => {
    await assert.rejects(box.commands.connect(999_999), sdk.NotFoundError)
  })

  test('50 commands at once', async () => {
    const all = await Promise.all(
      Array.from({ length: 50 }, (_, i) => box.commands.run(`echo ${i}; exit 0`)))
    assert.deepEqual(all.map((r) => r.stdout), Array.from({ length: 50 }, (_, i) => `${i}\n`))
  }, 120)
}
