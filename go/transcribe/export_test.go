package transcribe

// Rule and Noise are for tests in other packages.
func (v *Vocabulary) Rule(said []int32, logits []float32) { v.rule(said, logits) }

var Noise = noise
