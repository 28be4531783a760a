// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from './tap.mjs'

const MB = 1 << 20
const sha = (data) => createHash('sha256').update(data).digest('hex')

// Bytes that do not repeat within a buffer of ours, and compress badly.
function noise(size) {
  const out = Buffer.allocUnsafe(size)
  let x = 0x9e3779b9 ^ size
  for (let i = 0; i < size; i += 1) {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    out[i] = x & 255
  }
  return out
}

function arrayBuffer(b) {
  return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength)
}

async function digestInside(box, path) {
  return (await box.commands.run(`sha256sum < ${path}`, { timeoutMs: 120_000 })).stdout.split(' ')[0]
}

export default function files({ sdk, box, isOld }) {
  test('text is written and read', async () => {
    const info = await box.files.write('notes/a.txt', 'grüße')
    assert.deepEqual([info.name, info.path, info.type], ['a.txt', '/home/user/notes/a.txt', 'file'])
    assert.equal(await box.files.read('notes/a.txt'), 'grüße')
    assert.equal(await box.files.read('/home/user/notes/a.txt'), 'grüße')
  })

  for (const size of [0, 1, 4095, 65_537, 5 * MB + 3]) {
    test(`${size} bytes there and back`, async () => {
      const data = noise(size)
      const path = `/tmp/noise-${size}`
      await box.files.write(path, arrayBuffer(data))
      assert.equal(await digestInside(box, path), sha(data))
      const back = await box.files.read(path, { format: 'bytes' })
      assert.equal(back.byteLength, size)
      assert.equal(sha(back), sha(data))
    })
  }

  test('200 MB there and back as streams', async () => {
    const chunk = noise(MB)
    const whole = createHash('sha256')
    let left = 200
    const stream = new ReadableStream({
      pull(controller) {
        if (left === 0) return controller.close()
        left -= 1
        chunk.writeUInt32LE(left)
        whole.update(chunk)
        controller.enqueue(new Uint8Array(chunk))
      },
    })
    await box.files.write('/tmp/big', stream, { requestTimeoutMs: 240_000 })
    const digest = whole.digest('hex')
    assert.equal(await digestInside(box, '/tmp/big'), digest)
    const back = createHash('sha256')
    let size = 0
    const reading = await box.files.read('/tmp/big', { format: 'stream', requestTimeoutMs: 240_000 })
    for await (const part of reading) {
      size += part.length
      back.update(part)
    }
    assert.equal(size, 200 * MB)
    assert.equal(back.digest('hex'), digest)
    await box.files.remove('/tmp/big')
  }, 300)

  test('blob, and overwriting with less', async () => {
    await box.files.write('/tmp/over', 'a long text')
    await box.files.write('/tmp/over', new Blob(['short']))
    const blob = await box.files.read('/tmp/over', { format: 'blob' })
    assert.equal(await blob.text(), 'short')
  })

  test('several files in one call', async () => {
    const written = await box.files.write([
      { path: 'many/1.txt', data: 'one' },
      { path: 'many/deep/2.bin', data: arrayBuffer(noise(70_000)) },
      { path: '/tmp/many-ü.txt', data: 'three' },
    ])
    assert.deepEqual(written.map((w) => w.path),
      ['/home/user/many/1.txt', '/home/user/many/deep/2.bin', '/tmp/many-ü.txt'])
    assert.equal(await box.files.read('many/1.txt'), 'one')
    assert.equal(await box.files.read('/tmp/many-ü.txt'), 'three')
    assert.equal(await digestInside(box, '/home/user/many/deep/2.bin'), sha(noise(70_000)))
    assert.deepEqual(await box.files.write([]), [])
  })

  test('list: order, depth, kinds', async () => {
    await box.commands.run(
      'mkdir -p tree/b/c tree/a && echo x > tree/f && echo y > tree/b/c/g && ln -s f tree/link')
    const one = await box.files.list('tree')
    assert.deepEqual(one.map((e) => [e.name, e.type]),
      [['a', 'dir'], ['b', 'dir'], ['f', 'file'], ['link', 'file']])
    const deep = await box.files.list('tree', { depth: 3 })
    assert.deepEqual(deep.map((e) => e.path.replace('/home/user/tree/', '')),
      ['a', 'b', 'b/c', 'b/c/g', 'f', 'link'])
    await assert.rejects(box.files.list('not-there'), sdk.NotFoundError)
    await assert.rejects(box.files.list('tree/f'), sdk.InvalidArgumentError)
  })

  test('what a file is', async () => {
    await box.commands.run('umask 022; echo hello > info.txt; chmod 640 info.txt')
    const info = await box.files.getInfo('info.txt')
    assert.equal(info.name, 'info.txt')
    assert.equal(info.path, '/home/user/info.txt')
    assert.deepEqual([info.type, info.size, info.mode, info.permissions, info.owner, info.group],
      ['file', 6, 0o640, '-rw-r-----', 'user', 'user'])
    assert.ok(Math.abs(info.modifiedTime.getTime() - Date.now()) < 60_000)
    await box.commands.run('ln -s /home/user/info.txt info.link')
    const link = await box.files.getInfo('info.link')
    assert.deepEqual([link.type, link.symlinkTarget], ['file', '/home/user/info.txt'])
    await assert.rejects(box.files.getInfo('nothing'), sdk.NotFoundError)
  })

  test('exists, makeDir, rename, remove', async () => {
    assert.equal(await box.files.exists('d1'), false)
    assert.equal(await box.files.makeDir('d1/d2/d3'), true)
    assert.equal(await box.files.makeDir('d1/d2/d3'), false)
    assert.equal(await box.files.exists('d1/d2'), true)
    await box.files.write('d1/x', 'x')
    const moved = await box.files.rename('d1/x', 'd9/new/y')
    assert.equal(moved.path, '/home/user/d9/new/y')
    assert.equal(await box.files.exists('d1/x'), false)
    await box.files.remove('d1')
    assert.equal(await box.files.exists('d1'), false)
    await box.files.remove('d1')
    await assert.rejects(box.files.rename('gone', 'there'), sdk.NotFoundError)
  })

  test('what is missing, a directory, a user that is missing', async () => {
    await assert.rejects(box.files.read('missing.txt'), sdk.NotFoundError)
    await assert.rejects(box.files.read('/tmp'), sdk.InvalidArgumentError)
    await assert.rejects(box.files.read('/etc/passwd', { user: 'nobody-here' }), sdk.AuthenticationError)
  })

  test('files belong to the user who wrote them', async () => {
    await box.files.write('/tmp/of-root', 'r', { user: 'root' })
    await box.files.write('/tmp/of-user', 'u')
    const r = await box.commands.run('stat -c "%U %a" /tmp/of-root /tmp/of-user')
    assert.equal(r.stdout, 'root 644\nuser 644\n')
  })

  if (!isOld) {
    test('gzip and octet-stream uploads', async () => {
      const data = Buffer.concat([noise(300_000), Buffer.alloc(3 * MB)])
      await box.files.write('/tmp/gz', arrayBuffer(data), { gzip: true })
      assert.equal(await digestInside(box, '/tmp/gz'), sha(data))
      await box.files.write('/tmp/octet', arrayBuffer(data), { useOctetStream: true })
      assert.equal(await digestInside(box, '/tmp/octet'), sha(data))
    })

    test('metadata of a file is kept and replaced', async () => {
      const written = await box.files.write('/tmp/meta', 'm', { metadata: { author: 'me', Step: '1' } })
      assert.deepEqual(written.metadata, { author: 'me', step: '1' })
      assert.deepEqual((await box.files.getInfo('/tmp/meta')).metadata, { author: 'me', step: '1' })
      await box.files.write('/tmp/meta', 'm', { metadata: { other: '2' } })
      assert.deepEqual((await box.files.getInfo('/tmp/meta')).metadata, { other: '2' })
      const bare = await box.files.write('/tmp/meta', 'm')
      assert.equal(bare.metadata, undefined)
    })
  }
}
