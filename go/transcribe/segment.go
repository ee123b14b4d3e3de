package transcribe

import (
	"bytes"
	"compress/zlib"
	"strings"
)

// A Segment is a part of what is said, with its times in seconds.
type Segment struct {
	ID, Seek   int // its number, and where the window begins that it was heard in, in hundredths of a second
	Start, End float64
	Text       string
	Language   string // its code
	Tokens     []int32
	Words      []Word // if they are wanted

	// Of the window: its temperature, the mean of its tokens' log-probabilities, how many times smaller compression makes
	// its text, and how likely it is that nothing is said.
	Temperature, MeanLogprob, Compression, Silence float64
}

// segments cuts what was said of a window into segments, where two times are side by side. They have times within the
// window. It returns how much of the window is done with, in hundredths of a second, of `length`: what is behind the
// last pair of times may have been cut off, and is heard again. ended: nothing follows the text.
func (v *Vocabulary) segments(said []int32, length int) (list []Segment, done int, ended bool) {
	const hundredths = 100 / Step
	at := func(id int32) int { return hundredths * int(id-v.times) }
	n := len(said)
	var cuts []int
	for i := 1; i < n; i++ {
		if v.isTime(said[i-1]) && v.isTime(said[i]) {
			cuts = append(cuts, i)
		}
	}
	alone := n >= 2 && !v.isTime(said[n-2]) && v.isTime(said[n-1]) // the text ends with one time: nothing follows it
	if len(cuts) == 0 {
		end := length
		if i := lastTime(v, said); i >= 0 && said[i] != v.times {
			end = at(said[i])
		}
		return []Segment{{End: float64(end) / 100, Tokens: said}}, length, alone
	}
	if alone {
		cuts = append(cuts, n)
	}
	from := 0
	for _, to := range cuts {
		part := said[from:to]
		list = append(list, Segment{
			Start: float64(at(part[0])) / 100, End: float64(at(part[len(part)-1])) / 100, Tokens: part,
		})
		from = to
	}
	if alone {
		return list, length, true
	}
	return list, at(said[from-1]), false
}

// compression returns how many times smaller compression makes a text: more where it repeats itself.
func compression(text string) float64 {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write([]byte(text)) // a buffer does not fail
	_ = w.Close()
	return float64(len(text)) / float64(out.Len())
}

// empty reports whether a segment has nothing to tell.
func (s *Segment) empty() bool { return s.Start == s.End || strings.TrimSpace(s.Text) == "" }
