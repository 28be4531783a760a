// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict'
import { test } from './tap.mjs'

export default function urls({ sdk, box }) {
  test('a signed URL to download', async () => {
    await box.files.write('signed.txt', 'by url')
    const r = await fetch(await box.downloadUrl('signed.txt'))
    assert.equal(r.status, 200)
    assert.equal(await r.text(), 'by url')
  })

  test('a signed URL to upload', async () => {
    const form = new FormData()
    form.append('file', 'sent by url')
    const r = await fetch(await box.uploadUrl('up.txt'), { method: 'POST', body: form })
    assert.equal(r.status, 200)
    assert.equal((await r.json())[0].path, '/home/user/up.txt')
    assert.equal(await box.files.read('up.txt'), 'sent by url')
  })

  test('a URL that has expired, a forged one, one without a signature', async () => {
    await box.files.write('signed.txt', 'by url')
    const fresh = new URL(await box.downloadUrl('signed.txt', { useSignatureExpiration: 120 }))
    assert.equal((await fetch(fresh)).status, 200)
    const late = await fetch(await box.downloadUrl('signed.txt', { useSignatureExpiration: -10 }))
    assert.equal(late.status, 401)
    assert.deepEqual(await late.json(), { code: 401, message: 'signature is already expired' })
    const longer = new URL(fresh)
    longer.searchParams.set('signature_expiration', '4102444800')
    const forged = await fetch(longer)
    assert.ok(forged.status === 401 || forged.status === 502, String(forged.status))
    await forged.body?.cancel()
    const headers = { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983' }
    const unsigned = new URL(fresh)
    unsigned.searchParams.delete('signature')
    const missing = await fetch(unsigned, { headers })
    assert.equal(missing.status, 401)
    assert.deepEqual(await missing.json(), { code: 401, message: 'missing signature query parameter' })
    const wrong = await fetch(longer, { headers })
    assert.deepEqual(await wrong.json(), { code: 401, message: 'invalid signature' })
  })

  test('a URL signed to read does not write, and the other way round', async () => {
    await box.files.write('signed.txt', 'by url')
    const headers = { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49983' }
    const form = new FormData()
    form.append('file', 'evil')
    const r = await fetch(await box.downloadUrl('signed.txt'), { method: 'POST', body: form, headers })
    assert.equal(r.status, 401)
    await r.body?.cancel()
    const back = await fetch(await box.uploadUrl('signed.txt'), { headers })
    assert.equal(back.status, 401)
    await back.body?.cancel()
    assert.equal(await box.files.read('signed.txt'), 'by url')
  })

  test('a request without the token of a secure sandbox is refused', async () => {
    const other = await sdk.Sandbox.create('base', { timeoutMs: 60_000 })
    try {
      const headers = {
        'E2b-Sandbox-Id': other.sandboxId, 'E2b-Sandbox-Port': '49983',
        'Content-Type': 'application/json', 'Connect-Protocol-Version': '1',
      }
      const ask = (more) => fetch(`${process.env.E2B_SANDBOX_URL}/process.Process/List`, {
        method: 'POST', body: '{}', headers: { ...headers, ...more },
      })
      const none = await ask({})
      assert.equal(none.status, 401)
      await none.body?.cancel()
      const wrong = await ask({ 'X-Access-Token': '0'.repeat(64) })
      assert.equal(wrong.status, 401)
      await wrong.body?.cancel()
    } finally {
      await other.kill()
    }
  })
}
