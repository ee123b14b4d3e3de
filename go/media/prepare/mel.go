package prepare

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// Mel spectra as Whisper's front end has them (Radford et al. 2022): of 16,000 samples a second, windows of 400 each 160.
const (
	MelRate = 16000
	MelHop  = 160
	melFFT  = 400
	melBins = melFFT/2 + 1
)

// LogMel returns rows of so many bands, one for each 160 samples, up to `frames` of them: the logarithm to 10 of their power,
// no less than the loudest less 8, plus 4, over 4. The sound is reflected in front, and behind it is silent, or also reflected.
func LogMel(x []float32, bands, frames int, reflected bool) []float32 {
	m := &Mel{x: x, bands: bands, reflected: reflected}
	out, rows := make([]float64, frames*bands), make([]float32, frames*bands)
	inParts(frames, func(from, to int) { m.logs(out[from*bands:to*bands], from) })
	m.loudest = slices.Max(out)
	m.rows(rows, out)
	return rows
}

// A Mel is the spectrum that LogMel returns, computed frame by frame, so that it takes no memory for sounds of hours.
type Mel struct {
	x         []float32
	bands     int
	reflected bool
	loudest   float64

	mu   sync.Mutex
	from int       // the first frame of part
	part []float32 // frames around the one that was asked for last; nil: none
}

// NewMel returns a spectrum. It keeps the sound.
func NewMel(x []float32, bands, frames int, reflected bool) *Mel {
	m := &Mel{x: x, bands: bands, reflected: reflected, loudest: silence}
	inParts(frames, func(from, to int) {
		logs := make([]float64, (to-from)*bands)
		m.logs(logs, from)
		m.mu.Lock()
		m.loudest = max(m.loudest, slices.Max(logs))
		m.mu.Unlock()
	})
	return m
}

// Frame writes frame i. It is fast if frames are asked for one after another, and safe for concurrent use.
func (m *Mel) Frame(dst []float32, i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from := i / melPart * melPart; m.part == nil || from != m.from {
		logs := make([]float64, melPart*m.bands)
		m.logs(logs, from)
		m.from, m.part = from, make([]float32, len(logs))
		m.rows(m.part, logs)
	}
	copy(dst, m.part[(i-m.from)*m.bands:][:m.bands])
}

// melPart is how many frames are computed at a time, an even number.
const melPart = 250

// inParts calls do for parts of frames, several at once.
func inParts(frames int, do func(from, to int)) {
	var threads sync.WaitGroup
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), (frames+melPart-1)/melPart) {
		threads.Go(func() {
			for {
				from := int(next.Add(melPart)) - melPart
				if from >= frames {
					return
				}
				do(from, min(from+melPart, frames))
			}
		})
	}
	threads.Wait()
}

// silence is the logarithm of no power at all.
var silence = exactmath.QuickLog(1e-10) / math.Ln10

// logs writes the logarithms of the powers of frames from number `from` on.
func (m *Mel) logs(out []float64, from int) {
	frames := len(out) / m.bands
	heard := frames // behind them is silence
	for heard > 0 && (from+heard-1)*MelHop-melFFT/2 >= len(m.x) {
		heard--
	}
	for i := heard * m.bands; i < len(out); i++ {
		out[i] = silence
	}
	p := &pair{bank: melBank(m.bands, melFFT, false)}
	for f := 0; f < heard; f += 2 {
		for i := range melFFT {
			first := (from+f)*MelHop - melFFT/2 + i
			p.in[i] = complex(float64(m.at(first)*hann[i]), float64(m.at(first+MelHop)*hann[i]))
		}
		transform(p.spectrum[:], p.in[:], p.work[:], 1)
		row := out[f*m.bands:]
		p.powers(row[:m.bands], row[m.bands:min(2*m.bands, (heard-f)*m.bands)])
	}
}

// at returns sample i, which may be in front of the sound or behind it.
func (m *Mel) at(i int) float64 {
	if i < 0 {
		i = -i
	}
	if m.reflected && i >= len(m.x) {
		i = max(2*(len(m.x)-1)-i, 0)
	}
	if i >= len(m.x) {
		return 0
	}
	return float64(m.x[i])
}

// rows writes logarithms within their limits.
func (m *Mel) rows(rows []float32, logs []float64) {
	for i, v := range logs {
		rows[i] = float32((max(v, m.loudest-8) + 4) / 4)
	}
}

// A pair is two frames, whose spectra one transform makes: the second frame is the imaginary part of the first.
type pair struct {
	bank               []band
	in, work, spectrum [melFFT]complex128
}

