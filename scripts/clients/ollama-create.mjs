// Stores personas on the server at the address argv[2], as npm's ollama does, and prints "ok".
import assert from 'node:assert/strict'
import { Ollama } from 'ollama'

const ollama = new Ollama({ host: process.argv[2] })

const lines = []
for await (const part of await ollama.create({
	model: 'mario', from: 'demo', system: 'You are Mario.', parameters: { temperature: 0, num_predict: 4, stop: ['END'] },
	messages: [{ role: 'user', content: 'Hi' }, { role: 'assistant', content: 'Hello!' }], license: 'MIT', stream: true,
})) lines.push(part.status)
assert.equal(lines.at(-1), 'success')
assert.equal((await ollama.create({ model: 'luigi', from: 'mario', system: 'You are Luigi.' })).status, 'success')

const names = (await ollama.list()).models.map(m => m.name).sort()
assert.deepEqual(names, ['demo:latest', 'luigi:latest', 'mario:latest'])
const shown = await ollama.show({ model: 'luigi' })
assert.equal(shown.system, 'You are Luigi.')
assert.equal(shown.details.parent_model, 'demo')
assert.match(shown.parameters, /num_predict\s+4/)

const answer = await ollama.chat({ model: 'mario', messages: [{ role: 'user', content: 'Who are you?' }] })
assert.equal(answer.model, 'mario')
assert.equal(answer.eval_count, 4)
await assert.rejects(ollama.create({ model: 'x', from: 'nothing' }), /model 'nothing' not found/)
await assert.rejects(ollama.create({ model: 'x', from: 'demo', template: '{{ .Prompt }}' }), /template: .*want none: templates are the model's own/)

await ollama.copy({ source: 'luigi', destination: 'waluigi' })
for (const model of ['luigi', 'waluigi', 'mario']) await ollama.delete({ model })
assert.equal((await ollama.list()).models.length, 1)
console.log('ok')
