package transcribe

import "math"

// Rule and Noise are for tests in other packages.
func (v *Vocabulary) Rule(said []int32, logits []float32) { v.rule(said, logits) }

var Noise = noise

// Alignment is alignment in positions.
func Alignment(scores [][][]float32, lead int) (positions []int) {
	for _, at := range alignment(scores, lead) {
		positions = append(positions, int(math.Round(at*Step)))
	}
	return positions
}

// Weights are what the scores of a token weigh.
func Weights(row []float32) []float64 { return softmax(row) }
