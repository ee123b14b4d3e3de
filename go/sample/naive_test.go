package sample

import (
	"math"
	"slices"
	"sort"
)

// naive is the chain written for the reader: copy everything, sort everything,
// one filter after the other. accepted are all tokens so far.
type naive struct {
	Params
	accepted []int32
}

// kept returns what passes the filters, larger logits first.
func (n naive) kept(logits []float32) []token {
	ts := n.penalized(logits)
	sort.SliceStable(ts, func(i, j int) bool { return ts[i].Logit > ts[j].Logit })
	if len(ts) > 0 && ts[0].Logit == inf {
		return ts[:1] // certain
	}
	if n.TopK > 0 && n.TopK < len(ts) {
		ts = ts[:n.TopK]
	}
	if n.TopP < 1 && len(ts) > 0 {
		probs := softmax(ts, 1)
		sum, cut := 0.0, 0
		for cut < len(ts) {
			sum += probs[cut]
			cut++
			if sum >= float64(n.TopP) {
				break
			}
		}
		ts = ts[:cut]
	}
	if n.MinP > 0 && len(ts) > 0 {
		probs := softmax(ts, 1)
		cut := 1
		for cut < len(ts) && probs[cut] >= float64(n.MinP)*probs[0] {
			cut++
		}
		ts = ts[:cut]
	}
	return ts
}

// penalized returns the tokens that can be chosen at all, in order of id.
func (n naive) penalized(logits []float32) []token {
	last := n.accepted
	if n.RepeatLastN >= 0 && n.RepeatLastN < len(last) {
		last = last[len(last)-n.RepeatLastN:]
	}
	var ts []token
	for id, v := range logits {
		times := 0
		for _, a := range last {
			if int(a) == id {
				times++
			}
		}
		if times > 0 {
			if v > 0 {
				v = v / n.RepeatPenalty
			} else {
				v = v * n.RepeatPenalty
			}
			v -= float32(times)*n.FrequencyPenalty + n.PresencePenalty
		}
		if v == v && !math.IsInf(float64(v), -1) {
			ts = append(ts, token{ID: int32(id), Logit: v})
		}
	}
	return ts
}

// softmax returns the probabilities of ts at a temperature.
func softmax(ts []token, temp float64) []float64 {
	top := slices.MinFunc(ts, inOrder).Logit
	probs := make([]float64, len(ts))
	sum := 0.0
	for i, t := range ts {
		probs[i] = math.Exp((float64(t.Logit) - float64(top)) / temp)
		sum += probs[i]
	}
	for i := range probs {
		probs[i] /= sum
	}
	return probs
}