// powers writes the logarithms of the power in bands of the first frame and of the second, which may be empty.
func (p *pair) powers(first, second []float64) {
	var one, two [melBins]float64
	for k := range melBins {
		z, y := p.spectrum[k], p.spectrum[(melFFT-k)%melFFT]
		re, im := real(z)+real(y), imag(z)-imag(y)
		one[k] = (float64(re*re) + float64(im*im)) / 4
		re, im = imag(z)+imag(y), real(z)-real(y)
		two[k] = (float64(re*re) + float64(im*im)) / 4
	}
	for _, frame := range []struct {
		to    []float64
		power *[melBins]float64
	}{{first, &one}, {second, &two}} {
		for b := range frame.to {
			var sum float64
			for i, w := range p.bank[b].weights {
				sum += float64(w * frame.power[p.bank[b].from+i])
			}
			frame.to[b] = exactmath.QuickLog(max(sum, 1e-10)) / math.Ln10
		}
	}
}

// A band is a triangle over some bins.
type band struct {
	from    int
	weights []float64
}

var banks sync.Map // by their bankKey

type bankKey struct {
	n, points int
	htk       bool
}

// melBank returns n triangles over the bins of a transform of so many points, on Slaney's mel scale, linear up to 1 kHz and
// logarithmic above, each of an area of 1, or on HTK's, each of a height of 1.
func melBank(n, points int, htk bool) []band {
	key := bankKey{n, points, htk}
	if b, ok := banks.Load(key); ok {
		return b.([]band)
	}
	hz := slaney(n)
	if htk {
		hz = htks(n)
	}
	bank := make([]band, n)
	for b := range bank {
		low, middle, high := hz[b], hz[b+1], hz[b+2]
		for bin := range points/2 + 1 {
			f := float64(bin) * MelRate / float64(points)
			w := min((f-low)/(middle-low), (high-f)/(high-middle))
			if !htk {
				w = w * 2 / (high - low)
			}
			if w <= 0 {
				continue
			}
			if len(bank[b].weights) == 0 {
				bank[b].from = bin
			}
			bank[b].weights = append(bank[b].weights, w)
		}
	}
	banks.Store(key, bank)
	return bank
}

// slaney returns the corners of triangles on Slaney's mel scale.
func slaney(n int) []float64 {
	const linear, knee = 200.0 / 3, 1000.0
	step := exactmath.Log(6.4) / 27
	mels := func(hz float64) float64 { return knee/linear + exactmath.Log(hz/knee)/step }
	hz := make([]float64, n+2)
	for i := range hz {
		m := mels(MelRate/2) * float64(i) / float64(n+1)
		if hz[i] = m * linear; m >= knee/linear {
			hz[i] = knee * exactmath.Pow(math.E, float64(m-knee/linear)*step)
		}
	}
	return hz
}

// htks returns those on HTK's.
func htks(n int) []float64 {
	const scale, knee = 2595.0, 700.0
	most := scale * exactmath.Log(1+MelRate/2/knee) / math.Ln10
	hz := make([]float64, n+2)
	for i := range hz {
		hz[i] = knee * (exactmath.Pow(10, most*float64(i)/float64(n+1)/scale) - 1)
	}
	return hz
}

// hann is the window, and turns are the roots of unity.
var hann, turns = func() (w [melFFT]float64, u [melFFT]complex128) {
	for i := range w {
		angle := 2 * math.Pi * float64(i) / melFFT
		w[i] = 0.5 * (1 - exactmath.Cos(angle))
		u[i] = complex(exactmath.Cos(angle), -exactmath.Sin(angle))
	}
	return w, u
}()

// transform writes the discrete Fourier transform of src's elements that are `stride` apart to dst: that of its first factor's
// parts, and their sums (Cooley and Tukey 1965). Both have melFFT / stride elements, of which work has as many.
func transform(dst, src, work []complex128, stride int) {
	n := melFFT / stride
	if n == 1 {
		dst[0] = src[0]
		return
	}
	radix := 2
	if n%2 != 0 {
		radix = 5
	}
	m := n / radix
	for part := range radix {
		transform(work[part*m:][:m], src[part*stride:], dst[part*m:][:m], stride*radix)
	}
	if radix == 2 {
		for k := range m {
			v, w := work[k], times(work[m+k], turns[k*stride])
			dst[k], dst[m+k] = v+w, v-w
		}
		return
	}
	const fifth = melFFT / 5
	for k := range m {
		var v [5]complex128
		for part := range v {
			v[part] = times(work[part*m+k], turns[part*k*stride])
		}
		for q := range v {
			sum := v[0]
			for part := 1; part < 5; part++ {
				sum += times(v[part], turns[part*q%5*fifth])
			}
			dst[q*m+k] = sum
		}
	}
}

// times is a product whose terms are rounded before they are added, on each machine.
func times(v, u complex128) complex128 {
	return complex(float64(real(v)*real(u))-float64(imag(v)*imag(u)), float64(real(v)*imag(u))+float64(imag(v)*real(u)))
}
