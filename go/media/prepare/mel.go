package prepare

import (
	"math"
	"sync"

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
	bank := melBank(bands)
	rows := make([]float32, frames*bands)
	out := make([]float64, frames*bands)
	in, work, spectrum := make([]complex128, melFFT), make([]complex128, melFFT), make([]complex128, melFFT)
	loudest := math.Inf(-1)
	silence := exactmath.QuickLog(1e-10) / math.Ln10
	for f := range frames {
		row := out[f*bands:][:bands]
		if f*MelHop-melFFT/2 >= len(x) { // silence, as are all that follow
			for b := range row {
				row[b] = silence
			}
			loudest = max(loudest, silence)
			continue
		}
		for i := range melFFT {
			at := f*MelHop - melFFT/2 + i
			if at < 0 {
				at = -at
			}
			if reflected && at >= len(x) {
				at = max(2*(len(x)-1)-at, 0)
			}
			var v float64
			if at < len(x) {
				v = float64(float64(x[at]) * hann[i])
			}
			in[i] = complex(v, 0)
		}
		transform(spectrum, in, work, 1)
		for b, band := range bank {
			var sum float64
			for i, w := range band.weights {
				re, im := real(spectrum[band.from+i]), imag(spectrum[band.from+i])
				sum += float64(w * (float64(re*re) + float64(im*im)))
			}
			row[b] = exactmath.QuickLog(max(sum, 1e-10)) / math.Ln10
			loudest = max(loudest, row[b])
		}
	}
	for i, v := range out {
		rows[i] = float32((max(v, loudest-8) + 4) / 4)
	}
	return rows
}

// A band is a triangle over some bins.
type band struct {
	from    int
	weights []float64
}

var banks sync.Map // of numbers of bands

// melBank returns triangles on Slaney's mel scale, linear up to 1 kHz and logarithmic above, each of an area of 1.
func melBank(n int) []band {
	if b, ok := banks.Load(n); ok {
		return b.([]band)
	}
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
	bank := make([]band, n)
	for b := range bank {
		low, middle, high := hz[b], hz[b+1], hz[b+2]
		for bin := range melBins {
			f := float64(bin) * MelRate / melFFT
			w := min((f-low)/(middle-low), (high-f)/(high-middle)) * 2 / (high - low)
			if w <= 0 {
				continue
			}
			if len(bank[b].weights) == 0 {
				bank[b].from = bin
			}
			bank[b].weights = append(bank[b].weights, w)
		}
	}
	banks.Store(n, bank)
	return bank
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
	for k := range n {
		var re, im float64
		for part := range radix {
			v, u := work[part*m+k%m], turns[part*k%n*stride]
			re += float64(real(v)*real(u)) - float64(imag(v)*imag(u))
			im += float64(real(v)*imag(u)) + float64(imag(v)*real(u))
		}
		dst[k] = complex(re, im)
	}
}
