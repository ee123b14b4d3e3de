package transcribe

import (
	"math"
	"slices"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// rule changes the logits of what may follow the tokens that were said of a window, so that times come as Whisper was
// trained (Radford et al. 2022; the rules are those of its reference implementation): a text begins with a time, of
// the first second; times come in pairs but for the first and the last, and never go back; and where it is likelier
// that any time comes than the likeliest other token, one comes.
func (v *Vocabulary) rule(said []int32, logits []float32) {
	never := float32(math.Inf(-1))
	ban := func(from, to int32) {
		for i := max(from, 0); i < min(to, int32(len(logits))); i++ {
			logits[i] = never
		}
	}
	const first = Step // the first time is at most one second
	ban(v.noTimes, v.noTimes+1)
	n := len(said)
	if n == 0 {
		if v.blank >= 0 {
			ban(v.blank, v.blank+1)
		}
		ban(0, v.times)
		ban(v.times+first+1, int32(len(logits)))
		return
	}
	last := v.isTime(said[n-1])
	pair := n < 2 || v.isTime(said[n-2])
	switch {
	case last && pair: // text follows
		ban(v.times, int32(len(logits)))
	case last: // its second one follows, or the end
		ban(0, v.end)
	}
	if i := lastTime(v, said); i >= 0 {
		from := said[i]
		if !last || pair { // no text takes no time
			from++
		}
		ban(v.times, from)
	}
	if v.timesPrevail(logits) {
		ban(0, v.times)
	}
}

// lastTime returns where the last time is, -1 if there is none.
func lastTime(v *Vocabulary, said []int32) int {
	for i := len(said) - 1; i >= 0; i-- {
		if v.isTime(said[i]) {
			return i
		}
	}
	return -1
}

// timesPrevail reports whether all times together are likelier than the likeliest of the other tokens.
func (v *Vocabulary) timesPrevail(logits []float32) bool {
	text, times := slices.Max(logits[:v.times]), logits[v.times:]
	top := slices.Max(times)
	if !(top > -math.MaxFloat32) { // there are none
		return false
	}
	var sum float64
	for _, m := range kernel.WeighLogits(nil, times, top, math.Log2E, -math.MaxFloat32, math.MaxFloat32) {
		sum += float64(m.Sum)
	}
	return exactmath.QuickLog(sum) > float64(text)-float64(top)
}
