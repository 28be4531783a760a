// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict'
import { test, until } from './tap.mjs'

export default function watch({ sdk, box }) {
  test('a watched directory tells what happens in it', async () => {
    await box.files.makeDir('watched')
    const events = []
    const handle = await box.files.watchDir('watched', (e) => { events.push(`${e.type} ${e.name}`) })
    await box.commands.run('cd watched && echo 1 > f && chmod 600 f && mv f g && rm g')
    for (const expected of ['create f', 'write f', 'chmod f', 'rename f', 'remove g']) {
      await until(() => events.includes(expected)).catch(() => {
        assert.fail(`no '${expected}' in ${events}`)
      })
    }
    await handle.stop()
    const count = events.length
    await box.commands.run('touch watched/later')
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.equal(events.length, count)
  })

  test('recursive: directories made later are watched too', async () => {
    await box.files.makeDir('deep/one')
    const names = []
    const handle = await box.files.watchDir('deep', (e) => { names.push(e.name) }, { recursive: true })
    await box.commands.run('mkdir -p deep/two/three; echo x > deep/one/a')
    await until(() => names.includes('one/a') && names.includes('two'))
    await until(async () => {
      await box.commands.run('echo x > deep/two/three/b')
      return names.includes('two/three/b')
    })
    await handle.stop()
  })

  test('not recursive: what is below says nothing', async () => {
    await box.files.makeDir('flat/below')
    const names = []
    const handle = await box.files.watchDir('flat', (e) => { names.push(e.name) })
    await box.commands.run('echo x > flat/below/hidden; sleep 0.2; echo x > flat/shown')
    await until(() => names.includes('shown'))
    assert.ok(!names.some((n) => n.includes('hidden')), String(names))
    await handle.stop()
  })

  test('a directory that is missing, and a file, cannot be watched', async () => {
    await assert.rejects(box.files.watchDir('no-such-dir', () => {}), sdk.NotFoundError)
    await box.files.write('plain', 'x')
    await assert.rejects(box.files.watchDir('plain', () => {}), sdk.InvalidArgumentError)
  })
}
