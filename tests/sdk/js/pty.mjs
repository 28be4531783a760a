// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict'
import { test, until } from './tap.mjs'

const bytes = (s) => new TextEncoder().encode(s)

async function terminal(box, options = {}) {
  const screen = { text: '' }
  const decoder = new TextDecoder()
  screen.handle = await box.pty.create({
    cols: 80, rows: 24, timeoutMs: 60_000, ...options,
    onData: (d) => { screen.text += decoder.decode(d, { stream: true }) },
  })
  return screen
}

export default function pty({ box, isOld }) {
  test('a terminal: size, input, resize, exit', async () => {
    const t = await terminal(box, { cols: 101, rows: 31, envs: { WORD: 'x1' }, cwd: '/tmp' })
    const say = (s) => box.pty.sendInput(t.handle.pid, bytes(s))
    await say('stty size; echo $WORD:$TERM; pwd; tty\n')
    await until(() => /31 101[^]*x1:xterm[^]*\/tmp[^]*\/dev\/pts\//.test(t.text))
    await box.pty.resize(t.handle.pid, { cols: 77, rows: 22 })
    await say('stty size\n')
    await until(() => t.text.includes('22 77'))
    await say('exit\n')
    assert.equal((await t.handle.wait()).exitCode, 0)
  })

  test('^C interrupts what runs in a terminal', async () => {
    const t = await terminal(box)
    const say = (s) => box.pty.sendInput(t.handle.pid, bytes(s))
    await say('sleep 500; echo "status $?"\n')
    await until(async () => (await box.commands.run('pgrep -x sleep || true')).stdout !== '')
    await say('\x03')
    await say('echo after-$((1+1))\n')
    await until(() => t.text.includes('after-2'))
    assert.equal(await box.pty.kill(t.handle.pid), true)
    await assert.rejects(t.handle.wait())
    assert.equal(await box.pty.kill(t.handle.pid), false)
  })

  if (!isOld) {
    test('a terminal is left and taken up again', async () => {
      const t = await terminal(box)
      await box.pty.sendInput(t.handle.pid, bytes('MARK=kept\n'))
      await until(() => t.text.includes('MARK=kept'))
      await t.handle.disconnect()
      let text = ''
      const again = await box.pty.connect(t.handle.pid, {
        onData: (d) => { text += new TextDecoder().decode(d) },
      })
      await box.pty.sendInput(again.pid, bytes('echo "<$MARK>"; exit\n'))
      assert.equal((await again.wait()).exitCode, 0)
      assert.ok(text.includes('<kept>'), text)
    })
  }
}
