package prepare

import (
	"math"
	"math/bits"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
)

// A Spectrum says how an encoder's front end makes frames of bands from 16,000 samples a second, one frame each MelHop, other
// than Whisper's: by a transform of 512 points.
type Spectrum struct {
	Bands       int
	Window      []float64               // of the samples of a frame
	Lead        int                     // how many samples before its own place the window of a frame begins
	HTK         bool                    // the mel scale is HTK's, without norms of areas; else Slaney's, of areas of 1
	Magnitude   bool                    // in place of power
	Reflected   bool                    // the sound goes on mirrored beyond its ends; else it is silent there
	Preemphasis float64                 // of the sample before, which is taken away from each
	Log         func(v float64) float64 // of a band
	Filters     []float32               // of each band, a weight of each of the 257 bins; nil: triangles
}

// Hann returns a window of n points: periodic, or else it ends as it begins.
func Hann(n int, periodic bool) []float64 {
	w, of := make([]float64, n), n
	if !periodic {
		of--
	}
	for i := range w {
		w[i] = 0.5 * (1 - exactmath.Cos(2*math.Pi*float64(i)/float64(of)))
	}
	return w
}

// fftPoints is how many points the transforms have.
const fftPoints = 512

// Frames returns rows of the bands of the first n frames.
func (s *Spectrum) Frames(x []float32, n int) []float32 { return rounded(s.logs(x, n)) }

// Loud is Frames, no less than the loudest less 8, plus 4, over 4, as of Whisper.
func (s *Spectrum) Loud(x []float32, n int) []float32 {
	frames := s.logs(x, n)
	loudest := slices.Max(frames)
	for i, v := range frames {
		frames[i] = (max(v, loudest-8) + 4) / 4
	}
	return rounded(frames)
}

// Unit is Frames, with each band of the mean 0 and the deviation 1.
func (s *Spectrum) Unit(x []float32, n int) []float32 {
	const least = 1e-5
	frames := s.logs(x, n)
	for b := range s.Bands {
		var sum, squares float64
		for at := b; at < len(frames); at += s.Bands {
			sum += frames[at]
		}
		mean := sum / float64(n)
		for at := b; at < len(frames); at += s.Bands {
			d := frames[at] - mean
			squares += float64(d * d)
		}
		deviation := math.Sqrt(squares/max(float64(n-1), 1)) + least
		for at := b; at < len(frames); at += s.Bands {
			frames[at] = (frames[at] - mean) / deviation
		}
	}
	return rounded(frames)
}

func rounded(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// logs returns what Log makes of the bands of the first n frames.
func (s *Spectrum) logs(x []float32, n int) []float64 {
	bank := s.bank()
	out := make([]float64, n*s.Bands)
	inParts(n, func(from, to int) {
		var points [fftPoints]complex128
		for f := from; f < to; f++ {
			clear(points[:])
			for i, w := range s.Window {
				points[i] = complex(float64(s.at(x, f*MelHop-s.Lead+i)*w), 0)
			}
			transform512(&points)
			var strength [fftPoints/2 + 1]float64
			for k := range strength {
				re, im := real(points[k]), imag(points[k])
				strength[k] = float64(re*re) + float64(im*im)
				if s.Magnitude {
					strength[k] = math.Sqrt(strength[k])
				}
			}
			for b, band := range bank {
				var sum float64
				for i, w := range band.weights {
					sum += float64(w * strength[band.from+i])
				}
				out[f*s.Bands+b] = s.Log(sum)
			}
		}
	})
	return out
}

// bank returns the filters.
func (s *Spectrum) bank() []band {
	if s.Filters == nil {
		return melBank(s.Bands, fftPoints, s.HTK)
	}
	const bins = fftPoints/2 + 1
	bank := make([]band, s.Bands)
	for b := range bank {
		for _, w := range s.Filters[b*bins:][:bins] {
			bank[b].weights = append(bank[b].weights, float64(w))
		}
	}
	return bank
}

// at returns sample i.
func (s *Spectrum) at(x []float32, i int) float64 {
	if s.Reflected {
		if i < 0 {
			i = -i
		}
		if i >= len(x) {
			i = 2*(len(x)-1) - i
		}
		i = min(max(i, 0), len(x)-1)
	}
	if i < 0 || i >= len(x) {
		return 0
	}
	v := float64(x[i])
	if s.Preemphasis != 0 && i > 0 {
		v -= float64(s.Preemphasis * float64(x[i-1]))
	}
	return v
}

// turns512 are the roots of unity.
var turns512 = func() (u [fftPoints / 2]complex128) {
	for i := range u {
		angle := 2 * math.Pi * float64(i) / fftPoints
		u[i] = complex(exactmath.Cos(angle), -exactmath.Sin(angle))
	}
	return u
}()

// transform512 is the discrete Fourier transform in place (Cooley and Tukey 1965).
func transform512(x *[fftPoints]complex128) {
	for i := range x {
		if j := int(bits.Reverse16(uint16(i)) >> 7); j > i {
			x[i], x[j] = x[j], x[i]
		}
	}
	for half := 1; half < fftPoints; half *= 2 {
		for from := 0; from < fftPoints; from += 2 * half {
			for k := range half {
				v, w := x[from+k], times(x[from+half+k], turns512[k*(fftPoints/2/half)])
				x[from+k], x[from+half+k] = v+w, v-w
			}
		}
	}
}
