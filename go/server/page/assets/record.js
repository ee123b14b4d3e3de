// What the microphone hears, as a WAV file: MediaRecorder writes WebM, which is no sound that the server reads.
// An AudioWorklet takes samples off the thread that draws; it loads this file too.

const rate = 16_000; // samples a second, which models hear

const longest = 600; // seconds: as WAV just below what a message takes

// canRecord tells whether the browser lets this page hear: from https or from this machine.
export const canRecord = Boolean(globalThis.navigator?.mediaDevices?.getUserMedia && globalThis.AudioWorkletNode);

// A Recording hears from its beginning, for which the browser may ask the reader, until it is ended.
export class Recording {
	#blocks = [];
	#context;
	#stream;

	// begin resolves once it hears. full is called when it has heard as much as a file may have.
	async begin(full) {
		this.#stream = await navigator.mediaDevices.getUserMedia({ audio: true });
		this.#context = new AudioContext();
		try {
			await this.#context.audioWorklet.addModule(new URL(import.meta.url));
		} catch (err) {
			this.#close();
			throw err;
		}
		const sampler = new AudioWorkletNode(this.#context, "sampler", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
		let left = longest * this.#context.sampleRate;
		sampler.port.onmessage = ({ data }) => {
			if (left <= 0) return;
			this.#blocks.push(data);
			left -= data.length;
			if (left <= 0) full();
		};
		this.#context.createMediaStreamSource(this.#stream).connect(sampler);
	}

	// end returns what was heard as a file.
	async end() {
		const { sampleRate } = this.#context;
		this.#close();
		const n = this.#blocks.reduce((sum, block) => sum + block.length, 0);
		if (!n) throw new Error("the microphone gave no sound");
		const heard = new AudioBuffer({ length: n, sampleRate });
		let at = 0;
		for (const block of this.#blocks) {
			heard.copyToChannel(block, 0, at);
			at += block.length;
		}
		const offline = new OfflineAudioContext(1, Math.ceil((n * rate) / sampleRate), rate);
		const source = new AudioBufferSourceNode(offline, { buffer: heard });
		source.connect(offline.destination);
		source.start();
		const samples = (await offline.startRendering()).getChannelData(0);
		return new File([header(samples.length), pcm(samples)], "recording.wav", { type: "audio/wav" });
	}

	#close() {
		for (const track of this.#stream.getTracks()) track.stop(); // or the browser goes on showing that it hears
		this.#context.close();
	}
}

// header is that of a WAV file of so many samples of 16 bits.
function header(samples) {
	const view = new DataView(new ArrayBuffer(44));
	const text = (at, name) => [...name].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
	text(0, "RIFF");
	view.setUint32(4, 36 + 2 * samples, true);
	text(8, "WAVEfmt ");
	view.setUint32(16, 16, true);
	view.setUint16(20, 1, true);
	view.setUint16(22, 1, true);
	view.setUint32(24, rate, true);
	view.setUint32(28, 2 * rate, true);
	view.setUint16(32, 2, true);
	view.setUint16(34, 16, true);
	text(36, "data");
	view.setUint32(40, 2 * samples, true);
	return view;
}

function pcm(samples) {
	const view = new DataView(new ArrayBuffer(2 * samples.length));
	samples.forEach((v, i) => view.setInt16(2 * i, Math.round(32_767 * Math.max(-1, Math.min(1, v))), true));
	return view;
}

if (globalThis.AudioWorkletProcessor) {
	registerProcessor("sampler", class extends AudioWorkletProcessor {
		process([input]) {
			if (input.length) this.port.postMessage(input[0].slice());
			return true;
		}
	});
}
